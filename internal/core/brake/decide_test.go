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
		"a grant is given again after a crash":                      {limits, 100, pendingSince(0), []Grant{{uid(0), start.Add(5 * time.Second), change}, {"b", start, change}}, 9 * time.Second, Granted, 0},
		"a grant is not for the same decrease after a revert":       {limits, 100, pendingSince(1), []Grant{{uid(0), start.Add(5 * time.Second), change}}, 5 * time.Second, Quiet, time.Second},
		"a grant is not for another decrease of its protector":      {limits, 100, pendingSince(-5), []Grant{{uid(0), start, "1 lower the floor from 8 to 4"}, {"b", start, change}}, time.Second, Held, 59 * time.Second},
		"nor one of a version that granted any":                     {limits, 100, pendingSince(-5), []Grant{{uid(0), start, ""}, {"b", start, change}}, time.Second, Held, 59 * time.Second},
		"a burst is held whatever its protectors were granted":      {limits, 100, pendingSince(-5, -5, -5), []Grant{{uid(0), start, "1 lower the floor from 8 to 4"}}, 0, Held, 55 * time.Second},
		"a granted protector is not pending for other decisions":    {limits, 100, pendingSince(0, -5), []Grant{{uid(1), start, change}}, 5 * time.Second, Granted, 0},
		"but it is if it was reverted before it took effect":        {limits, 100, pendingSince(0, 0), []Grant{{uid(1), start, change}}, 5 * time.Second, Held, 55 * time.Second},
		"without a quiet period a crash consumes nothing, either":   {Limits{Count: 1, Window: time.Minute}, 100, pendingSince(0), []Grant{{uid(0), start, change}}, time.Second, Granted, 0},
		"nor is one that has just taken effect":                     {limits, 100, pendingSince(0, -5), []Grant{{uid(1), start, "0 release the floor of 8"}}, 5 * time.Second, Granted, 0},
		"one with an earlier effect of its protector is pending":    {limits, 100, pendingSince(0, -5), []Grant{{uid(1), start, "-1 release the floor of 8"}}, 5 * time.Second, Held, 55 * time.Second},
		"so is one that was requested after the other took effect":  {limits, 100, pendingSince(0, 0), []Grant{{uid(1), start, "0 release the floor of 8"}}, 5 * time.Second, Held, 55 * time.Second},
		"a decrease with an effect that was granted needs budget":   {limits, 100, pendingSince(0), []Grant{{uid(0), start, "0 release the floor of 8"}, {"b", start, change}}, 5 * time.Second, Held, 55 * time.Second},
		"and waits like another one":                                {limits, 100, pendingSince(-5), []Grant{{uid(0), start, "0 release the floor of 8"}}, time.Second, Quiet, 4 * time.Second},
		"and counts itself":                                         {limits, 100, pendingSince(-5, 0), []Grant{{uid(0), start, "0 release the floor of 8"}}, 5 * time.Second, Held, 55 * time.Second},
		"a clock that is behind does not lengthen the quiet period": {limits, 100, pendingSince(30), nil, 0, Quiet, 5 * time.Second},
	} {
		t.Run(claim, func(t *testing.T) {
			state := State{Limits: c.limits, Protectors: c.protectors, Pending: c.pending, Grants: c.grants}
			p := c.pending[0]
			got := Decide(state, p, start.Add(c.after))
			if got.Verdict != c.want || got.Retry != c.retry {
				t.Errorf("Decide() = %s, retry after %s, want %s after %s: %+v", got.Verdict, got.Retry, c.want, c.retry, got)
			}
			if isNew := got.Grants != nil; isNew != (got.Verdict == Granted && !isGranted(c.grants, p, c.limits.Quiet)) {
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

// world simulates leaders that decide on random decreases, crash after a grant and decide again. It knows of each recorded decrease what the
// leaders must derive from the record: whether it has taken effect, and whether another decrease with the same effect has followed.
type world struct {
	limits     Limits
	protectors int
	now        time.Time
	// generations are those of the protectors. Each decrease that takes effect and each revert raises one.
	generations map[types.UID]int
	records     map[types.UID]*recorded
	stored      []Grant
	// granted has each grant once, even if it was repeated after a crash.
	granted []Grant
	// grants has the last grant of each record.
	grants map[*recorded]Grant
}

// recorded is the record of a decrease.
type recorded struct {
	since  time.Time
	effect string
	// isEffective reports that the decrease has taken effect, and that its record was not withdrawn yet.
	isEffective bool
	// looksEffective reports that the record is as if the decrease were in effect: it was requested again since, or the protector has changed otherwise
	// between the grant and its effect. Only the leader that decides on it knows better.
	looksEffective bool
}

func (w *world) pending(id types.UID) Pending {
	r := w.records[id]
	return Pending{Protector: id, Since: r.since, Change: fmt.Sprint(w.generations[id], " ", r.effect)}
}

func (w *world) state() State {
	s := State{Limits: w.limits, Protectors: w.protectors, Grants: w.stored}
	for id := range w.records {
		s.Pending = append(s.Pending, w.pending(id))
	}
	return s
}

// request requests a decrease of a protector. A record of the same effect stays as it is.
func (w *world) request(id types.UID, effect string) {
	if r := w.records[id]; r != nil && r.effect == effect {
		r.isEffective, r.looksEffective = false, r.looksEffective || r.isEffective
		return
	}
	w.records[id] = &recorded{since: w.now, effect: effect}
}

// revert changes a protector, as a user who reverts a decrease.
func (w *world) revert(id types.UID) {
	if r := w.records[id]; r != nil {
		r.looksEffective = w.isGranted(id)
	}
	w.generations[id]++
}

// isGranted reports whether the window has a grant for exactly the recorded decrease. One of the same change that was withdrawn is another decrease.
func (w *world) isGranted(id types.UID) bool {
	p := w.pending(id)
	g, ok := w.grants[w.records[id]]
	return ok && g.Change == p.Change && w.now.Sub(g.At) < w.limits.Window
}

// burst reports whether more decreases wait for the budget than the window has left, and none of them is older than a window. Then
// no leader may grant that of the protector decided. It counts from the history of all grants, not from the stored ones.
func (w *world) burst(decided types.UID) bool {
	left := w.limits.Allowed(w.protectors)
	for _, g := range w.granted {
		if w.now.Sub(g.At) < w.limits.Window {
			left--
		}
	}
	waiting := 0
	for id, r := range w.records {
		if w.isGranted(id) || r.isEffective || r.looksEffective && id != decided {
			continue
		}
		if w.now.Sub(r.since) >= w.limits.Window {
			return false
		}
		waiting++
	}
	return waiting > left
}

// decideAll decides on all pending decreases, in random order. A granted decrease takes effect, unless its leader crashes before.
func (w *world) decideAll(t *rapid.T) {
	order := slices.Sorted(maps.Keys(w.records))
	if len(order) > 1 {
		order = rapid.Permutation(order).Draw(t, "order")
	}
	for _, id := range order {
		if r := w.records[id]; !r.isEffective {
			w.decide(t, id, r)
		}
	}
}

func (w *world) decide(t *rapid.T, id types.UID, r *recorded) {
	burst, p := w.burst(id), w.pending(id)
	answer := Decide(w.state(), p, w.now)
	switch {
	case answer.Verdict == Granted && answer.Grants == nil && !w.isGranted(id):
		t.Fatalf("Decide() granted %s, and stored no grant for %s: %+v", id, p.Change, w)
	case answer.Grants != nil && burst:
		t.Fatalf("Decide() granted %s in a burst: %+v", id, w)
	case answer.Grants != nil && w.now.Sub(r.since) < w.limits.Quiet:
		t.Fatalf("Decide() granted %s after %s, want no less than %s", id, w.now.Sub(r.since), w.limits.Quiet)
	case answer.Grants != nil:
		w.grants[r] = Grant{id, w.now, p.Change}
		w.stored, w.granted = answer.Grants, append(w.granted, w.grants[r])
	}
	if answer.Verdict == Granted && rapid.Bool().Draw(t, "takes effect") {
		w.generations[id]++
		r.isEffective, r.looksEffective = true, false
		if rapid.Bool().Draw(t, "is withdrawn") {
			delete(w.records, id)
		}
	}
}

func TestDecideHoldsBurstsAndTheLimitOfEachWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			limits:     Limits{Count: rapid.IntRange(0, 4).Draw(t, "count"), Percent: rapid.IntRange(0, 20).Draw(t, "percent"), Window: time.Minute, Quiet: 5 * time.Second},
			protectors: rapid.IntRange(1, 60).Draw(t, "protectors"), now: start, generations: map[types.UID]int{}, records: map[types.UID]*recorded{},
			grants: map[*recorded]Grant{},
		}
		newest := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				for range rapid.IntRange(1, 8).Draw(t, "burst") {
					id := uid(rapid.IntRange(max(0, newest-10), newest).Draw(t, "protector")) // also one that was granted another decrease, or the same
					w.request(id, rapid.SampledFrom([]string{"lower the floor from 8 to 2", "change selector"}).Draw(t, "effect"))
					newest += rapid.IntRange(0, 1).Draw(t, "another")
				}
			case 1: // the oldest is withdrawn, or confirmed
				if all := slices.Sorted(maps.Keys(w.records)); len(all) > 0 {
					delete(w.records, all[0])
				}
			case 2:
				w.revert(uid(rapid.IntRange(0, newest).Draw(t, "reverted")))
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

// An accident that is granted, reverted and happens again in the same window needs budget again: the decreases look the same, except for the generation.
func TestRepeatedDecreasesKeepTheLimitOfTheWindow(t *testing.T) {
	limits := Limits{Count: 2, Window: 10 * time.Minute, Quiet: 5 * time.Second}
	state, now := State{Limits: limits, Protectors: 10}, start
	for round := range 3 {
		for i := range 2 {
			p := Pending{Protector: uid(i), Since: now.Add(-10 * time.Second), Change: fmt.Sprint(2*round+1, " lower the floor from 8 to 2")}
			state.Pending = []Pending{p}
			answer := Decide(state, p, now)
			if answer.Grants != nil {
				state.Grants = answer.Grants
			}
			if want := round == 0; (answer.Verdict == Granted) != want {
				t.Errorf("Decide() = %s for decrease %d of protector %d with %d left, want granted: %v", answer.Verdict, round+1, i, answer.Left, want)
			}
		}
		now = now.Add(time.Minute)
	}
	if got, want := len(state.Grants), limits.Allowed(state.Protectors); got > want {
		t.Errorf("%d grants in one window, want at most %d", got, want)
	}
}

// A decrease that was granted and reverted before it took effect left the generation as it was. The same one again, in a burst, is an accident of its own.
func TestGrantDoesNotOutliveItsRecord(t *testing.T) {
	limits := Limits{Count: 1, Window: 10 * time.Minute, Quiet: 5 * time.Second}
	first := pendingSince(0)
	granted := Decide(State{Limits: limits, Pending: first}, first[0], start.Add(6*time.Second))
	if granted.Verdict != Granted {
		t.Fatalf("Decide() = %+v for a single decrease, want %s", granted, Granted)
	}
	burst := pendingSince(7, 60, 60)
	for _, age := range []time.Duration{0, limits.Quiet} {
		if got := Decide(State{Limits: limits, Pending: burst, Grants: granted.Grants}, burst[0], burst[0].Since.Add(age)); got.Verdict == Granted {
			t.Errorf("Decide() = %+v for the same decrease %s after its revert, want it to need budget and a quiet period", got, age)
		}
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
