package aggregator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// transitionTest is a world with two pods in each of two tiers, whose protector covers one tier at first.
type transitionTest struct{ *simulatedCell }

func newTransitionTest(t *testing.T) transitionTest {
	t.Helper()
	w := transitionTest{newSimulatedCell(1, 0)}
	w.stored.Spec.Selector.MatchLabels["tier"] = "front"
	for _, name := range []string{"front-0", "front-1", "back-0", "back-1"} {
		w.add(name)
	}
	w.lead()
	w.aggregate(t, 2, 0)
	return w
}

func (w transitionTest) add(name string) {
	p := samplePod(name, name, "1", map[string]string{"app": "web", "tier": name[:len(name)-2]})
	w.pods[p.UID] = p
	w.recordEvent(p, false)
}

// changeSpec changes the spec of the protector.
func (w transitionTest) changeSpec(change func(*v1alpha1.PodProtectorSpec)) {
	p := w.stored.DeepCopy()
	change(&p.Spec)
	p.Generation++
	w.store(p)
}

func wholeApp(s *v1alpha1.PodProtectorSpec) {
	s.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
}

// aggregate lets the newest leader count, and checks the resulting budget of the cell.
func (w transitionTest) aggregate(t *testing.T, available, reserved int) {
	t.Helper()
	w.newest().deliver(w.events, len(w.events))
	p := w.stored.DeepCopy()
	if _, err := w.newest().reconciler.aggregate(t.Context(), w.key(), p); err != nil {
		t.Fatal(err)
	}
	w.store(p)
	if got := quota.BudgetOf(p); got.Available != available || got.Reserved != reserved {
		t.Errorf("budget %+v, want %d available and %d reserved", got, available, reserved)
	}
}

func (w transitionTest) remove(uid types.UID) {
	p := w.pods[uid]
	delete(w.pods, uid)
	w.recordEvent(p, true)
}

// A selector is widened during a storm. Existing reservations stay. A removal of a pod that was not covered when it was admitted is not
// charged, so the pod is not counted before the removal must have taken effect.
func TestWiderSelectorCountsNewPodsAfterDeadline(t *testing.T) {
	w := newTransitionTest(t)
	w.review(w.pods["front-0"], v1alpha1.OperationDelete)
	w.aggregate(t, 2, 1)
	w.changeSpec(wholeApp)
	if got := quota.BudgetOf(w.stored); got.Left() >= 0 {
		t.Errorf("budget %+v before the first count by the new selector, want none", got)
	}
	w.aggregate(t, 2, 1)
	w.clock = w.clock.Add(simulatedDeadline - time.Second)
	w.aggregate(t, 2, 1)
	w.remove("back-0") // its removal was admitted before the change
	w.aggregate(t, 2, 1)
	w.clock = w.clock.Add(simulatedInFlight - simulatedDeadline + time.Second)
	w.aggregate(t, 3, 0) // the removal of front-0 failed
}

func TestNarrowerSpecTakesEffectAtOnce(t *testing.T) {
	w := newTransitionTest(t)
	w.changeSpec(func(s *v1alpha1.PodProtectorSpec) { s.Selector.MatchLabels["tier"] = "back" })
	w.aggregate(t, 0, 0)
	w.changeSpec(wholeApp)
	w.aggregate(t, 0, 0)
	w.clock = w.clock.Add(simulatedInFlight)
	w.aggregate(t, 4, 0)
	w.changeSpec(func(s *v1alpha1.PodProtectorSpec) { s.Selector.MatchLabels["tier"] = "back" })
	w.aggregate(t, 2, 0)
}

// Not only changes of the selector make further pods count.
func TestEveryChangeOfCountedPodsIsATransition(t *testing.T) {
	for claim, change := range map[string]struct {
		before, after func(*v1alpha1.PodProtectorSpec)
	}{
		"the exempt pods": {
			func(s *v1alpha1.PodProtectorSpec) {
				s.ExemptPodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"tier": "back"}}
			},
			func(s *v1alpha1.PodProtectorSpec) { s.ExemptPodSelector = nil },
		},
		"minReadySeconds": {
			func(s *v1alpha1.PodProtectorSpec) { s.MinReadySeconds = 1 << 30 },
			func(s *v1alpha1.PodProtectorSpec) { s.MinReadySeconds = 0 },
		},
		"the criterion": {
			func(s *v1alpha1.PodProtectorSpec) { s.MinReadySeconds = 1 << 30 },
			func(s *v1alpha1.PodProtectorSpec) { s.Criterion = v1alpha1.CriterionReady },
		},
		"the aggregationSelector": {
			func(s *v1alpha1.PodProtectorSpec) { s.Selector.MatchLabels["tier"] = "front" },
			func(s *v1alpha1.PodProtectorSpec) {
				s.AggregationSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
			},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newTransitionTest(t)
			w.changeSpec(wholeApp)
			w.changeSpec(change.before)
			w.aggregate(t, w.countedNow(), 0)
			w.clock = w.clock.Add(2 * simulatedInFlight)
			before := w.countedNow()
			w.aggregate(t, before, 0)
			w.changeSpec(change.after)
			w.aggregate(t, before, 0)
			w.clock = w.clock.Add(simulatedInFlight)
			w.aggregate(t, 4, 0)
		})
	}
}

