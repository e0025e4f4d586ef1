package wake

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func TestWaitlistPopsInOrder(t *testing.T) {
	w := waitlist[string, int]{}
	take := func(protector Protector, most int) (names []string) {
		for _, waits := range w.pop(protector, most) {
			names = append(names, waits.client)
		}
		return names
	}
	first, second := testProtector("first"), testProtector("second")
	for _, who := range []string{"a", "b", "a", "c"} {
		w.add(first, who, 0)
	}
	w.add(second, "a", 0)
	if got := w.protectors(); !slices.Equal(got, []Protector{first, second}) {
		t.Errorf("protectors() = %v", got)
	}
	for i, want := range [][]string{{}, {"a", "b"}, {"c"}, {}} {
		if got := take(first, i*2-i%2*(i-1)); !slices.Equal(got, want) && len(got)+len(want) > 0 {
			t.Errorf("pop %d: %v, want %v", i, got, want)
		}
	}
	w.add(first, "a", 0) // it was refused again
	if got := take(first, 9); !slices.Equal(got, []string{"a"}) {
		t.Errorf("pop() = %v, want none", got)
	}
	if got := take(second, -1); len(got) != 0 {
		t.Errorf("pop() = %v with a negative budget, want none", got)
	}
	if w.pop(second, 1); len(w.protectors())+len(w.payloads)+len(w.order) != 0 {
		t.Errorf("entries left: %+v %+v, want none", w.order, w.payloads)
	}
	for i := range maxWaiting + 5 {
		w.add(first, fmt.Sprint(i), 0)
	}
	if got := len(take(first, 1<<30)); got != maxWaiting {
		t.Errorf("%d entries, want at most %d", got, maxWaiting)
	}
}

func TestHasUntoleratedTaint(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	added := metav1.NewTime(now.Add(-time.Minute))
	minutes := func(n int64) *int64 { n *= 60; return &n }
	taint := corev1.Taint{Key: "down", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}
	for claim, c := range map[string]struct {
		tolerations []corev1.Toleration
		taints      []corev1.Taint
		want        bool
	}{
		"no pod without a taint":                {want: false},
		"a pod that does not tolerate it":       {taints: []corev1.Taint{taint}, want: true},
		"not one that does":                     {[]corev1.Toleration{{Key: "down", Operator: corev1.TolerationOpExists}}, []corev1.Taint{taint}, false},
		"not one that does for longer":          {[]corev1.Toleration{{Key: "down", Operator: corev1.TolerationOpExists, TolerationSeconds: minutes(2)}}, []corev1.Taint{taint}, false},
		"one whose toleration has run out":      {[]corev1.Toleration{{Key: "down", Operator: corev1.TolerationOpExists, TolerationSeconds: minutes(1)}}, []corev1.Taint{taint}, true},
		"one that tolerates one of two":         {[]corev1.Toleration{{Key: "down", Operator: corev1.TolerationOpExists}}, []corev1.Taint{taint, {Key: "other", Effect: corev1.TaintEffectNoExecute}}, true},
		"one that tolerates only other effects": {[]corev1.Toleration{{Key: "down", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, []corev1.Taint{taint}, true},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := hasUntoleratedTaint(&corev1.Pod{Spec: corev1.PodSpec{Tolerations: c.tolerations}}, c.taints, now); got != c.want {
				t.Errorf("hasUntoleratedTaint() = %v, want %v", got, c.want)
			}
		})
	}
}

// A protector may have budget all the time, but only for pods of another domain. A client that was refused because of a
// domain loss would be woken and refused forever.
func TestDomainLossDenialTriggersNoSweep(t *testing.T) {
	for verdict, want := range map[quota.Outcome]int{quota.DeniedNoBudget: 1, quota.DeniedDomainLoss: 0} {
		request, by, pod := deniedTo(controllerManager)
		n, _, _ := newTestRetrier(pod)
		n.Enqueue("cell", request, removal.VerdictReason(verdict), by)
		if got := len(n.triggered); got != want {
			t.Errorf("verdict %s triggered %d sweeps, want %d", verdict, got, want)
		}
		if got := n.controllers.protectors(); len(got) != 1 {
			t.Errorf("verdict %s: protectors %v on the waitlist, want one", verdict, got)
		}
	}
}
