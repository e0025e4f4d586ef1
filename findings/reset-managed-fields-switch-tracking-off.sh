#!/usr/bin/env bash
# Kubernetes v1.37.2 (k8s.io/apimachinery v0.37.2, util/managedfields): an update that sets metadata.managedFields to one empty entry does more than
# clear the list. From then on no update records an owner, also one by another client or of the status: the API server tracks none until the next
# server-side apply. That makes updates of a custom resource cheaper for good. The price comes with that apply: one manager, before-first-apply, becomes
# the owner of everything that is in the object then. It owns the fields of the applier too, so a field that the applier drops in its next apply stays.
#
# Output seen:
#   created by a controller:       controller
#   managed fields reset:          none
#   updated by the controller:     none
#   updated by another client:     none
#   applied by shop:               before-first-apply, shop
#   applied by shop without size:  before-first-apply; size is still 1
#
# What helps: reset only objects that no client applies. Before the first apply of another one, remove what before-first-apply would keep, or remove its
# entry afterwards.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
export CGO_ENABLED=0 GOFLAGS=-mod=mod
cat >go.mod <<'EOF'
module finding

go 1.26

require k8s.io/apimachinery v0.37.2
EOF
cat >main.go <<'EOF'
package main

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
)

var kind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

func widget(spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(kind)
	u.SetName("a")
	u.SetUID("1") // as each object that exists has one
	return u
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func report(step string, m managedfieldstest.TestFieldManager, more string) {
	var owners []string
	for _, entry := range m.ManagedFields() {
		if strings.Contains(entry.FieldsV1.GetRawString(), `"f:size"`) {
			owners = append(owners, entry.Manager)
		}
	}
	slices.Sort(owners)
	if len(owners) == 0 {
		owners = []string{"none"}
	}
	fmt.Printf("%-30s %s%s\n", step+":", strings.Join(owners, ", "), more)
}

func main() {
	m := managedfieldstest.NewTestFieldManager(managedfields.NewDeducedTypeConverter(), kind)
	created := widget(map[string]any{"size": int64(1)})
	created.SetUID("")
	must(m.Update(created, "controller"))
	report("created by a controller", m, "")
	reset := widget(map[string]any{"size": int64(1)})
	reset.SetManagedFields([]metav1.ManagedFieldsEntry{{}})
	must(m.Update(reset, "controller"))
	report("managed fields reset", m, "")
	must(m.Update(widget(map[string]any{"size": int64(2)}), "controller"))
	report("updated by the controller", m, "")
	must(m.Update(widget(map[string]any{"size": int64(1), "color": "red"}), "other"))
	report("updated by another client", m, "")
	must(m.Apply(widget(map[string]any{"size": int64(1)}), "shop", false))
	report("applied by shop", m, "")
	must(m.Apply(widget(map[string]any{"color": "red"}), "shop", false))
	size, found, _ := unstructured.NestedInt64(m.Live().(*unstructured.Unstructured).Object, "spec", "size")
	after := "; size is gone"
	if found {
		after = fmt.Sprintf("; size is still %d", size)
	}
	report("applied by shop without size", m, after)
}
EOF
got=$(go run .)
echo "$got"
diff - <(echo "$got") <<'EOF'
created by a controller:       controller
managed fields reset:          none
updated by the controller:     none
updated by another client:     none
applied by shop:               before-first-apply, shop
applied by shop without size:  before-first-apply; size is still 1
EOF
echo "as described"
