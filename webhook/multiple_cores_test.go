package webhook_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// The protectors have the same namespace and name in both cores, and the webhook must distinguish them.
func TestProtectorsOfAllCoresMustAdmit(t *testing.T) {
	for claim, test := range map[string]struct {
		floor, other int32
		denying      string
		reserved     int
	}{
		"the first core refuses":  {5, 0, "core", 0},
		"the second core refuses": {0, 5, "second", 0},
		"both admit":              {0, 0, "", 1},
	} {
		for name, remove := range removalMethods() {
			t.Run(claim+", "+name, func(t *testing.T) {
				l := newFixture(t)
				other := l.secondCore()
				l.protect("web", test.floor, 5)
				other.protect("web", test.other, 5)
				pod := l.pod("web-0")
				l.serve(other.asCore).guard()
				err := remove(l, pod)
				if test.denying != "" {
					wantDenied(t, err, fmt.Sprintf("PodProtector %s/web in core cluster %q", l.namespace, test.denying), "floor 5")
				} else if err != nil {
					t.Errorf("removal: %v", err)
				}
				l.wantReserved("web", test.reserved)
				other.wantReserved("web", test.reserved)
			})
		}
	}
}

func TestSameNameInTwoCoresCoversSeparately(t *testing.T) {
	l := newFixture(t)
	other := l.secondCore()
	l.protect("web", 1, 3)
	other.protect("web", 1, 2, coversShared)
	mine, theirs := l.pod("mine"), l.pod("theirs", withSharedLabel)
	l.serve(other.asCore).guard()
	for _, pod := range []*corev1.Pod{mine, theirs} {
		if err := deletion(l, pod); err != nil {
			t.Errorf("removal of %s: %v", pod.Name, err)
		}
	}
	l.wantReserved("web", 1)
	other.wantReserved("web", 1)
	if err := deletion(l, l.pod("mine-too")); err != nil {
		t.Errorf("removal that needs only the first core: %v, want it admitted", err)
	}
	wantDenied(t, deletion(l, l.pod("theirs-too", withSharedLabel)), `in core cluster "second"`, "removals under way 1")
}

// coversShared makes a protector cover only the pods with the label shared.
func coversShared(s *v1alpha1.PodProtectorSpec) {
	s.Selector.MatchLabels = map[string]string{"shared": "yes"}
}

func withBothLabels(p *corev1.Pod)  { p.Labels["shared"] = "yes" }
func withSharedLabel(p *corev1.Pod) { p.Labels = map[string]string{"shared": "yes"} }

// All 40 requests have checked both budgets before the first one reserves. So 25 find the budget in the second core
// exhausted after they reserved in the first.
func TestDenialInOneCoreGivesBackReservationsOfAnother(t *testing.T) {
	l := newFixture(t)
	other := l.secondCore()
	l.protect("web", 10, 100)
	other.protect("web", 10, 25)
	pods := l.pods(40)
	core := l.proxied()
	r := l.serve(core.asCore, other.asCore).guard()
	answers := r.removeWhileCoreStalls(core, deletion, pods)
	if admitted := l.admitted(answers); admitted != 15 {
		t.Errorf("%d removals admitted, want 15", admitted)
	}
	other.wantReserved("web", 15)
	l.awaitReserved("web", 15)
	if got := r.count("breakwater_webhook_given_back_total", "core", "core"); got != 25 {
		t.Errorf("%d reservations given back, want 25", got)
	}
}

// outages are the ways in which a core can be unreachable.
func outages() map[string]func(*link) {
	return map[string]func(*link){"silent": (*link).stall, "unreachable": (*link).cut}
}

func TestUnreachableCoreDeniesOnlyItsOwnProtectors(t *testing.T) {
	for outage, begin := range outages() {
		t.Run(outage, func(t *testing.T) {
			l := newFixture(t)
			other := l.secondCore()
			l.protect("web", 1, 5)
			other.protect("other", 1, 5, coversShared)
			mine, both, theirs := l.pod("mine"), l.pod("both", withBothLabels), l.pod("theirs", withSharedLabel)
			core := other.proxied()
			r := l.serve(core.asCore).guard(withTimeout(5))
			begin(core)
			if err := deletion(l, mine); err != nil {
				t.Errorf("removal of a pod that only the reachable core protects: %v", err)
			}
			for _, err := range l.removeAll(deletion, []*corev1.Pod{both, theirs}) {
				wantDenied(t, err, "could not be reserved with PodProtector "+l.namespace+`/other in core cluster "second"`,
					"try again, or in an emergency force this pod alone, in this cluster: kubectl breakwater force pod/")
			}
			l.awaitReserved("web", 1) // the reservation for the pod that both protect is given back
			core.heal()
			for _, pod := range []*corev1.Pod{both, theirs} {
				l.eventually(func() string { return errorText(deletion(l, pod)) })
			}
			l.wantReserved("web", 2)
			other.wantReserved("other", 2)
			r.waitInFlight(0)
		})
	}
}

func TestDeniesUntilAllCoresAreRead(t *testing.T) {
	for outage, begin := range outages() {
		t.Run(outage, func(t *testing.T) {
			l := newFixture(t)
			other := l.secondCore()
			l.protect("web", 1, 5)
			pod := l.pod("web-0")
			core := other.proxied()
			begin(core)
			r := l.start(core.asCore)
			l.eventually(func() string {
				if err := r.server.Ready(nil); err == nil || err.Error() != `PodProtectors of core cluster "second" are not read yet` {
					return fmt.Sprintf("ready says %v", err)
				}
				return ""
			})
			r.guard(withTimeout(5))
			for _, remove := range removalMethods() {
				wantDenied(t, remove(l, pod), `the PodProtectors of core cluster "second" have not been read yet`,
					"try again, or in an emergency force this pod alone, in this cluster: kubectl breakwater force pod/")
			}
			l.wantReserved("web", 0)
			core.heal()
			l.eventually(func() string { return errorText(r.server.Ready(nil)) })
			if err := deletion(l, pod); err != nil {
				t.Errorf("removal when all cores have been read: %v", err)
			}
			l.wantReserved("web", 1)
		})
	}
}
