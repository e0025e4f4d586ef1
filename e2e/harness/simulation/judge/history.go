package judge

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Cluster is one cluster as the judge reads it.
type Cluster struct {
	Name  string
	Store *apiserver.Store
	// RestoredVersion is the version at which it continued after its last restore; 0 if it was never restored.
	RestoredVersion uint64
}

// Protectors returns the protectors that the cluster stores.
func (c *Cluster) Protectors() []*v1alpha1.PodProtector {
	objects, _ := c.Store.List("podprotectors", "")
	var all []*v1alpha1.PodProtector
	for _, o := range objects {
		if p, ok := o.(*v1alpha1.PodProtector); ok {
			all = append(all, p)
		}
	}
	return all
}

// Replica is one run of a process of ours, which the judge tells from later runs by its pointer.
type Replica struct {
	Name      string
	StartedAt time.Time
}

// clusterHistory is the true history of the clusters, which all parts of the judge share. It judges nothing. The lock of the judge guards it.
type clusterHistory struct {
	cells map[string]*cellHistory
	// podCells are the cells of all pods.
	podCells map[types.UID]string
	// protectors are the stored ones by core and name.
	protectors map[protectorKey]*watchedProtector
	// changedCoverages are the protectors whose coverage has ever changed. A restore of a core may bring them back.
	changedCoverages map[incarnation]bool
	// epochRestores are the eras in which the leaderships of each cell began, by core and cell, then by epoch.
	epochRestores map[string]map[int64]int
	// processStarts is the start time of the current process of each name.
	processStarts map[string]time.Time
	// clockTolerance is the maximum difference between clocks.
	clockTolerance time.Duration
}

func newClusterHistory() *clusterHistory {
	return &clusterHistory{
		cells: map[string]*cellHistory{}, protectors: map[protectorKey]*watchedProtector{}, epochRestores: map[string]map[int64]int{},
		processStarts: map[string]time.Time{}, podCells: map[types.UID]string{}, changedCoverages: map[incarnation]bool{},
	}
}

// newWatched returns the history of a protector of a core that is stored for the first time.
func (h *clusterHistory) newWatched(core string) *watchedProtector {
	w := newWatched(core)
	w.podCells = h.podCells
	return w
}

type protectorKey struct {
	core string
	name types.NamespacedName
}

// incarnation is one protector of a core. Another one of its name has another UID.
type incarnation struct {
	core string
	uid  types.UID
}

func (k protectorKey) compare(other protectorKey) int {
	return strings.Compare(k.core+k.name.String(), other.core+other.name.String())
}

func (h *clusterHistory) sortedProtectors() []protectorKey {
	return slices.SortedFunc(maps.Keys(h.protectors), protectorKey.compare)
}

// recordLeadership records in which era of its cell a leadership began: its snapshot is from that era or a later one.
func (h *clusterHistory) recordLeadership(core string, cell *v1alpha1.Cell) {
	key := core + "/" + cell.Name
	if h.epochRestores[key] == nil {
		h.epochRestores[key] = map[int64]int{}
	}
	if _, ok := h.epochRestores[key][cell.Status.Aggregator.Epoch]; !ok {
		h.epochRestores[key][cell.Status.Aggregator.Epoch] = h.cells[cell.Name].restores
		h.cells[cell.Name].workloads.leadershipStarts[leadershipKey{core, cell.Status.Aggregator.Epoch}] = time.Now()
	}
}

// earliestRestores returns the earliest era that a snapshot of an epoch can be from.
func (h *clusterHistory) earliestRestores(core, cell string, epoch int64) int {
	return h.epochRestores[core+"/"+cell][epoch]
}

func (h *clusterHistory) existingPod(cell, name string) *podHistory {
	for _, line := range h.cells[cell].pods {
		if line.name == name && !line.current().isGoneOrTerminating() {
			return line
		}
	}
	return nil
}

// wasCharged reports whether the pod was charged to this protector in every state that a review may have shown. For an eviction the
// webhook reads the pod itself, some time after its API server did.
func (h *clusterHistory) wasCharged(w *watchedProtector, r *Removal, states []podState) bool {
	if reviewed := (podState{pod: r.Reviewed}); !reviewed.isCharged(w, r.chargeableBy(w, h.clockTolerance)) { // a restore may have undone that state
		return false
	}
	for _, s := range states {
		if s.version >= parseVersion(r.Reviewed.ResourceVersion) && !s.isCharged(w, r.chargeableBy(w, h.clockTolerance)) {
			return false
		}
	}
	return true
}

// wasOutside reports whether a pod in these states was at any time since its review not covered by a protector.
func wasOutside(w *watchedProtector, r *Removal, states []podState) bool {
	return slices.ContainsFunc(states, func(s podState) bool {
		return s.version >= parseVersion(r.Reviewed.ResourceVersion) && !w.covers(s.pod)
	})
}

// isAccountedFor reports whether the counts of a cell leave a pod out as gone or terminating, so that it needs no reservation. After a
// restore the counts may be from before it. Only an aggregator has lists besides its snapshot.
func (h *clusterHistory) isAccountedFor(w *watchedProtector, cell *v1alpha1.PodProtectorCell, line *podHistory, listed bool) bool {
	t := h.cells[cell.CellID]
	for era := h.earliestRestores(w.core, cell.CellID, cell.Aggregation.Epoch); era <= t.restores; era++ {
		then := t.podsOf(era)[line.uid]
		if listed && (then == nil || then.current().isDeleted) {
			return true
		}
		if then == nil {
			continue
		}
		if state, ok := then.at(parseVersion(cell.Aggregation.SnapshotVersion)); ok && state.isGoneOrTerminating() {
			return true
		}
	}
	return false
}

// newDecision records the state that a reservation is decided on now.
func (h *clusterHistory) newDecision(w *watchedProtector) decision {
	d := decision{
		at: time.Now(), version: parseVersion(w.stored.ResourceVersion), countedSpec: quota.CountedSpec(&w.stored.Spec), snapshots: map[string]observedVersion{},
		floor: w.effectiveFloor(), position: len(w.floors.decided),
	}
	w.floors.decided = append(w.floors.decided, d.floor)
	for i := range w.stored.Status.Cells {
		c := &w.stored.Status.Cells[i]
		d.snapshots[c.CellID] = observedVersion{h.earliestRestores(w.core, c.CellID, c.Aggregation.Epoch), parseVersion(c.Aggregation.SnapshotVersion)}
	}
	d.firstCharge = charge{d.at, d.version, d.floor, d.position, d.snapshots}
	return d
}

// stalls are the times at which processes were stalled, so that they act on older state. The lock of the judge guards them.
type stalls struct{ byProcess map[string][]stall }

type stall struct{ from, to time.Time }

func newStalls() *stalls { return &stalls{byProcess: map[string][]stall{}} }

// RecordStall records that a process is stalled, or receives no events, for a while.
func (j *Judge) RecordStall(p *Replica, length time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stalls.byProcess[p.Name] = append(j.stalls.byProcess[p.Name], stall{time.Now(), time.Now().Add(length)})
}

// oldestObservedState returns how old the state may be that a process acts on, given that without stalls it would act on the state since from.
func (s *stalls) oldestObservedState(process string, from time.Time) time.Time {
	for again := true; again; {
		again = false
		for _, stalled := range s.byProcess[process] {
			if earlier := stalled.from.Add(-maxInFlightRelease); !stalled.to.Before(from) && earlier.Before(from) {
				from, again = earlier, true
			}
		}
	}
	return from
}
