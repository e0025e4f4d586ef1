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
	replicas int32
	// workloads are those that the status lists, and complete those that this leadership remembers: nil if they are the same.
	workloads, complete []v1alpha1.ExpectedWorkload
}

// searchResult is the result of a search for the workload that states how many pods of an owner there should be.
type searchResult struct {
	// workload is that workload. If it no longer exists, it is the last known one.
	workload snapshot.Owner
	replicas int32
	// deleted reports that it does not exist, and kindNotServed that the API server does not serve its kind any more.
	deleted, kindNotServed bool
	// isSilent reports that it was expected, exists, and has neither pods nor a scale: nothing is expected of it any more (rule 16).
	isSilent bool
	// above is the object above the workload; NoOwner if there is none.
	above snapshot.Owner
	// selector is that of the scale of a workload that exists.
	selector string
	// asked are the objects on which the result depends.
	asked []workloadName
}

// release states which workloads are no longer expected. The protector's policy releases those that were deleted. A confirmation also releases
// those whose kind the API server no longer serves, and the sum of the workloads that the status does not list.
type release struct{ byPolicy, confirmed bool }

func (r release) applies(t *tally) bool {
	return r.confirmed && (t.Gone || isSum(t.ExpectedWorkload)) || r.byPolicy && t.Gone && !t.kindNotServed
}

// errOwnerless can be resolved only by another spec, or by other pods.
var errOwnerless = errors.New("no controller states how many are expected: set spec.expectedReplicas")

const (
	// maxWorkloads is the maximum number of workloads in a status; see v1alpha1.Aggregation.
	maxWorkloads = 64
	// otherWorkloads is the name of the entry with the sum of the workloads beyond that. It has no UID.
	otherWorkloads = "others"
)

// expect adds up the replicas that the workloads of a protector request in a cell (rule 13). owners are the controllers of its pods,
// including terminating pods, with the number of pods each has. known are the workloads that were expected before, and before is their
// sum: a workload stays expected, with or without pods, until its replicas decrease. A workload that was deleted stays expected at its
// last size, unless it is released. If no leader knew its size, it gets the remainder of before. search finds the workload of an owner.
func expect(
	owners map[snapshot.Owner]int32, known []v1alpha1.ExpectedWorkload, before *int32, released release, search func(snapshot.Owner) (searchResult, error),
) (expectation, error) {
	all, err := tallyAll(owners, known, search)
	if err != nil {
		return expectation{}, err
	}
	var e expectation
	var kept []*tally
	var unsized *tally
	// spare is the number of pods of workloads of unknown size, minus the replicas of other deleted workloads. A ReplicaSet of unknown size may have
	// belonged to one of these, which then counts its pods already.
	spare := 0
	unlisted := newUnlistedReplicas(known, before)
	for _, uid := range slices.Sorted(maps.Keys(all)) {
		t := all[uid]
		if t.Gone && !t.isSized {
			if !released.applies(t) {
				unsized, spare = cmp.Or(unsized, t), spare+int(t.pods)
			}
			continue
		}
		if t.Gone {
			t.Replicas = max(t.Replicas, t.pods)
		}
		if !t.isListed {
			unlisted.add(t)
		}
		if released.applies(t) {
			continue
		}
		if t.Gone {
			spare -= int(t.Replicas)
		}
		kept, e.replicas = append(kept, t), quota.AddSaturating(e.replicas, t.Replicas)
	}
	if others := unlisted.rest(released); others.Replicas > 0 {
		kept, e.replicas, spare = append(kept, others), quota.AddSaturating(e.replicas, others.Replicas), spare-int(others.Replicas)
	}
	if unsized != nil {
		unsized.Replicas = quota.Saturate(max(spare, 0))
		if before != nil {
			unsized.Replicas = max(unsized.Replicas, *before-e.replicas)
		}
		if unsized.Replicas > 0 {
			kept, e.replicas = append(kept, unsized), quota.AddSaturating(e.replicas, unsized.Replicas)
		}
	}
	e.list(kept)
	return e, nil
}

// tally is a workload while expectations are added up.
type tally struct {
	v1alpha1.ExpectedWorkload

	// pods is the number of pods that it owns.
	pods int32
	// isListed reports that the last status has an entry for it, and isSized that its size is known.
	isListed, isSized, kindNotServed bool
}

// isSum reports whether an entry is the sum of workloads that a status does not list.
func isSum(w v1alpha1.ExpectedWorkload) bool { return w.UID == "" }

// noOthers is the sum of no workloads.
func noOthers() v1alpha1.ExpectedWorkload {
	return v1alpha1.ExpectedWorkload{Name: otherWorkloads, Gone: true}
}

// fits reports whether v1alpha1.ExpectedWorkload has room for the names of the workload. API servers do not limit the names in the owner references
// of pods; one that does not fit would make them reject all counts of the protector.
func (t *tally) fits() bool {
	return len(t.APIVersion) <= 253 && len(t.Kind) <= 63 && len(t.Name) <= 253 && len(t.UID) <= 128
}

