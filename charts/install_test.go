package charts_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/check"
)

// The check before an installation asks for the permissions that it needs. --create-namespace creates the namespace.
func TestCheckAsksForAllThatIsInstalled(t *testing.T) {
	created := sets.New(schema.GroupResource{Resource: "namespaces"})
	for _, object := range render(t, "--include-crds") {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		created.Insert(resource.GroupResource())
	}
	if diff := cmp.Diff(created, sets.New(check.InstalledResources()...)); diff != "" {
		t.Errorf("resources that the chart creates -, and that are checked +\n%s", diff)
	}
}
