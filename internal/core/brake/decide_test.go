package brake

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

var start = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// change is the change of a pending decrease and of its grant.
const change = "1 release the floor of 8"

// pendingSince returns pending decreases of protectors 0, 1, ..., first seen the given number of seconds after start.
func pendingSince(seconds ...int) []Pending {
	var all []Pending
	for i, s := range seconds {
		all = append(all, Pending{Protector: uid(i), Since: start.Add(time.Duration(s) * time.Second), Change: change})
	}
	return all
}

func uid(n int) types.UID { return types.UID(fmt.Sprint("uid-", n)) }

func grantsAt(seconds ...int) []Grant {
	var all []Grant
	for i, s := range seconds {
		all = append(all, Grant{Protector: types.UID(fmt.Sprint("granted-", i)), At: start.Add(time.Duration(s) * time.Second)})
	}
	return all
}

func TestDecide(t *testing.T) {
	limits := Limits{Count: 2, Window: time.Minute, Quiet: 5 * time.Second}
	for claim, c := range map[string]struct {
		limits     Limits
		protectors int
		pending    []Pending
		grants     []Grant
		after      time.Duration
		want       Verdict
		retry      time.Duration
	}{
		"a single decrease waits for the quiet period":              {limits, 100, pendingSince(0), nil, 2 * time.Second, Quiet, 3 * time.Second},
		"a single decrease takes effect after the quiet period":     {limits, 100, pendingSince(0), nil, 5 * time.Second, Granted, 0},
		"decreases up to the limit take effect":                     {limits, 100, pendingSince(0, 0), nil, 5 * time.Second, Granted, 0},
		"more than the limit are all held":                          {limits, 100, pendingSince(0, 0, 0), nil, 5 * time.Second, Held, 55 * time.Second},
		"later decreases count":                                     {limits, 100, pendingSince(0, 4, 5), nil, 5 * time.Second, Held, 55 * time.Second},
		"the limit of the window is used up":                        {limits, 100, pendingSince(0), grantsAt(-10, -5), 5 * time.Second, Held, 55 * time.Second},
		"grants before the window do not count":                     {limits, 100, pendingSince(0), grantsAt(-60, -55), 5 * time.Second, Granted, 0},
		"a grant from the future counts":                            {limits, 100, pendingSince(0), grantsAt(30, 30), 5 * time.Second, Held, 85 * time.Second},
		"after a window the oldest of a burst takes effect":         {limits, 100, pendingSince(0, 0, 0), nil, time.Minute, Granted, 0},
		"after a window a younger one of a burst waits":             {limits, 100, pendingSince(2, 0, 0), nil, 62 * time.Second, Held, time.Second},
		"after a window with no budget left it waits for a grant":   {limits, 100, pendingSince(0, 0, 0), grantsAt(30, 40), time.Minute, Held, 30 * time.Second},
		"the percentage applies if it is more than the count":       {Limits{Count: 2, Percent: 5, Window: time.Minute}, 60, pendingSince(0, 0, 0), nil, 0, Granted, 0},
		"100 percent lifts the limit":                               {Limits{Percent: 100, Window: time.Minute}, 2, pendingSince(0, 0, 0), nil, 0, Granted, 0},
		"a limit of 0 holds everything":                             {Limits{Window: time.Minute}, 10, pendingSince(0), nil, 2 * time.Minute, Held, time.Second},
		"a cascade is held indefinitely":                            {limits, 100, []Pending{{Protector: uid(0), Since: start, Cascade: true}}, nil, time.Hour, Held, 0},
		"cascades consume no budget":                                {limits, 100, append(pendingSince(0), Pending{"c", start, true, change}, Pending{"d", start, true, change}), nil, 5 * time.Second, Granted, 0},
		"a grant is given again after a crash":                      {limits, 100, pendingSince(0), []Grant{{uid(0), start, change}, {"b", start, change}}, 9 * time.Second, Granted, 0},
		"a grant is not for another decrease of its protector":      {limits, 100, pendingSince(0), []Grant{{uid(0), start, "1 lower the floor from 8 to 4"}}, time.Second, Quiet, 4 * time.Second},
		"nor one of a version that granted any":                     {limits, 100, pendingSince(0), []Grant{{uid(0), start, ""}}, time.Second, Quiet, 4 * time.Second},
		"a burst is held whatever its protectors were granted":      {limits, 100, pendingSince(0, 0, 0), []Grant{{uid(0), start, "1 lower the floor from 8 to 4"}}, 5 * time.Second, Held, 55 * time.Second},
		"a granted protector is not pending for other decisions":    {limits, 100, pendingSince(0, 0), []Grant{{uid(1), start, change}}, 5 * time.Second, Granted, 0},
		"a later decrease with the effect of a granted one counts":  {limits, 100, pendingSince(0, 0), []Grant{{uid(1), start.Add(-time.Second), "0 release the floor of 8"}}, 5 * time.Second, Held, 55 * time.Second},
		"so does one of a later generation":                         {limits, 100, pendingSince(0, 0), []Grant{{uid(1), start.Add(time.Second), "-2 release the floor of 8"}}, 5 * time.Second, Held, 55 * time.Second},
		"nor is one that has just taken effect":                     {limits, 100, pendingSince(0, 0), []Grant{{uid(1), start, "0 release the floor of 8"}}, 5 * time.Second, Granted, 0},
		"a clock that is behind does not lengthen the quiet period": {limits, 100, pendingSince(30), nil, 0, Quiet, 5 * time.Second},
	} {
		t.Run(claim, func(t *testing.T) {
			state := State{Limits: c.limits, Protectors: c.protectors, Pending: c.pending, Grants: c.grants}
			p := c.pending[0]
			got := Decide(state, p, start.Add(c.after))
			if got.Verdict != c.want || got.Retry != c.retry {
				t.Errorf("Decide() = %s, retry after %s, want %s after %s: %+v", got.Verdict, got.Retry, c.want, c.retry, got)
			}
			if isNew := got.Grants != nil; isNew != (got.Verdict == Granted && !isGranted(c.grants, p)) {
				t.Errorf("Decide() = %s with grants %v, want none", got.Verdict, got.Grants)
			}
		})
	}
}

