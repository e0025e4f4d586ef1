package webhook_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func guardsUpdates(spec *v1alpha1.PodProtectorSpec) {
	spec.Operations = []v1alpha1.Operation{
		v1alpha1.OperationDelete, v1alpha1.OperationEvict, v1alpha1.OperationUpdate, v1alpha1.OperationResize,
	}
}

func resizable(p *corev1.Pod) {
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourceCPU: resource.MustParse("1")}
	p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{
		{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
		{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
	}
}

// patchPod patches a pod, or a subresource of it.
func (l *fixture) patchPod(pod *corev1.Pod, patch string, subresource ...string) error {
	l.Helper()
	to := client.RawPatch("application/strategic-merge-patch+json", []byte(patch))
	if len(subresource) > 0 {
		return l.client.SubResource(subresource[0]).Patch(l.Context(), pod.DeepCopy(), to)
	}
	return l.client.Patch(l.Context(), pod.DeepCopy(), to)
}

const newImage = `{"spec":{"containers":[{"name":"web","image":"web:2"}]}}`

func TestInPlaceUpdatesConsumeBudget(t *testing.T) {
	l := newFixture(t)
	// The API server checks a resize against the node.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	if err := client.IgnoreAlreadyExists(l.client.Create(t.Context(), node)); err != nil {
		t.Fatal(err)
	}
	room := `{"status":{"allocatable":{"cpu":"1000","memory":"1000Gi","pods":"1000"}}}`
	if err := l.client.Status().Patch(t.Context(), node, client.RawPatch("application/merge-patch+json", []byte(room))); err != nil {
		t.Fatal(err)
	}
	l.protect("web", 3, 5, guardsUpdates)
	pods := l.pods(5, resizable)
	l.serve().guard()
	for what, patch := range map[string]string{
		"a label":      `{"metadata":{"labels":{"a":"b"}}}`,
		"a toleration": `{"spec":{"tolerations":[{"key":"a","operator":"Exists"}]}}`,
	} {
		if err := l.patchPod(pods[0], patch); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := l.patchPod(pods[0], `{"spec":{"containers":[{"name":"web","resources":{"requests":{"cpu":"2"}}}]}}`, "resize"); err != nil {
		t.Errorf("a resize that restarts nothing: %v", err)
	}
	l.wantReserved("web", 0)

	if err := l.patchPod(pods[0], newImage); err != nil {
		t.Fatal(err)
	}
	if err := l.patchPod(pods[1], `{"spec":{"containers":[{"name":"web","resources":{"requests":{"memory":"2Gi"}}}]}}`, "resize"); err != nil {
		t.Fatal(err)
	}
	l.wantReserved("web", 2)
	wantDenied(t, l.patchPod(pods[2], newImage), `refuses to update pod "web-2"`, "fewer pods available than its floor")
	wantDenied(t, l.patchPod(pods[2], `{"spec":{"containers":[{"name":"web","resources":{"requests":{"memory":"2Gi"}}}]}}`, "resize"), `refuses to resize pod "web-2"`)
	wantDenied(t, l.client.Delete(t.Context(), pods[2]), `refuses to remove pod "web-2"`)
	if err := l.patchPod(pods[0], `{"spec":{"containers":[{"name":"web","image":"web:3"}]}}`); err != nil {
		t.Errorf("second update of a charged pod: %v, want it admitted", err)
	}
	l.wantReserved("web", 2)
	bucket := l.protector("web").Status.Cells[0].AdmissionHistory.Buckets
	for _, b := range bucket {
		if b.PodName == "web-0" && (b.Operation != v1alpha1.OperationUpdate || b.Generation < 3 || len(b.Containers) != 1 || b.Containers[0].Restarts != 2) {
			t.Errorf("reserved %+v", b)
		}
	}
}

func TestUpdatesPassWithoutOperationUpdate(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 5)
	pods := l.pods(5)
	l.serve().guard()
	if err := l.patchPod(pods[0], newImage); err != nil {
		t.Error(err)
	}
	wantDenied(t, l.client.Delete(t.Context(), pods[0]), "fewer pods available than its floor")
}

func TestDeletesPassWithOnlyOperationUpdate(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 5, func(spec *v1alpha1.PodProtectorSpec) {
		spec.Operations = []v1alpha1.Operation{v1alpha1.OperationUpdate}
	})
	pods := l.pods(5)
	l.serve().guard()
	wantDenied(t, l.patchPod(pods[0], newImage), "fewer pods available than its floor")
	if err := l.client.Delete(t.Context(), pods[0]); err != nil {
		t.Error(err)
	}
}