// countedNow returns how many pods count by the stored spec alone.
func (w transitionTest) countedNow() (n int) {
	s := snapshot.RuleOf(&w.stored.Spec, nil)
	for _, p := range w.pods {
		if podhealth.Of(p, s.MinReady, w.clock).Counted(s.Criterion) && s.Covers(p.Labels) {
			n++
		}
	}
	return n
}

// A process that starts after the change has the earlier spec neither in memory nor from the status.
func TestUnknownEarlierSpecCountsNothingBeforeDeadline(t *testing.T) {
	for claim, counted := range map[string]bool{"before the first count by the new spec": false, "after it": true} {
		t.Run(claim, func(t *testing.T) {
			w := newTransitionTest(t)
			w.changeSpec(wholeApp)
			if counted {
				w.aggregate(t, 2, 0)
			}
			w.lead()
			w.aggregate(t, 0, 0)
			w.clock = w.clock.Add(simulatedInFlight)
			w.aggregate(t, 4, 0)
			w.lead() // the status no longer reports a transition
			w.aggregate(t, 4, 0)
		})
	}
}

// When the transition ends, a lagging snapshot still shows pods that were removed without a reservation.
func TestTransitionEndUsesLiveList(t *testing.T) {
	w := newTransitionTest(t)
	w.changeSpec(wholeApp)
	w.aggregate(t, 2, 0)
	w.clock = w.clock.Add(simulatedInFlight)
	w.remove("back-0")
	p := w.stored.DeepCopy()
	if _, err := w.newest().reconciler.aggregate(t.Context(), w.key(), p); err != nil { // the snapshot has not received that event
		t.Fatal(err)
	}
	if got := quota.BudgetOf(p).Available; got != 3 {
		t.Errorf("%d pods are counted, want the 3 that live", got)
	}
}

// A new protector has no earlier spec, and is counted at once.
func TestFirstSpecIsNoTransition(t *testing.T) {
	w := transitionTest{newSimulatedCell(1, 0)}
	w.add("front-0")
	w.lead()
	w.aggregate(t, 1, 0)
	if quota.CellOf(w.stored, simulatedCellName).Aggregation.InTransition {
		t.Error("InTransition = true for a new protector, want false")
	}
}

// While the counts are restricted, the workloads of all covered pods are expected (rule 13).
func TestTransitionKeepsExpectedOwners(t *testing.T) {
	w := newTransitionTest(t)
	percent := intstr.FromString("50%")
	w.changeSpec(func(s *v1alpha1.PodProtectorSpec) { wholeApp(s); s.MinAvailable = &percent })
	w.newest().snapshot.Cover(w.key(), snapshot.RuleOf(&w.stored.Spec, nil).Coverage, 0)
	none := func(func(quota.Reservation) bool) {}
	restricted, _ := w.newest().snapshot.Count(w.key(), &w.stored.Spec, none, nil, []snapshot.Rule{snapshot.CountsNoPod()})
	whole, _ := w.newest().snapshot.Count(w.key(), &w.stored.Spec, none, nil, nil)
	if fmt.Sprint(restricted.Owners) != fmt.Sprint(whole.Owners) || restricted.Aggregation.CountedReplicas != 0 || whole.Aggregation.CountedReplicas != 4 {
		t.Errorf("restricted: %+v of owners %v, want those of %+v, %v", restricted.Aggregation, restricted.Owners, whole.Aggregation, whole.Owners)
	}
}

