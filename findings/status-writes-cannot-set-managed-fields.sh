#!/usr/bin/env bash
# Kubernetes v1.37.2 (k8s.io/apimachinery v0.37.2, util/managedfields): a client may replace metadata.managedFields by a write of the object, for
# example to hand fields over to the client that applies them. It cannot do so in the two writes where a controller that recreates a lost object has
# the chance anyway. In a write of the status, or of any other subresource, the entries that were sent are dropped without an error or a warning, and
# those of the stored object stay. In a create request they are read, but the creator then takes each field from them by force. The fields stay with
# the creator, and an owner that no longer applies one of them does not remove it.
#
# Output seen:
#   create:           spec.size is owned by creator (Update), and stays when shop applies nothing
#   update of status: spec.size is owned by creator (Update), and stays when shop applies nothing
#   update:           spec.size is owned by shop (Apply), and is removed when shop applies nothing
#
# What helps: a second write of the object itself, after it was created, that changes the managed fields alone.
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
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
)

var kind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

// widget returns an object whose spec.size shop owns by its managed fields, if owned is set.
func widget(owned bool) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	u.SetGroupVersionKind(kind)
	u.SetName("a")
	if owned {
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "shop", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "example.com/v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:size":{}}}`),
		}})
	}
	return u
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// report prints who owns spec.size, and what happens to it when shop applies an object without it.
func report(write string, m managedfieldstest.TestFieldManager) {
	var owners []string
	for _, entry := range m.ManagedFields() {
		if strings.Contains(entry.FieldsV1.GetRawString(), `"f:size"`) {
			owners = append(owners, fmt.Sprintf("%s (%s)", entry.Manager, entry.Operation))
		}
	}
	nothing := widget(false)
	delete(nothing.Object, "spec")
	must(m.Apply(nothing, "shop", false))
	after := "is removed"
	if _, stays, _ := unstructured.NestedInt64(m.Live().(*unstructured.Unstructured).Object, "spec", "size"); stays {
		after = "stays"
	}
	fmt.Printf("%-17s spec.size is owned by %s, and %s when shop applies nothing\n", write+":", strings.Join(owners, ", "), after)
}

func main() {
	converter := managedfields.NewDeducedTypeConverter()
	created := managedfieldstest.NewTestFieldManager(converter, kind)
	must(created.Update(widget(true), "creator"))
	report("create", created)
	for _, write := range []struct{ name, subresource string }{{"update of status", "status"}, {"update", ""}} {
		m := managedfieldstest.NewTestFieldManagerSubresource(converter, kind, write.subresource)
		must(m.Update(widget(false), "creator"))
		must(m.Update(widget(true), "creator"))
		report(write.name, m)
	}
}
EOF
got=$(go run .)
echo "$got"
diff - <(echo "$got") <<'EOF'
create:           spec.size is owned by creator (Update), and stays when shop applies nothing
update of status: spec.size is owned by creator (Update), and stays when shop applies nothing
update:           spec.size is owned by shop (Apply), and is removed when shop applies nothing
EOF
echo "as described"
