package provider_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// model is an object that Terraform creates, and that other providers then copy with a manifest.
type model struct {
	*shape.Definition
	kind, fields, namespace, name string
	// manifest is the path of the object's manifest.
	manifest string
}

// metadata returns the identity of an object, in the syntax of a configuration or of a manifest.
func (m model) metadata(name string) string {
	if !m.Namespaced {
		return fmt.Sprintf("name = %q", m.namespace+"-"+name)
	}
	return fmt.Sprintf("namespace = %q\n name = %q", m.namespace, name)
}

// copied returns the fields of the copies, without the attributes that control how Terraform manages the object. Manifests do not
// have these.
func (m model) copied() string {
	return strings.NewReplacer(behaviour, "\n labels = { team = \"shop\" }\n annotations = { \"example.com/note\" = \"by Terraform\" }",
		"deletion_protection = false", "").Replace(m.fields)
}

// write writes the manifest of the object in the cluster, as a user who wants exactly this object would.
func (m model) write(t *testing.T) {
	t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(m.Kind)
	key := client.ObjectKey{Namespace: m.namespace, Name: m.name}
	if !m.Namespaced {
		key = client.ObjectKey{Name: m.namespace + "-" + m.name}
	}
	if err := testplane.Client(t).Get(t.Context(), key, live); err != nil {
		t.Fatal(err)
	}
	spec, _ := live.Object["spec"].(map[string]any)
	if !strings.Contains(m.fields, "admission_history") {
		delete(spec, "admissionHistory")
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": live.GetAPIVersion(), "kind": live.GetKind(), "spec": spec,
		"metadata": map[string]any{"labels": live.GetLabels(), "annotations": live.GetAnnotations()}})
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, m.manifest, raw)
}

func TestMoveKeepsEveryField(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace, folder := testplane.Namespace(t), t.TempDir()
		var models []model
		made, copied, moved, free := "", "", "", ""
		for i, name := range slices.Sorted(maps.Keys(everyField())) {
			kind, what, _ := strings.Cut(name, "/")
			if what == "empty" {
				continue // an object does not store empty values
			}
			m := model{Definition: definitions(t)[kind], kind: kind, fields: everyField()[name], namespace: namespace, name: fmt.Sprintf("it-%d", i)}
			m.manifest = filepath.Join(folder, m.name+".json")
			models = append(models, m)
			made += fmt.Sprintf("resource \"breakwater_%s\" %q {\n%s\n%s\n}\n", kind, m.name, m.metadata(m.name), m.fields)
			f := formers()[i%2*2] // one of each kind
			f.name = m.name + "-" + f.name
			copied += f.created("merge(jsondecode(file(%q)), { metadata = merge(jsondecode(file(%[1]q)).metadata, {\n%s\n}) })", m.manifest, m.metadata(f.name))
			moved += f.moved(kind, "%s\n%s", m.metadata(f.name), m.copied())
			free += f.moved(kind, "%s\n%s\n deletion_protection = false", m.metadata(f.name), m.copied())
		}
		runMoves(t, resource.TestCase{Steps: []resource.TestStep{
			{Config: made, Check: func(*terraform.State) error {
				for _, m := range models {
					m.write(t)
				}
				return nil
			}},
			{Config: made + copied},
			{Config: made + moved, ConfigPlanChecks: nothingToDo},
			{Config: made + free},
		}})
	})
}
