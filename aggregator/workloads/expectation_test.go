package workloads

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// The cases are the rows of the table in docs/concepts/overview.md, by rule 13.
func TestExpect(t *testing.T) {
	set := func(uid types.UID) snapshot.Owner {
		return snapshot.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "set-" + string(uid), UID: uid}
	}
	web := snapshot.Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d-web"}
	webAgain := snapshot.Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d-web-2"}
	api := snapshot.Owner{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "api", UID: "s-api"}
	there := func(workload snapshot.Owner, replicas int32) searchResult {
		return searchResult{workload: workload, replicas: replicas}
	}
	lost := func(workload snapshot.Owner, last int32) searchResult {
		return searchResult{workload: workload, replicas: last, deleted: true}
	}
	kindLost := func(workload snapshot.Owner) searchResult {
		return searchResult{workload: workload, deleted: true, kindNotServed: true}
	}
	listed := func(o snapshot.Owner, replicas int32, deleted bool) v1alpha1.ExpectedWorkload {
		return v1alpha1.ExpectedWorkload{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID, Replicas: replicas, Gone: deleted}
	}
	type workloads = []v1alpha1.ExpectedWorkload
	for claim, c := range map[string]struct {
		owners  map[snapshot.Owner]int32
		tops    map[snapshot.Owner]searchResult
		known   workloads
		before  int32
		release release
		want    expectation
		fails   string
	}{
		"no pods ever: nothing is expected": {},
		"a Deployment counts once, whatever ReplicaSets it has": {
			owners: map[snapshot.Owner]int32{set("a"): 7, set("b"): 4}, tops: map[snapshot.Owner]searchResult{set("a"): there(web, 10), set("b"): there(web, 10)},
			want: expectation{replicas: 10, workloads: workloads{listed(web, 10, false)}},
		},
		"workloads add up": {
			owners: map[snapshot.Owner]int32{set("a"): 7, api: 3}, tops: map[snapshot.Owner]searchResult{set("a"): there(web, 10), api: there(api, 3)},
			want: expectation{replicas: 13, workloads: workloads{listed(web, 10, false), listed(api, 3, false)}},
		},
		"a sum of more than 32 bits is the greatest number": {
			owners: map[snapshot.Owner]int32{set("a"): 7, api: 3}, tops: map[snapshot.Owner]searchResult{set("a"): there(web, math.MaxInt32), api: there(api, math.MaxInt32)},
			want: expectation{replicas: math.MaxInt32, workloads: workloads{listed(web, math.MaxInt32, false), listed(api, math.MaxInt32, false)}},
		},
		"a workload that exists is expected without any pod": {
			tops: map[snapshot.Owner]searchResult{web: there(web, 10)}, known: workloads{listed(web, 10, false)}, before: 10,
			want: expectation{replicas: 10, workloads: workloads{listed(web, 10, false)}},
		},
		"scaled up without any pod": {
			tops: map[snapshot.Owner]searchResult{web: there(web, 12)}, known: workloads{listed(web, 10, false)}, before: 10,
			want: expectation{replicas: 12, workloads: workloads{listed(web, 12, false)}},
		},
		"scaled to 0: none are expected": {
			owners: map[snapshot.Owner]int32{set("a"): 7}, tops: map[snapshot.Owner]searchResult{set("a"): there(web, 0), web: there(web, 0)}, known: workloads{listed(web, 10, false)},
			before: 10, want: expectation{replicas: 0, workloads: workloads{listed(web, 0, false)}},
		},
		"one that is gone is still expected": {
			owners: map[snapshot.Owner]int32{set("a"): 7}, tops: map[snapshot.Owner]searchResult{set("a"): lost(web, 10)}, want: expectation{replicas: 10, workloads: workloads{listed(web, 10, true)}},
		},
		"also without any pod": {
			tops: map[snapshot.Owner]searchResult{web: lost(web, 0)}, known: workloads{listed(web, 10, false)}, before: 10,
			want: expectation{replicas: 10, workloads: workloads{listed(web, 10, true)}},
		},
		"also by a leader that has never seen it": {
			owners: map[snapshot.Owner]int32{set("a"): 7}, tops: map[snapshot.Owner]searchResult{set("a"): lost(web, 0), web: lost(web, 0)}, known: workloads{listed(web, 10, true)},
			want: expectation{replicas: 10, workloads: workloads{listed(web, 10, true)}},
		},
		"one that wanted none is gone": {
			tops: map[snapshot.Owner]searchResult{web: lost(web, 0)}, known: workloads{listed(web, 0, false)}, want: expectation{},
		},
		"another of its name exists": {
			tops: map[snapshot.Owner]searchResult{web: there(webAgain, 4)}, known: workloads{listed(web, 10, true)}, before: 10,
			want: expectation{replicas: 4, workloads: workloads{listed(webAgain, 4, false)}},
		},
		"at least its pods are expected": {
			owners: map[snapshot.Owner]int32{set("a"): 7, set("b"): 1}, tops: map[snapshot.Owner]searchResult{set("a"): lost(web, 0), set("b"): lost(web, 0)},
			want: expectation{replicas: 8, workloads: workloads{listed(web, 8, true)}},
		},
		"workloads deleted unobserved keep the remainder of the sum": {
			owners: map[snapshot.Owner]int32{set("a"): 7, api: 3}, tops: map[snapshot.Owner]searchResult{set("a"): lost(web, 0), api: there(api, 4)}, before: 13,
			want: expectation{replicas: 13, workloads: workloads{listed(web, 9, true), listed(api, 4, false)}},
		},
		"or its pods, when those are more": {
			owners: map[snapshot.Owner]int32{set("a"): 7, api: 3}, tops: map[snapshot.Owner]searchResult{set("a"): lost(web, 0), api: there(api, 4)}, before: 5,
			want: expectation{replicas: 11, workloads: workloads{listed(web, 7, true), listed(api, 4, false)}},
		},
		"pods of a ReplicaSet that no leader saw may be those of a deleted Deployment": {
			owners: map[snapshot.Owner]int32{set("a"): 7}, tops: map[snapshot.Owner]searchResult{set("a"): lost(set("a"), 0), web: lost(web, 0)}, known: workloads{listed(web, 10, true)},
			before: 10, want: expectation{replicas: 10, workloads: workloads{listed(web, 10, true)}},
		},
		"the policy releases what is gone": {
			owners: map[snapshot.Owner]int32{set("a"): 7}, tops: map[snapshot.Owner]searchResult{set("a"): lost(web, 10), web: lost(web, 0)}, known: workloads{listed(web, 10, true)},
			release: release{byPolicy: true}, want: expectation{},
		},
		"but not what exists without pods": {
			tops: map[snapshot.Owner]searchResult{web: there(web, 10)}, known: workloads{listed(web, 10, false)}, release: release{byPolicy: true, confirmed: true},
			want: expectation{replicas: 10, workloads: workloads{listed(web, 10, false)}},
		},
		"nor what is gone with its kind": {
			tops: map[snapshot.Owner]searchResult{web: kindLost(web)}, known: workloads{listed(web, 10, false)}, release: release{byPolicy: true},
			want: expectation{replicas: 10, workloads: workloads{listed(web, 10, true)}},
		},
		"which a confirmation does": {
			tops: map[snapshot.Owner]searchResult{web: kindLost(web)}, known: workloads{listed(web, 10, false)}, release: release{confirmed: true}, want: expectation{},
		},
		"pods without an owner do not tell": {
			owners: map[snapshot.Owner]int32{snapshot.NoOwner(): 2, api: 3}, tops: map[snapshot.Owner]searchResult{api: there(api, 3)}, fails: "2 pods: no controller states",
		},
		"the search of an owner fails":         {owners: map[snapshot.Owner]int32{set("a"): 2}, fails: "no such answer"},
		"the search of a known workload fails": {known: workloads{listed(web, 10, false)}, fails: "no such answer"},
	} {
		t.Run(claim, func(t *testing.T) {
			got, err := expect(c.owners, c.known, &c.before, c.release, workloadAnswers(c.tops))
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("error %v, want %q", err, c.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(expectation{})); diff != "" {
				t.Errorf("expectation (-want +got):\n%s", diff)
			}
		})
	}
}

