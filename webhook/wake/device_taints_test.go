package wake

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// Annotations of the pod or its owner do not wake the device taint eviction controller. Its condition on the pod is the only sign of a device taint.
func TestDeniedDeviceTaintEvictionIsEvictedLater(t *testing.T) {
	tainted := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reasonDeviceTaint}
	for claim, c := range map[string]struct {
		stored, reviewed corev1.PodCondition
		want             bool
	}{
		"when a device of the pod is tainted":             {tainted, tainted, true},
		"when the condition was written after the review": {tainted, corev1.PodCondition{}, true},
		"not when only the review has the condition":      {corev1.PodCondition{}, tainted, false},
		"not when the condition is no longer true":        {corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, Reason: reasonDeviceTaint}, tainted, false},
		"not when the scheduler wants to preempt it": {
			corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}, tainted, false,
		},
		"not when another condition has the reason": {corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: reasonDeviceTaint}, tainted, false},
	} {
		t.Run(claim, func(t *testing.T) {
			request, by, pod := deniedTo(deviceTaintEviction)
			stored := pod.DeepCopy()
			pod.Status.Conditions, stored.Status.Conditions = []corev1.PodCondition{c.reviewed}, []corev1.PodCondition{c.stored}
			request.Pod = removal.NewPod(pod)
			n, typed, _ := newTestRetrier(stored, owned(func(*metav1.PartialObjectMetadata) {}))
			n.Enqueue("cell", request, "NoBudget", by)
			n.retryEvictions(t.Context(), by, 1)
			got := slices.ContainsFunc(typed.Actions(), func(a clienttesting.Action) bool { return a.Matches("create", "pods/eviction") })
			if got != c.want {
				t.Errorf("evicted %v, want %v: %v", got, c.want, typed.Actions())
			}
		})
	}
}

func resourceClaim(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "claim"},
	}
}

// The disruption controller ends the condition of the pod after two minutes, and the device taint eviction waits for up to 1,000 seconds. A change of a
// claim of the pod is what makes it try again.
func TestDeviceTaintEvictionIsWokenByClaims(t *testing.T) {
	claims := func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{
			{Name: "own", ResourceClaimName: ptr.To("gpu")}, {Name: "template", ResourceClaimTemplateName: ptr.To("any")}, {Name: "deleted", ResourceClaimName: ptr.To("none")},
		}
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "template", ResourceClaimName: ptr.To("web-1-nic")}, {Name: "optional"}}
	}
	both := []string{"resourceclaims/gpu", "resourceclaims/web-1-nic"}
	for name, c := range map[string]struct {
		user   string
		stored func(*corev1.Pod)
		want   []string
	}{
		"of a pod whose condition has ended":    {deviceTaintEviction, claims, both},
		"when all controllers are one user":     {controllerManager, claims, both},
		"not for other controllers":             {serviceAccounts + "kube-system:replicaset-controller", claims, nil},
		"not of a pod without claims":           {deviceTaintEviction, func(*corev1.Pod) {}, nil},
		"not of another pod with the same name": {deviceTaintEviction, func(p *corev1.Pod) { claims(p); p.UID = "other" }, nil},
		"not of a pod that the webhook evicts": {deviceTaintEviction, func(p *corev1.Pod) {
			claims(p)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reasonDeviceTaint}}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			request, by, pod := deniedTo(c.user)
			stored := pod.DeepCopy()
			c.stored(stored)
			n, _, objects := newTestRetrier(stored, owned(func(*metav1.PartialObjectMetadata) {}), resourceClaim("gpu"), resourceClaim("web-1-nic"))
			now := time.Now()
			n.now = func() time.Time { return now }
			touched := func() (names []string) {
				for _, action := range objects.Actions() {
					if p, ok := action.(clienttesting.PatchAction); ok {
						names = append(names, action.GetResource().Resource+"/"+p.GetName())
						if !strings.Contains(string(p.GetPatch()), `"uid":"claim"`) {
							t.Errorf("patched with %s, want the UID of the claim", p.GetPatch())
						}
					}
				}
				objects.ClearActions()
				return names
			}
			for _, want := range [][]string{c.want, nil} { // the second denial follows at once
				n.Enqueue("cell", request, "NoBudget", by)
				n.retryEvictions(t.Context(), by, 1)
				if got := touched(); !slices.Equal(got, want) {
					t.Errorf("touched %q, want %q", got, want)
				}
			}
			now = now.Add(minWakeInterval)
			n.Enqueue("cell", request, "NoBudget", by)
			n.retryEvictions(t.Context(), by, 1)
			if got := touched(); !slices.Equal(got, c.want) {
				t.Errorf("touched %q after the pause, want %q", got, c.want)
			}
		})
	}
}