func TestCascadeOf(t *testing.T) {
	owned := metav1.ObjectMeta{Namespace: "shop", Name: "web", OwnerReferences: []metav1.OwnerReference{{Name: "one"}, {Name: "two"}}}
	ofCluster := metav1.ObjectMeta{Name: "policy"}
	deleted := func(names ...string) func(metav1.OwnerReference) (string, error) {
		return func(owner metav1.OwnerReference) (string, error) {
			if slices.Contains(names, owner.Name) {
				return owner.Name + " was deleted", nil
			}
			return "", nil
		}
	}
	for claim, c := range map[string]struct {
		deleted          *metav1.ObjectMeta
		namespaceDeleted bool
		ownerDeleted     func(metav1.OwnerReference) (string, error)
		want             string
	}{
		"an explicit deletion":               {&ofCluster, false, deleted(), ""},
		"with the namespace":                 {&owned, true, deleted(), `namespace "shop" is being deleted`},
		"a policy of the cluster, meanwhile": {&ofCluster, true, deleted(), `namespace "shop" is being deleted`},
		"with all owners":                    {&owned, false, deleted("one", "two"), "two was deleted"},
		"while an owner exists":              {&owned, false, deleted("one"), ""},
	} {
		p := protector("8")
		p.Namespace = "shop"
		got, err := CascadeOf(Request{Protector: p, Deleted: c.deleted}, c.namespaceDeleted, c.ownerDeleted)
		if err != nil || got != c.want {
			t.Errorf("%s: CascadeOf() = %q, %v, want %q", claim, got, err, c.want)
		}
	}
}