// While workloads cannot be found, the previous expectation stays. The expectation of an earlier selector is not used for a later one:
// another number of pods would result in a floor that is too low.
func TestExpectationStaysWhileWorkloadsCannotBeFound(t *testing.T) {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	half := intstr.FromString("50%")
	p.Spec.MinAvailable = &half
	web := v1alpha1.ExpectedWorkload{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d-web", Replicas: 3}
	expected := int32(3)
	for claim, c := range map[string]struct {
		selected string
		want     v1alpha1.Aggregation
	}{
		"of the same selector": {quota.SelectedSpec(&p.Spec), v1alpha1.Aggregation{
			SelectedSpec: quota.SelectedSpec(&p.Spec), ExpectedReplicas: &expected, Workloads: []v1alpha1.ExpectedWorkload{web},
		}},
		"of an older version, which wrote no selector": {"", v1alpha1.Aggregation{
			SelectedSpec: quota.SelectedSpec(&p.Spec), ExpectedReplicas: &expected,
		}},
		"of an earlier selector": {"another", v1alpha1.Aggregation{
			SelectedSpec: quota.SelectedSpec(&p.Spec), ExpectedReplicasProblem: "owner ReplicaSet set: unexpected GroupVersion string: no/such/version",
		}},
	} {
		t.Run(claim, func(t *testing.T) {
			resolver := &Resolver{
				workloads: &workloads{mapper: meta.NewDefaultRESTMapper(nil)}, index: newWorkloadIndex(), now: time.Now, log: logr.Discard(),
			}
			stored := &v1alpha1.Aggregation{SelectedSpec: c.selected, ExpectedReplicas: &expected, Workloads: []v1alpha1.ExpectedWorkload{web}}
			owners := map[snapshot.Owner]int32{{APIVersion: "no/such/version", Kind: "ReplicaSet", Name: "set", UID: "rs"}: 1}
			var now v1alpha1.Aggregation
			if resolver.Expect(t.Context(), p, stored, &now, &snapshot.Count{Owners: owners}) {
				t.Error("expect() = true, want false: a retry is worthwhile")
			}
			if diff := cmp.Diff(c.want, now); diff != "" {
				t.Errorf("aggregation (-want +got):\n%s", diff)
			}
		})
	}
}

// A Deployment without a revision history deletes the sets of old pods while these terminate (rule 16).
func TestPodsOfADeletedSetBelongToTheWorkloadThatSelectsThem(t *testing.T) {
	set := snapshot.Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "rs"}
	web := snapshot.Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d-web"}
	for claim, c := range map[string]struct {
		result searchResult
		want   bool
	}{
		"nothing shows what controlled it": {searchResult{workload: set, deleted: true}, true},
		"its number was seen":              {searchResult{workload: set, deleted: true, replicas: 3}, false},
		"its Deployment was seen":          {searchResult{workload: web, deleted: true}, false},
		"it exists":                        {searchResult{workload: set}, false},
		"its kind was lost":                {searchResult{workload: set, deleted: true, kindNotServed: true}, false},
	} {
		if got := isUnseenSet(set, c.result); got != c.want {
			t.Errorf("%s: isUnseenSet() = %v, want %v", claim, got, c.want)
		}
	}
	all := []searchResult{{workload: set}, {workload: set, selector: "app=api"}, {workload: web, replicas: 10, selector: "app=web"}}
	if got, ok := selecting(all, slices.Values([]map[string]string{{"app": "web", "hash": "a"}, {"app": "web"}})); !ok || got.workload != web {
		t.Errorf("selecting() = %+v, %v, want the Deployment", got, ok)
	}
	if got, ok := selecting(all, slices.Values([]map[string]string{{"app": "web"}, {"app": "db"}})); ok {
		t.Errorf("selecting() = %+v, want none: no workload selects all pods", got)
	}
}

