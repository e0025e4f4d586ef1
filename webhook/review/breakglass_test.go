package review

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func forced(p *corev1.Pod) *corev1.Pod {
	p.Annotations = map[string]string{v1alpha1.AnnotationForceDelete: "true"}
	return p
}

func TestBreakGlassAdmitsRemoval(t *testing.T) {
	tight := func() *v1alpha1.PodProtector { return memoryProtector("web", 5, 5) }
	for claim, c := range map[string]struct {
		protectors []*v1alpha1.PodProtector
		prepare    func(*memoryFixture)
		over       removal.VerdictReason
		reserved   int
	}{
		"below the floor":                         {protectors: []*v1alpha1.PodProtector{tight()}, over: "NoBudget", reserved: 1},
		"with one of several protectors refusing": {protectors: []*v1alpha1.PodProtector{memoryProtector("api", 1, 5), tight()}, over: "NoBudget", reserved: 2},
		"with an unknown floor":                   {protectors: []*v1alpha1.PodProtector{func() *v1alpha1.PodProtector { p := tight(); p.Spec.MinAvailable = nil; return p }()}, over: "FloorUnknown", reserved: 1},
		"before the first count":                  {protectors: []*v1alpha1.PodProtector{func() *v1alpha1.PodProtector { p := tight(); p.Status.Cells = nil; return p }()}, over: "NeverAggregated"},
		"with an unresponsive core after the denial of another protector": {
			protectors: []*v1alpha1.PodProtector{memoryProtector("api", 3, 3), tight()}, over: "NoBudget", reserved: 1,
			prepare: func(d *memoryFixture) {
				writes := 0
				d.setFault(func(write func() error) error {
					if writes++; writes > 1 {
						return errors.New("no route to host")
					}
					return write()
				})
			},
		},
		"with an unreadable core": {protectors: []*v1alpha1.PodProtector{tight()}, over: removal.VerdictUnknown, prepare: func(d *memoryFixture) { d.core.Synced.Store(false) }},
		"with an unresponsive core": {protectors: []*v1alpha1.PodProtector{tight()}, over: removal.VerdictUnreachable, prepare: func(d *memoryFixture) {
			d.setFault(func(func() error) error { return errors.New("no route to host") })
		}},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newMemoryFixture(t, c.protectors...)
			if c.prepare != nil {
				c.prepare(d)
			}
			answer := d.remove(t.Context(), forced(memoryPod("web-0")))
			if !answer.Allowed || answer.Verdict != removal.VerdictForced || answer.Audit()[v1alpha1.AuditForcedOver] != string(c.over) {
				t.Fatalf("allowed %v, audit %v, want the overridden verdict %s", answer.Allowed, answer.Audit(), c.over)
			}
			reserved := 0
			for _, p := range c.protectors {
				reserved += quota.BudgetOf(d.stored(t, p.Name)).Reserved
			}
			if reserved != c.reserved {
				t.Errorf("%d reservations, want %d", reserved, c.reserved)
			}
		})
	}
}

func TestBreakGlassWithBudgetOverridesNothing(t *testing.T) {
	d := newMemoryFixture(t, memoryProtector("web", 1, 5))
	if answer := d.remove(t.Context(), forced(memoryPod("web-0"))); answer.Verdict != removal.VerdictReserved || answer.Overridden != nil {
		t.Errorf("verdict %s, override %+v; want no override", answer.Verdict, answer.Overridden)
	}
}

func TestBreakGlassRequiresValueTrue(t *testing.T) {
	for _, value := range []string{"", "false", "True", "yes"} {
		pod := memoryPod("web-0")
		pod.Annotations = map[string]string{v1alpha1.AnnotationForceDelete: value}
		if answer := newMemoryFixture(t, memoryProtector("web", 5, 5)).remove(t.Context(), pod); answer.Allowed {
			t.Errorf("annotation value %q overrode the denial, want it denied", value)
		}
	}
}

func TestBreakGlassAnswerHasWarning(t *testing.T) {
	d := newMemoryFixture(t, memoryProtector("web", 5, 5))
	pod := forced(memoryPod("web-0"))
	pod.Annotations[v1alpha1.AnnotationForceReason] = "node 7\nis on fire"
	d.decided(context.Background(), removal.Request{
		Operation: v1alpha1.OperationDelete, Namespace: pod.Namespace, PodName: pod.Name, Pod: removal.NewPod(pod), User: "alice",
	})
	var event string
	select {
	case event = <-d.events.Events:
	default:
		t.Fatal("got no event, want one")
	}
	for _, part := range []string{"RemovalForced", `Pod "web-0"`, "NoBudget", `"alice"`, `"node 7 is on fire"`} {
		if !strings.Contains(event, part) {
			t.Errorf("event lacks %q: %s", part, event)
		}
	}
}

// The annotation must exist on the pod in its cell; an annotation only in the review has no effect.
func TestForgedReviewCannotBreakGlass(t *testing.T) {
	for claim, c := range map[string]struct {
		stored func(*corev1.Pod)
		broken error
		want   removal.VerdictReason
	}{
		"of an annotated pod":                    {func(p *corev1.Pod) { forced(p) }, nil, removal.VerdictForced},
		"of a pod without annotation":            {func(*corev1.Pod) {}, nil, "NoBudget"},
		"of a pod with another UID":              {func(p *corev1.Pod) { forced(p).UID = "other" }, nil, "NoBudget"},
		"of a missing pod":                       {func(p *corev1.Pod) { p.Name = "web-1" }, nil, removal.VerdictNoPod},
		"of an unreadable pod":                   {func(p *corev1.Pod) { forced(p) }, errors.New("unreachable"), removal.VerdictUnknown},
		"of a pod with another annotation value": {func(p *corev1.Pod) { forced(p).Annotations[v1alpha1.AnnotationForceDelete] = "false" }, nil, "NoBudget"},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newMemoryFixture(t, memoryProtector("web", 5, 5))
			stored := memoryPod("web-0")
			c.stored(stored)
			cell := kubernetesfake.NewClientset(stored)
			cell.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return c.broken != nil, nil, c.broken })
			d.cells.static[memoryCell] = cell
			raw, err := json.Marshal(forced(memoryPod("web-0")))
			if err != nil {
				t.Fatal(err)
			}
			answer := d.Review(t.Context(), memoryCell, &admissionv1.AdmissionRequest{
				Operation: admissionv1.Delete, Namespace: "default", Name: "web-0", OldObject: runtime.RawExtension{Raw: raw},
				Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			})
			if answer.Verdict != c.want || answer.Allowed != (c.want == removal.VerdictForced) {
				t.Errorf("allowed %t with verdict %s, want %s", answer.Allowed, answer.Verdict, c.want)
			}
			want := 0
			if answer.Allowed {
				want = 1
			}
			if reserved := quota.BudgetOf(d.stored(t, "web")).Reserved; reserved != want {
				t.Errorf("%d reservations, want %d", reserved, want)
			}
		})
	}
}
