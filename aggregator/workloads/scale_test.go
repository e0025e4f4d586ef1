package workloads

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
)

// A watch that is late shows the workload that was deleted, and a read by name finds its successor.
func TestScaleOfAnotherObjectIsNotTheWorkloads(t *testing.T) {
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	client.PrependReactor("get", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		scale := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "autoscaling/v1", "kind": "Scale",
			"spec": map[string]any{"replicas": int64(12)}, "status": map[string]any{"selector": "app=web"},
		}}
		scale.SetUID("new")
		return true, scale, nil
	})
	w := &workloads{dynamic: client}
	for uid, want := range map[types.UID]string{"new": "", "old": "was deleted and created again"} {
		o := snapshot.Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: uid}
		got, err := w.readSize(t.Context(), appsv1.SchemeGroupVersion.WithResource("deployments"), o, "shop")
		switch {
		case want == "" && (err != nil || got.replicas != 12):
			t.Errorf("the scale of the workload: %+v, %v, want 12 replicas", got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("the scale of its successor: %+v, %v, want an error that contains %q", got, err, want)
		}
	}
}

// The workload is deleted, and another one of its name is created between the read of its scale and that of its metadata. An expected workload without a
// scale would be expected no more.
func TestSuccessorShowsNotThatAWorkloadHasNoScale(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w := &workloads{dynamic: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), metadata: metadatafake.NewSimpleMetadataClient(scheme,
		&metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "new"},
		})}
	for uid, want := range map[types.UID]bool{"new": true, "": true, "old": false} {
		o := snapshot.Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: uid}
		if got, err := w.readSize(t.Context(), appsv1.SchemeGroupVersion.WithResource("deployments"), o, "shop"); (err == nil) != want || got.hasScale {
			t.Errorf("the scale of a workload with the UID %q: %+v, %v, want none without an error: %v", uid, got, err, want)
		}
	}
}
