package webhook_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAllProtectorsOfAPodMustAdmit(t *testing.T) {
	for name, remove := range removalMethods() {
		t.Run(name, func(t *testing.T) {
			l := newFixture(t)
			l.protect("a", 0, 10)
			l.protect("b", 5, 5)
			pod := l.pod("web-0")
			l.serve().guard()
			wantDenied(t, remove(l, pod), "PodProtector "+l.namespace+"/b", "floor 5", "available 5")
			l.wantReserved("a", 0)
			l.wantReserved("b", 0)
		})
	}
}

// All 40 requests have checked both budgets before the first one reserves. So 25 find the second budget exhausted after
// they reserved with the first.
func TestDenialGivesBackOtherReservations(t *testing.T) {
	l := newFixture(t)
	l.protect("a", 10, 100)
	l.protect("b", 10, 25)
	pods := l.pods(40)
	core := l.proxied()
	r := l.serve(core.asCore).guard()
	answers := r.removeWhileCoreStalls(core, deletion, pods)
	if admitted := l.admitted(answers); admitted != 15 {
		t.Errorf("%d removals admitted, want 15", admitted)
	}
	l.wantReserved("b", 15)
	l.awaitReserved("a", 15)
	if got := r.count("breakwater_webhook_given_back_total"); got != 25 {
		t.Errorf("%d reservations given back, want 25", got)
	}
}

func TestProtectorDeletedDuringReviewAdmits(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 4, 5)
	pod := l.pod("web-0")
	core := l.proxied()
	r := l.serve(core.asCore).guard()
	core.stall()
	var answers []error
	answered := after(func() { answers = l.removeAll(deletion, []*corev1.Pod{pod}) })
	r.waitForBatch(1)
	if err := l.client.Delete(context.Background(), l.protector("web")); err != nil {
		t.Fatal(err)
	}
	core.heal()
	l.wait(answered, "the answer")
	if answers[0] != nil {
		t.Errorf("a deleted protector refused the removal: %v", answers[0])
	}
	if got := r.count("breakwater_webhook_reviews_total", "verdict", "Reserved"); got != 0 {
		t.Error("the audit annotations name a deleted protector")
	}
}