// The status that was stored may be of the last expectation, or of the one before, when a write failed.
func TestIndexRemembersUnlistedWorkloadsOfStoredStatus(t *testing.T) {
	index, web := newWorkloadIndex(), types.NamespacedName{Namespace: "shop", Name: "web"}
	status := func(replicas int32, names ...string) (v1alpha1.Aggregation, expectation) {
		e := expectation{replicas: replicas, workloads: []v1alpha1.ExpectedWorkload{{Name: "listed", UID: "0"}}}
		for _, name := range names {
			e.complete = append(e.complete, v1alpha1.ExpectedWorkload{Name: name, UID: types.UID(name)})
		}
		return v1alpha1.Aggregation{ExpectedReplicas: &e.replicas, Workloads: e.workloads}, e
	}
	none := v1alpha1.Aggregation{}
	first, one := status(1, "a")
	second, two := status(2, "a", "b")
	third, three := status(3, "a", "b", "c")
	fourth, four := status(4)
	index.setExpectation(web, &none, one)
	index.setExpectation(web, &first, two)
	index.setExpectation(web, &first, three)
	for claim, c := range map[string]struct {
		stored v1alpha1.Aggregation
		want   []v1alpha1.ExpectedWorkload
	}{
		"the stored one":               {first, one.complete},
		"one that was never stored":    {second, second.Workloads},
		"the last one":                 {third, three.complete},
		"one that lists all workloads": {fourth, fourth.Workloads},
		"none":                         {none, nil},
	} {
		if diff := cmp.Diff(c.want, index.workloadsOf(web, &c.stored)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", claim, diff)
		}
	}
	index.setExpectation(web, &third, four)
	index.setExpectation(web, &fourth, four)
	if left := len(index.expectations); left != 0 {
		t.Errorf("the index remembers %d protectors whose statuses list all workloads, want 0", left)
	}
}

