package webhook_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/webhook"
)

// What of a change makes a pod unavailable: what restarts one of its containers, or ends it earlier.
func TestWhatAnUpdateRestarts(t *testing.T) {
	const (
		before = `{"name":"web-0","namespace":"default","uid":"u","generation":4}`
		status = `"status":{"containerStatuses":[{"name":"web","restartCount":2},{"name":"log"}],"initContainerStatuses":[{"name":"mesh","restartCount":7}]}`
		web    = `{"name":"web","image":"web:1","resizePolicy":[{"resourceName":"cpu","restartPolicy":"NotRequired"},{"resourceName":"memory","restartPolicy":"RestartContainer"}],
			"resources":{"requests":{"cpu":"1","memory":"1Gi"}}}`
		logs = `{"name":"log","image":"log:1"}`
		init = `{"name":"init","image":"init:1"},{"name":"mesh","image":"mesh:1","restartPolicy":"Always"}`
	)
	pod := func(metadata, containers, inits, more string) string {
		return fmt.Sprintf(`{"metadata":%s,"spec":{"nodeName":"n","containers":[%s],"initContainers":[%s]%s},%s}`, metadata, containers, inits, more, status)
	}
	all := []v1alpha1.ContainerRestarts{{Name: "web", Restarts: 3}, {Name: "log", Restarts: 1}, {Name: "mesh", Restarts: 8}}
	for claim, c := range map[string]struct {
		subresource                   string
		containers, inits, more, from string
		want                          []v1alpha1.ContainerRestarts
	}{
		"nothing":                                {containers: web + "," + logs, inits: init},
		"another image":                          {containers: strings.Replace(web, "web:1", "web:2", 1) + "," + logs, inits: init, want: all[:1]},
		"two images":                             {containers: strings.Replace(web, "web:1", "web:2", 1) + "," + strings.Replace(logs, "log:1", "log:2", 1), inits: init, want: all[:2]},
		"an init container, which has ended":     {containers: web + "," + logs, inits: strings.Replace(init, "init:1", "init:2", 1)},
		"a sidecar":                              {containers: web + "," + logs, inits: strings.Replace(init, "mesh:1", "mesh:2", 1), want: all[2:]},
		"a toleration":                           {containers: web + "," + logs, inits: init, more: `,"tolerations":[{"key":"a"}]`},
		"an earlier end of the pod":              {containers: web + "," + logs, inits: init, more: `,"activeDeadlineSeconds":1`, want: all},
		"the end that it had":                    {containers: web + "," + logs, inits: init, more: `,"activeDeadlineSeconds":9`, from: `,"activeDeadlineSeconds":9`},
		"a later end":                            {containers: web + "," + logs, inits: init, more: `,"activeDeadlineSeconds":10`, from: `,"activeDeadlineSeconds":9`},
		"a resource that restarts its container": {subresource: "resize", containers: strings.Replace(web, "1Gi", "2Gi", 1) + "," + logs, inits: init, want: all[:1]},
		"a limit of it":                          {subresource: "resize", containers: strings.Replace(web, `"resources":{`, `"resources":{"limits":{"memory":"1Gi"},`, 1) + "," + logs, inits: init, want: all[:1]},
		"a resource that restarts nothing":       {subresource: "resize", containers: strings.Replace(web, `"cpu":"1"`, `"cpu":"2"`, 1) + "," + logs, inits: init},
		"a resource without a policy":            {subresource: "resize", containers: web + "," + strings.Replace(logs, `"image"`, `"resources":{"limits":{"memory":"9Gi"}},"image"`, 1), inits: init},
	} {
		t.Run(claim, func(t *testing.T) {
			review := asked(admissionv1.Update, c.subresource, pod(strings.Replace(before, "4", "5", 1), c.containers, c.inits, c.more))
			review.OldObject = runtime.RawExtension{Raw: []byte(pod(before, web+","+logs, init, c.from))}
			got, guarded, err := webhook.Parse(review)
			if err != nil || guarded != (c.want != nil) {
				t.Fatalf("guarded %v, error %v", guarded, err)
			}
			if !guarded {
				return
			}
			if diff := cmp.Diff(c.want, got.Containers); diff != "" || got.Generation != 5 || got.PodName != "web-0" || got.Pod.UID != "u" {
				t.Errorf("request %+v\ncontainers (-want +got):\n%s", got, diff)
			}
		})
	}
	t.Run("an apiserver that counts no generations", func(t *testing.T) {
		none := strings.Replace(before, `,"generation":4`, "", 1)
		review := asked(admissionv1.Update, "", pod(none, strings.Replace(web, "web:1", "web:2", 1), init, ""))
		review.OldObject = runtime.RawExtension{Raw: []byte(pod(none, web, init, ""))}
		if got, guarded, err := webhook.Parse(review); err != nil || !guarded || got.Generation != math.MaxInt64 {
			t.Errorf("request %+v, guarded %v, error %v", got, guarded, err)
		}
	})
}

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

