package workloads

import (
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// The pods of a second workload are counted. Its number was never known, because its scale fails or may not be read: what was expected before does not
// include it, so the floor is unknown (docs/concepts/overview.md: "an object whose scale fails or may not be read, directly above the pods: unknown").
func TestPodsOfAWorkloadWhoseScaleCannotBeReadAreExpected(t *testing.T) {
	scales := schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	for claim, failure := range map[string]error{
		"it fails":              apierrors.NewInternalError(errors.New("no replicas")),
		"it may not be read":    apierrors.NewForbidden(scales, "cache", errors.New("no")),
		"the server is loaded":  apierrors.NewTooManyRequests("later", 1),
		"the server is stopped": apierrors.NewServiceUnavailable("no"),
	} {
		t.Run(claim, func(t *testing.T) {
			scheme := metadatafake.NewTestScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			set := func(name string) *metav1.PartialObjectMetadata {
				return &metav1.PartialObjectMetadata{
					TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "1", Generation: 1},
				}
			}
			dynamic := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
			dynamic.PrependReactor("get", "statefulsets", func(a clienttesting.Action) (bool, runtime.Object, error) {
				name := a.(clienttesting.GetAction).GetName()
				if name == "cache" {
					return true, nil, failure
				}
				scale := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{"replicas": int64(10)}, "status": map[string]any{"selector": "app=web"},
				}}
				scale.SetUID(types.UID(name))
				return true, scale, nil
			})
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), meta.RESTScopeNamespace)
			r := NewResolver(workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()), time.Now, logr.Discard())
			objects := metadatafake.NewSimpleMetadataClient(scheme, set("db"), set("cache"))
			objects.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
				if w, ok := a.(clienttesting.WatchActionImpl); ok && w.ListOptions.SendInitialEvents != nil { // the fake streams no lists
					return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil)
				}
				return false, nil, nil
			})
			r.Watch(t.Context(), objects, dynamic, mapper)

			half := intstr.FromString("50%")
			p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "all"}, Spec: v1alpha1.PodProtectorSpec{MinAvailable: &half}}
			owner := func(name string) snapshot.Owner {
				return snapshot.Owner{APIVersion: "apps/v1", Kind: "StatefulSet", Name: name, UID: types.UID(name)}
			}
			count := func(stored v1alpha1.Aggregation, pods map[snapshot.Owner]int32) v1alpha1.Aggregation {
				now, sum := v1alpha1.Aggregation{CountedSpec: quota.CountedSpec(&p.Spec)}, int32(0)
				for _, n := range pods {
					sum += n
				}
				now.CountedReplicas = sum
				r.Expect(t.Context(), p, &stored, &now, &snapshot.Count{Owners: pods, OwnerLabels: map[snapshot.Owner][]*snapshot.LabelSet{}})
				return now
			}
			first := count(v1alpha1.Aggregation{}, map[snapshot.Owner]int32{owner("db"): 10})
			if first.ExpectedReplicas == nil || *first.ExpectedReplicas != 10 {
				t.Fatalf("expected %v, want 10: %s", first.ExpectedReplicas, first.ExpectedReplicasProblem)
			}
			now := first
			for range 3 {
				now = count(now, map[snapshot.Owner]int32{owner("db"): 10, owner("cache"): 10})
			}
			p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a", Aggregation: now}}
			if floor, known := quota.Floor(p); known {
				t.Errorf("the floor is %d of %d pods, %d may be removed; want it unknown", floor, now.CountedReplicas, quota.BudgetOf(p).Left())
			}
		})
	}
}
