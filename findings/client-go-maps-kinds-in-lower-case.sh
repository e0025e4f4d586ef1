#!/usr/bin/env bash
# client-go v0.37.2, restmapper: the mapper that it builds from discovery, which most controllers use, also knows each kind in lower
# case, although the API server serves no such kind. RESTMapping of "rollout" is no NoKindMatchError: it returns the resource, and a GroupVersionKind
# whose kind is "rollout". KindFor of the resource returns the kind as it is served. Upper case is not found.
#
# So a kind from a label, a reference or a user's text that was misspelt in this way names an object that can be read, watched and owned, and that differs
# from its twin in every map, queue and index whose key has the kind: one object is two.
#
# Output seen:
#   RESTMapping(Rollout): rollouts, kind Rollout
#   RESTMapping(rollout): rollouts, kind rollout
#   RESTMapping(ROLLOUT): no matches for kind "ROLLOUT" in group "argoproj.io"
#   KindFor(rollouts): Rollout
#
# What helps: compare the kind with that of KindFor of the mapped resource.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
export CGO_ENABLED=0 GOFLAGS=-mod=mod
cat >go.mod <<'EOF'
module finding

go 1.26

require (
	k8s.io/apimachinery v0.37.2
	k8s.io/client-go v0.37.2
)
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"
)

func main() {
	version := metav1.GroupVersionForDiscovery{GroupVersion: "argoproj.io/v1alpha1", Version: "v1alpha1"}
	mapper := restmapper.NewDiscoveryRESTMapper([]*restmapper.APIGroupResources{{
		Group: metav1.APIGroup{Name: "argoproj.io", Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version},
		VersionedResources: map[string][]metav1.APIResource{"v1alpha1": {
			{Name: "rollouts", SingularName: "rollout", Namespaced: true, Kind: "Rollout"},
		}},
	}})
	for _, kind := range []string{"Rollout", "rollout", "ROLLOUT"} {
		mapping, err := mapper.RESTMapping(schema.GroupKind{Group: "argoproj.io", Kind: kind})
		if err != nil {
			fmt.Printf("RESTMapping(%s): %v\n", kind, err)
			continue
		}
		fmt.Printf("RESTMapping(%s): %s, kind %s\n", kind, mapping.Resource.Resource, mapping.GroupVersionKind.Kind)
	}
	served, err := mapper.KindFor(schema.GroupVersionResource{Group: "argoproj.io", Resource: "rollouts"})
	if err != nil {
		panic(err)
	}
	fmt.Printf("KindFor(rollouts): %s\n", served.Kind)
}
EOF
go mod tidy >/dev/null 2>&1
got=$(go run .)
echo "$got"
want='RESTMapping(Rollout): rollouts, kind Rollout
RESTMapping(rollout): rollouts, kind rollout
RESTMapping(ROLLOUT): no matches for kind "ROLLOUT" in group "argoproj.io"
KindFor(rollouts): Rollout'
if [ "$got" != "$want" ]; then
	echo "the behavior has changed" >&2
	exit 1
fi