// The oracle of a transition (rule 4): a pod may be counted at a time only if it counted by every spec that was in force within the
// deadline before it, so that each removal under way was charged. Processes that start in between may count less, never more. All covered
// pods count once the deadline has passed since the last change and since the start of the process.
func TestCountedPodsInTransition(t *testing.T) {
	type change struct{ at, tier int }
	tiers := []map[string]string{{"app": "web"}, {"app": "web", "tier": "front"}, {"app": "web", "tier": "back"}}
	pods := []map[string]string{{"app": "web", "tier": "front"}, {"app": "web", "tier": "back"}, {"app": "web"}}
	rapid.Check(t, func(t *rapid.T) {
		const deadline = 10
		begin := time.Unix(1000, 0)
		p := &v1alpha1.PodProtector{}
		p.UID = "p"
		cell := "c0"
		changes := []change{{-1 << 20, rapid.IntRange(0, 2).Draw(t, "tier")}}
		known, since, restarted := &periods{}, 0, false
		set := func(tier int) { p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: tiers[tier]} }
		set(changes[0].tier)
		p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: cell, Aggregation: v1alpha1.Aggregation{CountedSpec: quota.CountedSpec(&p.Spec)}}}
		known.record(p, quota.CellOf(p, cell), rapid.Bool().Draw(t, "cached"), begin)
		now := 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.IntRange(0, 4).Draw(t, "seconds")
			at := begin.Add(time.Duration(now) * time.Second)
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				if tier := rapid.IntRange(0, 2).Draw(t, "tier"); tier != changes[len(changes)-1].tier {
					changes = append(changes, change{now, tier})
					set(tier)
					known.record(p, quota.CellOf(p, cell), rapid.Bool().Draw(t, "cached"), at)
				}
			case 2:
				known, since, restarted = &periods{}, now, true
			}
			stored := quota.CellOf(p, cell)
			known.record(p, stored, rapid.Bool().Draw(t, "cached"), at)
			earlier, wait := known.earlier(nil, deadline*time.Second, at)
			stored.Aggregation.CountedSpec, stored.Aggregation.InTransition = quota.CountedSpec(&p.Spec), wait > 0
			last := changes[len(changes)-1]
			for _, labels := range pods {
				may := true
				for i, c := range changes {
					ended := i+1 < len(changes) && changes[i+1].at+deadline <= now
					if s := snapshot.RuleOf(&v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{MatchLabels: tiers[c.tier]}}, nil); !ended && !s.Covers(labels) {
						may = false
					}
				}
				current := snapshot.RuleOf(&p.Spec, nil)
				is := current.Covers(labels) && !slices.ContainsFunc(earlier, func(s snapshot.Rule) bool { return !s.Covers(labels) })
				if is && !may {
					t.Fatalf("at %d, after %v, a pod with %v is counted", now, changes, labels)
				}
				must := current.Covers(labels) && now-max(last.at, since) >= deadline || may && !restarted
				if !is && must {
					t.Fatalf("at %d, after %v and a restart at %d, a pod with %v is not counted", now, changes, since, labels)
				}
			}
		}
	})
}

// The status of a target may select other pods without a change of any spec (rule 16). Webhooks admitted removals of those without a charge.
func TestTargetThatSelectsOtherPodsIsATransition(t *testing.T) {
	blue, green := &v1alpha1.Target{Selector: "hash=blue"}, &v1alpha1.Target{Selector: "hash=green"}
	p := &v1alpha1.PodProtector{}
	p.Spec.TargetRef = &v1alpha1.TargetRef{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout", Name: "pay"}
	cellWith := func(target *v1alpha1.Target) *v1alpha1.PodProtectorCell {
		return &v1alpha1.PodProtectorCell{Aggregation: v1alpha1.Aggregation{CountedSpec: quota.CountedSpec(&p.Spec), Target: target}}
	}
	start := time.Now()
	seen := &periods{}
	want := func(claim string, target *v1alpha1.Target, after, wait time.Duration, rules int) {
		t.Helper()
		earlier, got := seen.earlier(target, time.Minute, start.Add(after))
		if len(earlier) != rules || got != wait {
			t.Errorf("%s: earlier() has %d rules for %v, want %d for %v", claim, len(earlier), got, rules, wait)
		}
	}
	seen.record(p, nil, true, start)
	want("the first count of a target is no transition", blue, 0, 0, 0)
	seen.record(p, cellWith(blue), true, start)
	want("the same target", blue, 0, 0, 0)
	want("another selector, before webhooks can see it", green, 10*time.Second, time.Minute, 1)
	seen.record(p, cellWith(green), true, start.Add(20*time.Second))
	want("from when it is stored", green, 30*time.Second, 50*time.Second, 1)
	if earlier, _ := seen.earlier(green, time.Minute, start.Add(30*time.Second)); !earlier[0].Covers(map[string]string{"hash": "blue"}) ||
		earlier[0].Covers(map[string]string{"hash": "green"}) {
		t.Error("the earlier rule does not cover the pods that the target selected before")
	}
	seen.record(p, cellWith(blue), true, start.Add(40*time.Second))
	want("and back: the pods were free meanwhile", blue, 40*time.Second, time.Minute, 1)
	want("until the deadline has passed", blue, 101*time.Second, 0, 0)
}

// Without the target, nothing is counted by another selector, and no earlier selector may begin a transition again.
func TestTransitionEndsAlthoughTheTargetIsReleased(t *testing.T) {
	const deadline = 10 * time.Second
	p := &v1alpha1.PodProtector{}
	p.UID, p.Spec.TargetRef = "p", &v1alpha1.TargetRef{APIVersion: "example.com/v1", Kind: "Rollout", Name: "web"}
	cell := &v1alpha1.PodProtectorCell{Aggregation: v1alpha1.Aggregation{CountedSpec: quota.CountedSpec(&p.Spec)}}
	known, at := &periods{}, time.Unix(1000, 0)
	for _, target := range []*v1alpha1.Target{{Selector: "hash=blue"}, {Selector: "hash=green"}, nil, nil, nil} {
		cell.Aggregation.Target = target
		known.record(p, cell, false, at)
		at = at.Add(deadline)
	}
	if earlier, wait := known.earlier(nil, deadline, at.Add(-time.Second)); wait > 0 {
		t.Errorf("earlier() restricts the counts by %d earlier selectors for %s, want none", len(earlier), wait)
	}
}
