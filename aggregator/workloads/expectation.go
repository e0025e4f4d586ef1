package workloads

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// expectation is the number of pods that the workloads of a protector request in one cell, and those workloads.
type expectation struct {
	replicas  int32
	workloads []v1alpha1.ExpectedWorkload
}

// found is the result of a search for the workload that states how many pods of an owner there should be.
type found struct {
	// workload is that workload. If it no longer exists, it is the last known one.
	workload snapshot.Owner
	replicas int32
	// deleted reports that it does not exist, and kindNotServed that the API server does not serve its kind any more.
	deleted, kindNotServed bool
	// isSilent reports that it exists and states no number, as one without a scale. It was expected only while it did not exist.
	isSilent bool
	// above is the object above the workload; NoOwner if there is none.
	above snapshot.Owner
	// asked are the objects on which the result depends.
	asked []workloadName
}

// release states which workloads that no longer exist are no longer expected: by the protector's policy those that were deleted, by a
// confirmation also those whose kind no longer exists.
type release struct{ byPolicy, confirmed bool }

func (r release) applies(t *tally) bool {
	return t.Gone && (r.confirmed || r.byPolicy && !t.kindNotServed)
}

// errOwnerless can be resolved only by another spec, or by other pods.
var errOwnerless = errors.New("no controller states how many are expected: set spec.expectedReplicas")

const (
	// maxWorkloads is the maximum number of workloads in a status; see v1alpha1.Aggregation.
	maxWorkloads = 64
	// otherWorkloads is the name of the entry for the workloads beyond that.
	otherWorkloads = "others"
)

// expect adds up the replicas that the workloads of a protector request in a cell (rule 13). owners are the controllers of its pods,
// including terminating pods, with the number of pods each has. known are the workloads that were expected before, and before is their
// sum: a workload stays expected, with or without pods, until its replicas decrease. A workload that was deleted stays expected at its
// last size, unless it is released. search finds the workload of an owner.
//
// A workload that was deleted before any leader saw it gets the remainder of the sum.
func expect(
	owners map[snapshot.Owner]int32, expected []v1alpha1.ExpectedWorkload, before *int32, release release, search func(snapshot.Owner) (found, error),
) (expectation, error) {
	all, err := tallyAll(owners, expected, search)
	if err != nil {
		return expectation{}, err
	}
	var e expectation
	var kept []*tally
	var unseen *tally
	spare := 0 // pods of workloads that no leader saw, minus those that are expected of other deleted workloads
	for _, uid := range slices.Sorted(maps.Keys(all)) {
		t := all[uid]
		switch {
		case release.applies(t):
			continue
		case t.Gone && !t.seen:
			unseen, spare = cmp.Or(unseen, t), spare+int(t.pods)
			continue
		case t.Gone:
			t.Replicas = max(t.Replicas, t.pods)
			spare -= int(t.Replicas)
		}
		kept, e.replicas = append(kept, t), quota.AddSaturating(e.replicas, t.Replicas)
	}
	if unseen != nil {
		unseen.Replicas = quota.Saturate(max(spare, 0))
		if before != nil {
			unseen.Replicas = max(unseen.Replicas, *before-e.replicas)
		}
		if unseen.Replicas > 0 {
			kept, e.replicas = append(kept, unseen), quota.AddSaturating(e.replicas, unseen.Replicas)
		}
	}
	e.workloads = statusWorkloads(kept)
	return e, nil
}

// tally is a workload while expectations are added up.
type tally struct {
	v1alpha1.ExpectedWorkload

	// pods is the number of pods that it owns.
	pods int32
	// seen reports that its size is known.
	seen, kindNotServed bool
}

// tallyAll finds the workloads of the owners of pods, each once (a Deployment has several ReplicaSets), and the known ones.
func tallyAll(
	owners map[snapshot.Owner]int32, expected []v1alpha1.ExpectedWorkload, search func(snapshot.Owner) (found, error),
) (map[types.UID]*tally, error) {
	if alone := owners[snapshot.NoOwner()]; alone > 0 {
		return nil, fmt.Errorf("%s: %w", printable.Count(int(alone), "pod"), errOwnerless)
	}
	all := map[types.UID]*tally{}
	var failed []error
	add := func(o snapshot.Owner, pods, last int32) {
		top, err := search(o)
		if err != nil {
			failed = append(failed, err)
			return
		}
		if top.isSilent {
			return
		}
		w := top.workload
		t := all[w.UID]
		if t == nil {
			t = &tally{ExpectedWorkload: v1alpha1.ExpectedWorkload{APIVersion: w.APIVersion, Kind: w.Kind, Name: w.Name, UID: w.UID}}
			all[w.UID] = t
		}
		t.Gone, t.kindNotServed = top.deleted, top.kindNotServed
		t.Replicas, t.pods = max(t.Replicas, top.replicas), t.pods+pods
		if t.Gone && o.UID == w.UID {
			t.Replicas = max(t.Replicas, last)
		}
		t.seen = !t.Gone || t.Replicas > 0
	}
	for _, w := range expected {
		if w.UID == "" {
			all[w.UID] = &tally{ExpectedWorkload: w, seen: true}
			continue
		}
		add(snapshot.Owner{APIVersion: w.APIVersion, Kind: w.Kind, Name: w.Name, UID: w.UID}, 0, w.Replicas)
	}
	for _, o := range slices.SortedFunc(maps.Keys(owners), byUID) {
		add(o, owners[o], 0)
	}
	return all, errors.Join(failed...)
}

// statusWorkloads returns the workloads for the status. If there are too many, it lists first those that cannot be found again by their pods, and
// adds up the replicas of the rest of those.
func statusWorkloads(all []*tally) []v1alpha1.ExpectedWorkload {
	slices.SortStableFunc(all, func(a, b *tally) int { return cmp.Compare(a.rank(), b.rank()) })
	var list []v1alpha1.ExpectedWorkload
	rest := v1alpha1.ExpectedWorkload{Name: otherWorkloads, Gone: true}
	for i, t := range all {
		switch {
		case i < maxWorkloads-1 || len(all) == maxWorkloads:
			list = append(list, t.ExpectedWorkload)
		case t.rank() < rankWithPods:
			rest.Replicas = quota.AddSaturating(rest.Replicas, t.Replicas)
		}
	}
	if rest.Replicas > 0 {
		list = append(list, rest)
	}
	return list
}

// The ranks of workloads: the lower, the harder they are to find again.
const (
	rankDeleted = iota
	rankWithoutPods
	rankWithPods
)

func (t *tally) rank() int {
	switch {
	case t.Gone:
		return rankDeleted
	case t.pods == 0:
		return rankWithoutPods
	default:
		return rankWithPods
	}
}

func byUID(a, b snapshot.Owner) int { return cmp.Compare(a.UID, b.UID) }