// unlistedReplicas are the replicas of the workloads that the last status does not list. This leadership remembers these workloads by name. Another
// leadership finds those that have pods.
type unlistedReplicas struct {
	// sum is the status's entry for the workloads that had no pods, or did not exist.
	sum v1alpha1.ExpectedWorkload
	// withPods is the number of replicas of the other workloads.
	withPods int32
	// existing and gone are the replicas of the workloads that add was called with: those that exist, and those that no longer exist.
	existing, gone int32
}

// newUnlistedReplicas returns what the workloads of a status leave out of the expectation before, if there is one.
func newUnlistedReplicas(known []v1alpha1.ExpectedWorkload, before *int32) *unlistedReplicas {
	u := &unlistedReplicas{sum: noOthers()}
	listed := int32(0)
	for _, w := range known {
		listed = quota.AddSaturating(listed, w.Replicas)
		if isSum(w) {
			u.sum = w
		}
	}
	if before != nil && len(known) >= maxWorkloads-1 {
		u.withPods = max(*before-listed, 0)
	}
	return u
}

// add adds a workload that was found by its pods. A new workload cannot be distinguished from an unlisted one, and counts as one.
func (u *unlistedReplicas) add(t *tally) {
	if t.Gone {
		u.gone = quota.AddSaturating(u.gone, t.Replicas)
	} else {
		u.existing = quota.AddSaturating(u.existing, t.Replicas)
	}
}

// rest returns the sum of the workloads that were not added and are not released. Those that had pods may exist, so that no policy releases them.
// rest never subtracts a workload that exists from sum. That workload may have been part of sum and got pods since, but an expectation does not
// decrease because a workload gets pods.
func (u *unlistedReplicas) rest(released release) *tally {
	t := &tally{ExpectedWorkload: u.sum, isSized: true}
	withPods := max(u.withPods-u.existing, 0)
	if t.Replicas = max(t.Replicas-max(u.gone-withPods, 0), 0); released.applies(t) {
		t.Replicas = 0
	}
	if withPods = max(withPods-u.gone, 0); withPods > 0 && !released.confirmed {
		t.Replicas, t.Gone = quota.AddSaturating(t.Replicas, withPods), false
	}
	return t
}

// tallyAll finds the workloads of the owners of pods, each once (a Deployment has several ReplicaSets), and the known ones.
func tallyAll(
	owners map[snapshot.Owner]int32, known []v1alpha1.ExpectedWorkload, search func(snapshot.Owner) (searchResult, error),
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
		t.isSized = !t.Gone || t.Replicas > 0
	}
	for _, w := range known {
		if isSum(w) {
			continue
		}
		add(snapshot.Owner{APIVersion: w.APIVersion, Kind: w.Kind, Name: w.Name, UID: w.UID}, 0, w.Replicas)
		if t := all[w.UID]; t != nil {
			t.isListed = true
		}
	}
	for _, o := range slices.SortedFunc(maps.Keys(owners), byUID) {
		add(o, owners[o], 0)
	}
	return all, errors.Join(failed...)
}

// list sets the workloads of the expectation. If there are too many for the status, it lists first those that have no pods or were deleted, because
// pods do not show them again. One entry, the last, has the sum of those of them that do not fit. This entry counts as gone only if a policy may
// release all of its workloads: otherwise only a confirmation releases it. The complete list has all workloads that exist or have pods.
func (e *expectation) list(all []*tally) {
	slices.SortStableFunc(all, func(a, b *tally) int { return cmp.Compare(a.rank(), b.rank()) })
	room := maxWorkloads
	if len(all) > maxWorkloads || slices.ContainsFunc(all, func(t *tally) bool { return isSum(t.ExpectedWorkload) || !t.fits() }) {
		room--
	}
	sum, rest := noOthers(), noOthers()
	for _, t := range all {
		isRest := isSum(t.ExpectedWorkload) || t.Gone && t.pods == 0
		switch {
		case len(e.workloads) < room && !isSum(t.ExpectedWorkload) && t.fits():
			e.workloads, isRest = append(e.workloads, t.ExpectedWorkload), false
		case t.rank() < rankWithPods:
			t.addTo(&sum)
		}
		if isRest {
			t.addTo(&rest)
		} else {
			e.complete = append(e.complete, t.ExpectedWorkload)
		}
	}
	if len(e.complete) == len(e.workloads) {
		e.complete = nil
	} else if rest.Replicas > 0 {
		e.complete = append(e.complete, rest)
	}
	if sum.Replicas > 0 {
		e.workloads = append(e.workloads, sum)
	}
}

func (t *tally) addTo(sum *v1alpha1.ExpectedWorkload) {
	sum.Replicas, sum.Gone = quota.AddSaturating(sum.Replicas, t.Replicas), sum.Gone && t.Gone && !t.kindNotServed
}

// The ranks of workloads, in the order in which the status lists them. A workload without pods comes first: by its name, a leader can see whether it
// still exists. A deleted one stays expected even if its name is unknown. Workloads with pods come last, because a leader finds them by these.
const (
	rankWithoutPods = iota
	rankDeleted
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