func TestLimitsOfAPolicy(t *testing.T) {
	count := int32(9)
	for claim, c := range map[string]struct {
		policy *v1alpha1.DecreaseLimits
		want   Limits
		own    bool
	}{
		"no policy":                  {nil, DefaultLimits(), false},
		"a policy that sets nothing": {&v1alpha1.DecreaseLimits{}, DefaultLimits(), false},
		"onCascade alone creates no separate budget": {&v1alpha1.DecreaseLimits{OnCascade: v1alpha1.CascadeRelease}, Limits{5, 5, 10 * time.Minute, 5 * time.Second, v1alpha1.CascadeRelease}, false},
		"a count creates a separate budget":          {&v1alpha1.DecreaseLimits{Count: &count}, Limits{9, 5, 10 * time.Minute, 5 * time.Second, v1alpha1.CascadeHold}, true},
	} {
		t.Run(claim, func(t *testing.T) {
			if got, own := DefaultLimits().OverriddenBy(c.policy); got != c.want || own != c.own {
				t.Errorf("OverriddenBy() = %+v, overridden %v, want %+v, overridden %v", got, own, c.want, c.own)
			}
		})
	}
}

// world simulates leaders that decide on random decreases, crash after a grant and decide again.
type world struct {
	limits     Limits
	protectors int
	now        time.Time
	pending    map[types.UID]Pending
	stored     []Grant
	// granted has each grant once, even if it was repeated after a crash.
	granted []Grant
	next    int
}

func (w *world) state() State {
	return State{Limits: w.limits, Protectors: w.protectors, Grants: w.stored, Pending: slices.Collect(maps.Values(w.pending))}
}

// burst reports whether more decreases wait for the budget than the window has left, and none of them is older than a window. Then
// nothing may be granted. It counts from the history of all grants, not from the stored ones.
func (w *world) burst() bool {
	left := w.limits.Allowed(w.protectors)
	for _, g := range w.granted {
		if w.now.Sub(g.At) < w.limits.Window {
			left--
		}
	}
	waiting := 0
	for id, p := range w.pending {
		if slices.ContainsFunc(w.granted, func(g Grant) bool {
			return g.Protector == id && g.Change == p.Change && w.now.Sub(g.At) < w.limits.Window
		}) {
			continue
		}
		if w.now.Sub(p.Since) >= w.limits.Window {
			return false
		}
		waiting++
	}
	return waiting > left
}

// decideAll decides on all pending decreases, in random order. A granted decrease takes effect, unless its leader crashes before.
func (w *world) decideAll(t *rapid.T) {
	order := slices.Sorted(maps.Keys(w.pending))
	if len(order) > 1 {
		order = rapid.Permutation(order).Draw(t, "order")
	}
	for _, id := range order {
		burst, p := w.burst(), w.pending[id]
		answer := Decide(w.state(), p, w.now)
		if answer.Grants != nil {
			if burst {
				t.Fatalf("Decide() granted %s in a burst: %+v", id, w)
			}
			if w.now.Sub(p.Since) < w.limits.Quiet {
				t.Fatalf("Decide() granted %s after %s, want no less than %s", id, w.now.Sub(p.Since), w.limits.Quiet)
			}
			w.stored, w.granted = answer.Grants, append(w.granted, Grant{id, w.now, p.Change})
		}
		if answer.Verdict == Granted && rapid.Bool().Draw(t, "takes effect") {
			delete(w.pending, id)
		}
	}
}

func TestDecideHoldsBurstsAndTheLimitOfEachWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			limits:     Limits{Count: rapid.IntRange(0, 4).Draw(t, "count"), Percent: rapid.IntRange(0, 20).Draw(t, "percent"), Window: time.Minute, Quiet: 5 * time.Second},
			protectors: rapid.IntRange(1, 60).Draw(t, "protectors"), now: start, pending: map[types.UID]Pending{},
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				for range rapid.IntRange(1, 8).Draw(t, "burst") {
					id := uid(rapid.IntRange(max(0, w.next-10), w.next).Draw(t, "protector")) // also one that was granted another decrease
					w.pending[id] = Pending{Protector: id, Since: w.now, Change: fmt.Sprint(w.next+1, " lower the floor to ", rapid.IntRange(0, 2).Draw(t, "floor"))}
					w.next++
				}
			case 1: // the oldest is withdrawn, or confirmed
				if all := slices.Sorted(maps.Keys(w.pending)); len(all) > 0 {
					delete(w.pending, all[0])
				}
			default:
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			}
			w.decideAll(t)
		}
		for i, first := range w.granted {
			n := 0
			for _, g := range w.granted[i:] {
				if g.At.Sub(first.At) < w.limits.Window {
					n++
				}
			}
			if allowed := w.limits.Allowed(w.protectors); n > allowed {
				t.Fatalf("%d decreases were granted within a window from %s, limit %d", n, first.At, allowed)
			}
		}
	})
}