func workloadAnswers(tops map[snapshot.Owner]searchResult) func(snapshot.Owner) (searchResult, error) {
	return func(o snapshot.Owner) (searchResult, error) {
		top, ok := tops[o]
		if !ok {
			return searchResult{}, errors.New("no such answer")
		}
		return top, nil
	}
}

func TestExpectSumsWorkloadsBeyondStatusLimit(t *testing.T) {
	owners, tops := map[snapshot.Owner]int32{}, map[snapshot.Owner]searchResult{}
	for i := range 200 {
		o := snapshot.Owner{APIVersion: "apps/v1", Kind: "StatefulSet", Name: fmt.Sprintf("db-%d", i), UID: types.UID(fmt.Sprintf("s-%03d", i))}
		if tops[o] = (searchResult{workload: o, replicas: 3}); i < 100 { // the other ones exist, and have pods
			tops[o] = searchResult{workload: o, replicas: 3, deleted: true}
		}
		owners[o] = 1
	}
	before := int32(0)
	first, err := expect(owners, nil, &before, release{}, workloadAnswers(tops))
	if err != nil {
		t.Fatal(err)
	}
	if last := first.workloads[len(first.workloads)-1]; first.replicas != 600 || len(first.workloads) != maxWorkloads ||
		last.Kind != "" || last.Replicas != 3*(100-maxWorkloads+1) || !last.Gone {
		t.Fatalf("expect() = %d replicas of %d workloads, last %+v", first.replicas, len(first.workloads), last)
	}
	for o, top := range tops { // the pods of deleted workloads end, and another aggregator leads
		if top.deleted {
			tops[o] = searchResult{workload: o, deleted: true}
			delete(owners, o)
		}
	}
	second, err := expect(owners, first.workloads, &first.replicas, release{}, workloadAnswers(tops))
	if err != nil || second.replicas != 600 {
		t.Errorf("%d are expected, error %v, want 600", second.replicas, err)
	}
	third, err := expect(owners, second.workloads, &second.replicas, release{byPolicy: true}, workloadAnswers(tops))
	if err != nil || third.replicas != 300 {
		t.Errorf("%d are expected after a release, error %v, want 300", third.replicas, err)
	}
}

