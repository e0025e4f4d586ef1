package webhook

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

func TestABrokenGlassLetsAPodGo(t *testing.T) {
	tight := func() *v1alpha1.PodProtector { return deskProtector("web", 5, 5) }
	for claim, c := range map[string]struct {
		protectors []*v1alpha1.PodProtector
		prepare    func(*desk)
		over       removal.VerdictReason
		reserved   int
	}{
		"although the floor breaks":        {protectors: []*v1alpha1.PodProtector{tight()}, over: "NoBudget", reserved: 1},
		"although one of several refuses":  {protectors: []*v1alpha1.PodProtector{deskProtector("api", 1, 5), tight()}, over: "NoBudget", reserved: 2},
		"although the floor is not known":  {protectors: []*v1alpha1.PodProtector{func() *v1alpha1.PodProtector { p := tight(); p.Spec.MinAvailable = nil; return p }()}, over: "FloorUnknown", reserved: 1},
		"although nobody has counted yet":  {protectors: []*v1alpha1.PodProtector{func() *v1alpha1.PodProtector { p := tight(); p.Status.Cells = nil; return p }()}, over: "NeverAggregated"},
		"although the core cannot be read": {protectors: []*v1alpha1.PodProtector{tight()}, over: removal.VerdictUnknown, prepare: func(d *desk) { d.core.read.Store(false) }},
		"although the core does not answer": {protectors: []*v1alpha1.PodProtector{tight()}, over: removal.VerdictUnreachable, prepare: func(d *desk) {
			d.suffer(func(func() error) error { return errors.New("no route to host") })
		}},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newDesk(t, c.protectors...)
			if c.prepare != nil {
				c.prepare(d)
			}
			answer := d.remove(t.Context(), forced(deskPod("web-0")))
			if !answer.Allowed || answer.Verdict != removal.VerdictForced || answer.Audit()[v1alpha1.AuditForcedOver] != string(c.over) {
				t.Fatalf("allowed %v, audit %v, want it forced over %s", answer.Allowed, answer.Audit(), c.over)
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

func TestABrokenGlassIsNotNeededWhereThereIsBudget(t *testing.T) {
	d := newDesk(t, deskProtector("web", 1, 5))
	if answer := d.remove(t.Context(), forced(deskPod("web-0"))); answer.Verdict != removal.VerdictReserved || answer.Forced != nil {
		t.Errorf("verdict %s, forced %+v", answer.Verdict, answer.Forced)
	}
}

func TestOnlyTrueBreaksTheGlass(t *testing.T) {
	for _, value := range []string{"", "false", "True", "yes"} {
		pod := deskPod("web-0")
		pod.Annotations = map[string]string{v1alpha1.AnnotationForceDelete: value}
		if answer := newDesk(t, deskProtector("web", 5, 5)).remove(t.Context(), pod); answer.Allowed {
			t.Errorf("%q breaks the glass", value)
		}
	}
}

func TestWhoBreaksTheGlassIsTold(t *testing.T) {
	d := newDesk(t, deskProtector("web", 5, 5))
	pod := forced(deskPod("web-0"))
	pod.Annotations[v1alpha1.AnnotationForceReason] = "node 7\nis on fire"
	d.protect(context.Background(), deskCell, removal.Request{
		Operation: v1alpha1.OperationDelete, Namespace: pod.Namespace, PodName: pod.Name, Pod: pod, User: "alice",
	})
	var event string
	select {
	case event = <-d.events.Events:
	default:
		t.Fatal("no event")
	}
	for _, part := range []string{"RemovalForced", `Pod "web-0"`, "NoBudget", `"alice"`, `"node 7 is on fire"`} {
		if !strings.Contains(event, part) {
			t.Errorf("the event does not say %q: %s", part, event)
		}
	}
}

// The annotation must exist on the pod in its cell; an annotation only in the review has no effect.
func TestAForgedReviewDoesNotBreakTheGlass(t *testing.T) {
	for claim, c := range map[string]struct {
		stored func(*corev1.Pod)
		broken error
		want   removal.VerdictReason
	}{
		"of a pod that is annotated":        {func(p *corev1.Pod) { forced(p) }, nil, removal.VerdictForced},
		"of a pod that is not":              {func(*corev1.Pod) {}, nil, "NoBudget"},
		"of another pod of its name":        {func(p *corev1.Pod) { forced(p).UID = "other" }, nil, "NoBudget"},
		"of a pod that does not exist":      {func(p *corev1.Pod) { p.Name = "web-1" }, nil, removal.VerdictNoPod},
		"of a pod that cannot be read":      {func(p *corev1.Pod) { forced(p) }, errors.New("unreachable"), removal.VerdictUnknown},
		"of a pod whose annotation is else": {func(p *corev1.Pod) { forced(p).Annotations[v1alpha1.AnnotationForceDelete] = "false" }, nil, "NoBudget"},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newDesk(t, deskProtector("web", 5, 5))
			stored := deskPod("web-0")
			c.stored(stored)
			cell := kubernetesfake.NewClientset(stored)
			cell.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return c.broken != nil, nil, c.broken })
			d.cells.named[deskCell] = cell
			raw, err := json.Marshal(forced(deskPod("web-0")))
			if err != nil {
				t.Fatal(err)
			}
			answer := d.Review(t.Context(), deskCell, &admissionv1.AdmissionRequest{
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
