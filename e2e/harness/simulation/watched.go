package simulation

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// watched is a protector as the core stores it, and the history of its reservations.
type watched struct {
	core   string
	stored *v1alpha1.PodProtector
	// since is the version at which it began to cover its present pods.
	since uint64
	// changes are the changes of its coverage.
	changes []coverageChange
	// guards is the version at which its floor rose from zero. With a floor of zero nothing is reserved, so no conflict of a
	// compare-and-swap shows the new floor to a webhook that lags. The judge treats such a webhook as one that has not seen the protector.
	guards uint64
	// floors are its floors over time.
	floors []floorSince
	// decisions are the states that each reservation was decided on, by pod. decided are the floors of all decisions in their order.
	decisions map[quota.UIDHash]decision
	decided   []int
	// effected are the pods that were removed by their reservations.
	effected map[quota.UIDHash]bool
	// overdue are the pods whose reservation of an update was dropped after the timeout.
	overdue map[quota.UIDHash]bool
	// forgotten are the pods whose reservation was lost in a restore of the core. restored is when the core was last restored.
	forgotten map[quota.UIDHash]bool
	restored  time.Time
	// renewed is the version that the core continued with then.
	renewed uint64
	// confirmed is when it last had the annotation that releases workloads.
	confirmed time.Time
	// vouched are the versions at which the entry of each cell was last not discounted.
	vouched map[string]uint64
	// lost is when it vanished without having been released. back is the version at which it was recreated; 0 until then.
	lost time.Time
	back uint64
	// unheard are the processes that had not seen it when the core was last restored.
	unheard map[string]bool
}

// isLost reports whether it is in force although it is not stored.
func (w *watched) isLost() bool { return !w.lost.IsZero() && w.back == 0 }

// isUnheardOf reports whether a webhook could not know it: its watch has not shown it, or it started when the protector did not exist, or
// a restore of the core undid the protector before that.
func (w *watched) isUnheardOf(r *removal) bool {
	knew := r.knew[w.core]
	if !w.lost.IsZero() && (w.back == 0 || knew < w.back) && (r.witness.After(w.lost) || w.unheard[r.webhook]) {
		return true
	}
	return knew < max(w.since, w.guards)
}

// isWithoutStatus reports whether it was recreated after it had reserved a pod, and does not have its status yet. Until then it admits
// nothing.
func (w *watched) isWithoutStatus(pod quota.UIDHash) bool {
	made, reserved := w.decisions[pod]
	return quota.Unfinished(w.stored) && reserved && !made.at.After(w.lost)
}

func newWatched(core string) *watched {
	return &watched{
		core: core, decisions: map[quota.UIDHash]decision{}, forgotten: map[quota.UIDHash]bool{}, effected: map[quota.UIDHash]bool{},
		vouched: map[string]uint64{}, overdue: map[quota.UIDHash]bool{},
	}
}

type floorSince struct {
	at    time.Time
	floor int
}

type decision struct {
	at          time.Time
	version     uint64
	countedSpec string
	// floor is the floor of the version that it was made on. nth is its position among the decisions on the protector.
	floor, nth int
	// overdrawn reports whether it was admitted only because of an annotation of the pod.
	overdrawn bool
	// restored reports whether a restore of the core brought the reservation back, at the time of the decision.
	restored bool
	// blind reports whether it was decided by counts of a lost history that the webhook could not recognize as such.
	blind bool
	// seen are the snapshots of the cells that were summed.
	seen map[string]sighting
	// charged is the first of the decisions on the reservation, if it was renewed.
	charged charged
}

// charged is when a removal was charged, and by which snapshots.
type charged struct {
	at         time.Time
	version    uint64
	floor, nth int
	seen       map[string]sighting
}

func (w *watched) name() string { return w.core + "/" + w.stored.Name }