// shops returns n workloads, each of which requests 3 pods and has them, and the results of their searches, like one.
func shops(n int, one searchResult) (all []snapshot.Owner, owners map[snapshot.Owner]int32, tops map[snapshot.Owner]searchResult) {
	owners, tops = map[snapshot.Owner]int32{}, map[snapshot.Owner]searchResult{}
	for i := range n {
		o := snapshot.Owner{APIVersion: "example.com/v1", Kind: "Shop", Name: fmt.Sprintf("shop-%d", i), UID: types.UID(fmt.Sprintf("s-%03d", i))}
		one.workload, one.replicas = o, 3
		all, owners[o], tops[o] = append(all, o), 3, one
	}
	return all, owners, tops
}

// Pods of deleted workloads end one by one, and the status lists some of the workloads by the sum of their replicas only. The sum contains each of
// them once, whether its pods still exist or not.
func TestExpectCountsUnlistedWorkloadsOnce(t *testing.T) {
	all, owners, tops := shops(100, searchResult{})
	last := expectation{replicas: 300}
	count := func(claim string) {
		t.Helper()
		now, err := expect(owners, last.workloads, &last.replicas, release{}, workloadAnswers(tops))
		if err != nil || now.replicas != 300 || len(now.workloads) > maxWorkloads {
			t.Fatalf("%s: %d replicas of %d workloads are expected, error %v, want 300", claim, now.replicas, len(now.workloads), err)
		}
		last = now
	}
	count("all exist")
	for some := range slices.Chunk(all, 40) {
		for i, o := range some {
			tops[o] = searchResult{workload: o, replicas: 3, deleted: true}
			if i%10 == 9 {
				count(fmt.Sprint(o.Name, " was deleted"))
				count("and nothing changes")
			}
		}
		for i, o := range slices.Backward(some) {
			delete(owners, o)
			tops[o] = searchResult{workload: o, deleted: true}
			if i%10 == 0 {
				count(fmt.Sprint(o.Name, " has no pods any more"))
			}
		}
	}
}

// Pods that are missing release nothing, however many workloads have lost theirs (rule 13).
func TestExpectKeepsUnlistedWorkloadsThatExist(t *testing.T) {
	_, owners, tops := shops(70, searchResult{})
	var known []v1alpha1.ExpectedWorkload
	for o := range owners { // a leader that has listed them: the last ones lose their pods while the first ones have none
		known = append(known, v1alpha1.ExpectedWorkload{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID, Replicas: 3})
	}
	before := int32(210)
	none, err := expect(nil, known, &before, release{byPolicy: true}, workloadAnswers(tops))
	if err != nil || none.replicas != 210 {
		t.Fatalf("%d are expected while no workload has pods, error %v, want 210", none.replicas, err)
	}
	again, err := expect(nil, none.workloads, &none.replicas, release{byPolicy: true}, workloadAnswers(tops))
	if err != nil || again.replicas != 210 {
		t.Errorf("%d are expected in the next round, error %v, want 210", again.replicas, err)
	}
	back, err := expect(owners, again.workloads, &again.replicas, release{confirmed: true}, workloadAnswers(tops))
	if err != nil || back.replicas != 210 {
		t.Errorf("%d are expected with all pods and a confirmation, error %v, want 210", back.replicas, err)
	}
}