// patchPod changes a pod in place, or a subresource of it.
func (l *lab) patchPod(pod *corev1.Pod, patch string, subresource ...string) error {
	l.Helper()
	to := client.RawPatch("application/strategic-merge-patch+json", []byte(patch))
	if len(subresource) > 0 {
		return l.client.SubResource(subresource[0]).Patch(l.Context(), pod.DeepCopy(), to)
	}
	return l.client.Patch(l.Context(), pod.DeepCopy(), to)
}

const newImage = `{"spec":{"containers":[{"name":"web","image":"web:2"}]}}`

func TestUpdatesInPlaceCostBudget(t *testing.T) {
	l := newLab(t)
	// A resize is for the node to allow.
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
	wantRefused(t, l.patchPod(pods[2], newImage), `refuses to update pod "web-2"`, "fewer pods available than its floor")
	wantRefused(t, l.patchPod(pods[2], `{"spec":{"containers":[{"name":"web","resources":{"requests":{"memory":"2Gi"}}}]}}`, "resize"), `refuses to resize pod "web-2"`)
	wantRefused(t, l.client.Delete(t.Context(), pods[2]), `refuses to remove pod "web-2"`)
	if err := l.patchPod(pods[0], `{"spec":{"containers":[{"name":"web","image":"web:3"}]}}`); err != nil {
		t.Errorf("a second update of a pod that is paid for: %v", err)
	}
	l.wantReserved("web", 2)
	bucket := l.protector("web").Status.Cells[0].AdmissionHistory.Buckets
	for _, b := range bucket {
		if b.PodName == "web-0" && (b.Operation != v1alpha1.OperationUpdate || b.Generation < 3 || len(b.Containers) != 1 || b.Containers[0].Restarts != 2) {
			t.Errorf("reserved %+v", b)
		}
	}
}

func TestUpdatesPassWhereNobodyGuardsThem(t *testing.T) {
	l := newLab(t)
	l.protect("web", 5, 5)
	pods := l.pods(5)
	l.serve().guard()
	if err := l.patchPod(pods[0], newImage); err != nil {
		t.Error(err)
	}
	wantRefused(t, l.client.Delete(t.Context(), pods[0]), "fewer pods available than its floor")
}

func TestRemovalsPassWhereUpdatesAloneAreGuarded(t *testing.T) {
	l := newLab(t)
	l.protect("web", 5, 5, func(spec *v1alpha1.PodProtectorSpec) {
		spec.Operations = []v1alpha1.Operation{v1alpha1.OperationUpdate}
	})
	pods := l.pods(5)
	l.serve().guard()
	wantRefused(t, l.patchPod(pods[0], newImage), "fewer pods available than its floor")
	if err := l.client.Delete(t.Context(), pods[0]); err != nil {
		t.Error(err)
	}
}