// The limit of a window also holds for a decrease that has the effect of an earlier one of the same protector, which was granted and reverted since.
func TestRepeatedDecreaseKeepsTheLimitOfTheWindow(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	limits := Limits{Count: 2, Window: 10 * time.Minute, Quiet: 5 * time.Second}
	state := State{Limits: limits, Protectors: 10}
	for round := range 3 { // an accident, which a user reverts within the window, and which then happens again
		for i := range 2 {
			p := Pending{
				Protector: types.UID(fmt.Sprint(i)), Since: now.Add(-10 * time.Second), Change: fmt.Sprintf("%d lower the floor from 8 to 2", 2*round+1),
			}
			state.Pending = []Pending{p}
			answer := Decide(state, p, now)
			if answer.Grants != nil {
				state.Grants = answer.Grants
			}
			if round > 0 && answer.Verdict == Granted {
				t.Errorf("decrease %d of protector %d is granted, although %d of the window are left", round+1, i, answer.Left)
			}
		}
		now = now.Add(time.Minute)
	}
	if got, want := len(state.Grants), limits.Allowed(state.Protectors); got > want {
		t.Errorf("%d grants in one window, want at most %d", got, want)
	}
}

func TestDecideHoldsABurstForAWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{Count: rapid.IntRange(0, 5).Draw(t, "count"), Window: time.Minute, Quiet: 5 * time.Second}
		n := limits.Count + rapid.IntRange(1, 50).Draw(t, "more")
		var seconds []int
		for range n {
			seconds = append(seconds, rapid.IntRange(0, 4).Draw(t, "seen"))
		}
		pending := pendingSince(seconds...)
		age := rapid.IntRange(5, 55).Draw(t, "age")
		for _, p := range pending {
			got := Decide(State{Limits: limits, Protectors: 1, Pending: pending}, p, start.Add(time.Duration(age)*time.Second))
			if got.Verdict == Granted {
				t.Fatalf("a decrease of a burst of %d was granted after %d s, limit %d", n, age, limits.Count)
			}
		}
	})
}

func TestPredict(t *testing.T) {
	limits := Limits{Count: 2, Window: time.Minute, Quiet: 5 * time.Second, OnCascade: v1alpha1.CascadeHold}
	released := limits
	released.OnCascade = v1alpha1.CascadeRelease
	cascade := Pending{Protector: "cascade", Since: start, Cascade: true}
	for claim, c := range map[string]struct {
		limits  Limits
		pending []Pending
		grants  []Grant
		want    []Verdict
	}{
		"decreases up to the limit are granted":              {limits, pendingSince(0, 0), nil, []Verdict{Granted, Granted}},
		"more than the limit are held":                       {limits, pendingSince(0, 0, 0), nil, []Verdict{Held, Held, Held}},
		"an older decrease uses the budget of a younger one": {limits, pendingSince(0, -60), grantsAt(0), []Verdict{Held, Granted}},
		"a cascade is held, and other decreases are not":     {limits, append(pendingSince(0, 0), cascade), nil, []Verdict{Granted, Granted, Held}},
		"a cascade that is not held counts":                  {released, append(pendingSince(0, 0), cascade), nil, []Verdict{Held, Held, Held}},
	} {
		t.Run(claim, func(t *testing.T) {
			var waiting []Waiting
			for _, p := range c.pending {
				waiting = append(waiting, Waiting{p, c.limits})
			}
			answers := Predict(State{Protectors: 10, Grants: c.grants}, waiting, start)
			for i, p := range c.pending {
				if got := answers[p.Protector].Verdict; got != c.want[i] {
					t.Errorf("Predict() = %s for %s, want %s", got, p.Protector, c.want[i])
				}
			}
		})
	}
}