// Another leader finds unlisted workloads again by their pods, and this one remembers them by name. Both expect those that have no pods any more
// (rule 13).
func TestExpectKeepsUnlistedWorkloadsThatLoseTheirPods(t *testing.T) {
	all, owners, tops := shops(70, searchResult{})
	count := func(claim string, known []v1alpha1.ExpectedWorkload, before, want int32) expectation {
		t.Helper()
		e, err := expect(owners, known, &before, release{byPolicy: true}, workloadAnswers(tops))
		if err != nil || e.replicas != want {
			t.Errorf("%s: %d are expected, error %v, want %d", claim, e.replicas, err, want)
		}
		return e
	}
	first := count("all have pods", nil, 0, 210)
	delete(owners, all[69])
	for leader, known := range map[string][]v1alpha1.ExpectedWorkload{"this leader": first.complete, "another leader": first.workloads} {
		second := count(leader, known, 210, 210)
		count(leader+", again", second.workloads, 210, 210)
	}
	second := count("this leader", first.complete, 210, 210)
	tops[all[68]] = searchResult{workload: all[68], replicas: 1}
	count("an unlisted workload was scaled from 3 to 1", second.complete, 210, 208)
}

// A kind that is lost with all its workloads releases none of them (rule 13), also those that the status does not list.
func TestExpectKeepsUnlistedWorkloadsOfALostKind(t *testing.T) {
	_, owners, tops := shops(70, searchResult{deleted: true, kindNotServed: true})
	before := int32(210)
	first, err := expect(owners, nil, &before, release{byPolicy: true}, workloadAnswers(tops))
	if err != nil || first.replicas != 210 {
		t.Fatalf("%d are expected, error %v, want 210", first.replicas, err)
	}
	second, err := expect(nil, first.workloads, &first.replicas, release{byPolicy: true}, workloadAnswers(tops))
	if err != nil || second.replicas != 210 {
		t.Errorf("%d are expected when the pods have ended, error %v, want 210", second.replicas, err)
	}
}

// Any text may be the kind of a pod's owner. The status has room for the names of real ones only.
func TestExpectListsOnlyWorkloadsThatFitIntoAStatus(t *testing.T) {
	api := snapshot.Owner{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "api", UID: "1"}
	odd := snapshot.Owner{APIVersion: "v1", Kind: strings.Repeat("K", 64), Name: "x", UID: "2"}
	tops := map[snapshot.Owner]searchResult{api: {workload: api, replicas: 3}, odd: {workload: odd, deleted: true, kindNotServed: true}}
	before := int32(3)
	e, err := expect(map[snapshot.Owner]int32{api: 3, odd: 1}, nil, &before, release{}, workloadAnswers(tops))
	if err != nil || e.replicas != 4 || len(e.workloads) != 2 || e.workloads[1].Name != otherWorkloads || e.workloads[1].Replicas != 1 {
		t.Fatalf("expect() = %+v, error %v, want the second workload in the sum of the others", e, err)
	}
	if again, err := expect(map[snapshot.Owner]int32{api: 3, odd: 1}, e.workloads, &e.replicas, release{}, workloadAnswers(tops)); err != nil || again.replicas != 4 {
		t.Errorf("%d are expected in the next round, error %v, want 4", again.replicas, err)
	}
}

// Deleted workloads lose their names in the status before those that exist.
func TestStatusListsWorkloadsThatExistFirst(t *testing.T) {
	var all []*tally
	for i := range 2 * maxWorkloads {
		w := v1alpha1.ExpectedWorkload{Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)), Replicas: 1, Gone: i < 70}
		all = append(all, &tally{ExpectedWorkload: w, isSized: true})
	}
	var e expectation
	e.list(all)
	list := e.workloads
	if got := list[len(list)-1]; len(list) != maxWorkloads || got.Name != otherWorkloads || !got.Gone || got.Replicas != 65 {
		t.Errorf("the status has %d workloads, the last one is %+v, want the sum of the 65 deleted ones that have no entry", len(list), got)
	}
	for _, w := range list[:58] {
		if w.Gone {
			t.Errorf("%s is listed before workloads that exist", w.Name)
		}
	}
}
