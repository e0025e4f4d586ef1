package explain

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain/live"
)

// The API server denies a patch with another UID than that of the stored pod.
func TestAnnotateNamesTheUIDOfThePod(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "uid-0"}}
	clientset := fake.NewClientset(pod)
	if err := annotate(context.Background(), &live.Cluster{Client: clientset}, pod, "fire"); err != nil {
		t.Fatal(err)
	}
	var patch metav1.PartialObjectMetadata
	for _, action := range clientset.Actions() {
		if p, ok := action.(clienttesting.PatchAction); ok {
			if err := json.Unmarshal(p.GetPatch(), &patch); err != nil {
				t.Fatal(err)
			}
		}
	}
	if patch.UID != pod.UID || len(patch.Annotations) != 2 {
		t.Errorf("annotate() sent the UID %q and annotations %v, want %q and two", patch.UID, patch.Annotations, pod.UID)
	}
}