// coreChanged judges a change in a core cluster.
func (j *judge) coreChanged(core string, e *apiserver.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.decreases.observe(core, e)
	switch object := e.New.(type) {
	case *v1alpha1.Cell:
		j.cellObjectChanged(core, object, e)
		j.leads(core, object)
		j.sharesOut(core, object, e)
	case *coordinationv1.Lease:
		j.leased(core, object, e)
	case *eventsv1.Event:
		j.releaseNoted(core, object)
	}
	if isSource(e.New) {
		j.sourceChanged(core, e)
	}
	p, ok := e.New.(*v1alpha1.PodProtector)
	if !ok {
		return
	}
	j.counts.Writes++
	key := protectorKey{core, client.ObjectKeyFromObject(p)}
	if e.Type == watch.Deleted {
		j.trace.add("%s: protector %s is gone by %s", core, p.Name, orWorld(e.By))
		j.protectorEnds(key, e)
		return
	}
	w := j.protectors[key]
	if w == nil || w.isLost() && !isRecreated(p) {
		w = newWatched(core)
		j.protectors[key] = w
	}
	old, _ := e.Old.(*v1alpha1.PodProtector)
	if isRecreated(p) && (old == nil || quota.Unfinished(old)) {
		j.recreated(w, p, e)
		return
	}
	j.trace.add("%s: protector %s by %s: %s", core, p.Name, orWorld(e.By), describeStatus(p))
	if old == nil || quota.CountedSpec(&old.Spec) != quota.CountedSpec(&p.Spec) {
		j.liveness.changed[key] = time.Now()
	}
	w.take(p, old, e.Version)
	j.judgeStatus(w, old, e)
}

// leads records in which era of its cell a leadership began: its snapshot is from that era or a later one.
func (j *judge) leads(core string, cell *v1alpha1.Cell) {
	key := core + "/" + cell.Name
	if j.epochs[key] == nil {
		j.epochs[key] = map[int64]int{}
	}
	if _, ok := j.epochs[key][cell.Status.Aggregator.Epoch]; !ok {
		j.epochs[key][cell.Status.Aggregator.Epoch] = j.cells[cell.Name].era
		j.cells[cell.Name].workloads.led[epochKey{core, cell.Status.Aggregator.Epoch}] = time.Now()
	}
}

// eraOf returns the earliest era that a snapshot of an epoch can be from.
func (j *judge) eraOf(core, cell string, epoch int64) int { return j.epochs[core+"/"+cell][epoch] }

// take makes p the stored state.
func (w *watched) take(p, old *v1alpha1.PodProtector, version uint64) {
	w.stored = p
	w.noteConfirmed(old)
	if old == nil || quota.CountedSpec(&old.Spec) != quota.CountedSpec(&p.Spec) {
		w.since = version
		w.change(old, version)
	}
	w.hear()
	if old != nil && floorOf(old) == 0 && floorOf(p) > 0 {
		w.guards = version
	}
	if floor := w.floorNow(); len(w.floors) == 0 || w.floors[len(w.floors)-1].floor != floor {
		w.floors = append(w.floors, floorSince{at: time.Now(), floor: floor})
	}
}

func describeStatus(p *v1alpha1.PodProtector) string {
	var parts []string
	for i := range p.Status.Cells {
		c := &p.Status.Cells[i]
		var pods []string
		for r := range quota.Reservations(&c.AdmissionHistory) {
			if r.PodName == "" {
				r.PodName = fmt.Sprintf("%x", uint64(r.Hash)>>48)
			}
			pods = append(pods, r.PodName)
		}
		counted := fmt.Sprintf("%d available", c.Aggregation.CountedReplicas)
		if c.Aggregation.Void {
			counted = "void"
		}
		parts = append(parts, fmt.Sprintf("%s %s at %s (epoch %d of %s), reserved %v",
			c.CellID, counted, c.Aggregation.SnapshotVersion, c.Aggregation.Epoch, c.Aggregation.TermVersion, pods))
	}
	return fmt.Sprintf("floor %d; %s", floorOf(p), strings.Join(parts, "; "))
}
