package sharder

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// A list whose first version is compacted meanwhile continues. The test restarts the API server, so no other test must run at the same
// time.
func TestExpiredListContinues(t *testing.T) {
	namespace, admin := testplane.Namespace(t), testplane.Client(t)
	const objects = 30
	for i := range objects {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("c-%02d", i)}}
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	of, err := metadata.NewForConfig(testplane.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	c, r := cluster{of}, &resource{GroupResource: configMaps, version: "v1"}
	seen, options := map[string]int{}, metav1.ListOptions{Limit: 10}
	expired := 0
	for page := 0; ; page++ {
		list, err := c.list(t.Context(), r, options)
		if apierrors.IsResourceExpired(err) {
			expired++
			if options.Continue = continueToken(err); options.Continue == "" {
				t.Fatalf("API server returned no continue token: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			if o.Namespace == namespace {
				seen[o.Name]++
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
		if page == 0 {
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "later"}}
			if err := admin.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			testplane.Compact(t)
			testplane.RestartAPIServer(t) // it has snapshots of its own
		}
	}
	if expired == 0 || len(seen) != objects+1 {
		t.Errorf("list expired %d times and returned %d objects, want %d", expired, len(seen), objects+1)
	}
}
