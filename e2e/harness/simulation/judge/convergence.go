package judge

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Convergence reports whether the statuses that the clusters store have converged on the truth. It changes nothing.
type Convergence struct {
	Judge          *Judge
	Scenario       scenario.Scenario
	Cores, Workers []*Cluster
	// Webhooks returns what the watches of each webhook have shown.
	Webhooks func() []WatchedVersions
	// Generators returns the names of the processes that keep protectors.
	Generators func() []string
	// CountUnrenewed counts the reservations of a cell that no client renews.
	CountUnrenewed func(*v1alpha1.AdmissionHistory) int
}

// WatchedVersions is for each core the version up to which a webhook has received the protectors.
type WatchedVersions struct {
	Webhook string
	ByCore  map[string]uint64
}

// CalmProblem returns "" if the status of every protector is true and nothing is reserved. Otherwise it returns the first deviation.
func (cv *Convergence) CalmProblem() string {
	if problem := cv.unservedSource(); problem != "" {
		return problem
	}
	for _, core := range cv.Cores {
		if problem := cv.shardingProblem(core); problem != "" {
			return problem
		}
		for _, p := range core.Protectors() {
			if problem := cv.unseenCoverage(core.Name, p); problem != "" {
				return problem
			}
			if problem := cmp.Or(discountReason(p), cv.targetProblem(core.Name, p), cv.expectationProblem(core.Name, p)); problem != "" {
				return problem
			}
			watched := cv.Judge.history.protectors[protectorKey{core.Name, client.ObjectKeyFromObject(p)}]
			for _, worker := range cv.Workers {
				cell := quota.CellOf(p, worker.Name)
				if cell == nil {
					return fmt.Sprintf("protector %s has no counts of %s", p.Name, worker.Name)
				}
				if term := parseVersion(cell.Aggregation.TermVersion); term < core.RestoredVersion {
					return fmt.Sprintf("protector %s has counts of %s of a leadership that began at %d, before the core was restored", p.Name, worker.Name, term)
				}
				if problem := unguarded(&cv.Scenario.Scope, worker, p); problem != "" {
					return problem
				}
				if cell.Aggregation.InTransition { // a new leader of the cell would begin the transition again
					return fmt.Sprintf("protector %s counts the pods of %s by an earlier spec as well", p.Name, worker.Name)
				}
				want := cv.Judge.history.cells[worker.Name].available(watched, time.Now())
				if got := int(cell.Aggregation.CountedReplicas); got != want || cell.Aggregation.Void || cell.Aggregation.CountedSpec != quota.CountedSpec(&p.Spec) {
					return fmt.Sprintf("protector %s counts %d pods of %s, want %d", p.Name, got, worker.Name, want)
				}
				if open := cv.CountUnrenewed(&cell.AdmissionHistory) + countEscrowed(&cell.AdmissionHistory); open > 0 {
					return fmt.Sprintf("protector %s has %d open reservations of %s: %s", p.Name, open, worker.Name, describeStatus(p))
				}
			}
		}
	}
	return ""
}

// unseenCoverage returns "" if all webhooks know what a protector covers: events that were delayed in the storm still take their time.
func (cv *Convergence) unseenCoverage(core string, p *v1alpha1.PodProtector) string {
	watched := cv.Judge.history.protectors[protectorKey{core, client.ObjectKeyFromObject(p)}]
	for _, webhook := range cv.Webhooks() {
		if knows, needs := webhook.ByCore[core], max(watched.coveredSince, watched.floorRaisedAt); knows < needs {
			return fmt.Sprintf("%s has seen protector %s of core %s up to version %d, want %d", webhook.Webhook, p.Name, core, knows, needs)
		}
	}
	return ""
}

// UncountedProtector returns which protector is not counted in which cell; "" if there is none. The storm must not begin earlier.
func (cv *Convergence) UncountedProtector() string {
	for _, core := range cv.Cores {
		for _, p := range core.Protectors() {
			for _, worker := range cv.Workers {
				cell := quota.CellOf(p, worker.Name)
				if cell == nil || cell.Aggregation.Void || cell.Aggregation.CountedSpec != quota.CountedSpec(&p.Spec) {
					return fmt.Sprintf("protector %s is not counted in %s", p.Name, worker.Name)
				}
			}
		}
	}
	return ""
}

// DenialReason returns why a removal must be refused, or "" if it must be admitted.
func (j *Judge) DenialReason(cell, pod string) string {
	line := j.history.existingPod(cell, pod)
	if metav1.HasAnnotation(line.current().pod.ObjectMeta, v1alpha1.AnnotationForceDelete) {
		return ""
	}
	for _, key := range j.history.sortedProtectors() {
		p := j.history.protectors[key]
		if !line.current().isCharged(p, time.Now()) {
			continue
		}
		available := 0
		for _, t := range j.history.cells {
			available += t.available(p, time.Now())
		}
		if floor := floorOf(p.stored); floor > 0 && available <= floor {
			return fmt.Sprintf("protector %s has %d available and a floor of %d", p.name(), available, floor)
		}
		if problem := j.history.intolerableLoss(p, cell); problem != "" {
			return problem
		}
	}
	return ""
}

// ShareConvergence reports whether the shares that the clusters store have converged on the truth. It changes nothing.
type ShareConvergence struct {
	Judge          *Judge
	Scenario       scenario.Scenario
	Cores, Workers []*Cluster
}

// ClosedShare returns what is missing until all cells decide on the shares that they should have; "" if nothing.
func (sc *ShareConvergence) ClosedShare() string {
	if existing := len(sc.protectors()); existing < len(sc.Scenario.Protectors) {
		return fmt.Sprintf("%d protectors exist, want %d", existing, len(sc.Scenario.Protectors))
	}
	for _, p := range sc.protectors() {
		for _, worker := range sc.Workers {
			entry, share := quota.CellOf(p.PodProtector, worker.Name), sc.shareOf(worker, p)
			wants := p.Spec.CoreOutage == v1alpha1.CoreOutageLocalShare && !sc.known(p).toleratesDomainLoss()
			name := fmt.Sprintf("protector %s in %s", sc.known(p).name(), worker.Name)
			switch {
			case entry == nil || !isCounted(p.PodProtector, &entry.Aggregation):
				return name + " is not counted"
			case wants && (entry.Share == nil || share == nil || share.Spec.ShareOf.Closed):
				return name + " has no open share"
			case !wants && (entry.Share != nil || share != nil):
				return name + " has a share"
			case wants && (len(share.Status.Cells) == 0 || !isCounted(share, &share.Status.Cells[0].Aggregation)):
				return name + " has a share that is not counted"
			}
		}
	}
	return ""
}

// coreProtector is a protector of a core.
type coreProtector struct {
	*v1alpha1.PodProtector
	core *Cluster
}

// protectors returns the protectors of all cores.
func (sc *ShareConvergence) protectors() (all []coreProtector) {
	for _, core := range sc.Cores {
		for _, p := range core.Protectors() {
			all = append(all, coreProtector{p, core})
		}
	}
	return all
}

// shareOf returns the share of a protector in a cell; nil if there is none.
func (sc *ShareConvergence) shareOf(worker *Cluster, p coreProtector) *v1alpha1.PodProtector {
	for _, share := range worker.Protectors() {
		if of := share.Spec.ShareOf; of != nil && of.Core == p.core.Name && of.Name == p.Name && of.UID == string(p.UID) {
			return share
		}
	}
	return nil
}

// CalmProblem returns what has not converged; "" if all has.
func (sc *ShareConvergence) CalmProblem() string {
	if problem := sc.ClosedShare(); problem != "" {
		return problem
	}
	for _, p := range sc.protectors() {
		if problem := sc.keptProblem(p); problem != "" {
			return problem
		}
		for _, worker := range sc.Workers {
			if problem := unguarded(&sc.Scenario.Scope, worker, p.PodProtector); problem != "" {
				return problem
			}
			decides, in := p.PodProtector, p.core
			if share := sc.shareOf(worker, p); share != nil {
				decides, in = share, worker
			}
			cell := quota.CellOf(decides, worker.Name)
			if term := parseVersion(cell.Aggregation.TermVersion); term < in.RestoredVersion || cell.Aggregation.Void {
				return fmt.Sprintf("protector %s has counts in %s of a leadership that began at %d, restored at %d", decides.Name, in.Name, term, in.RestoredVersion)
			}
			counted, want := int(cell.Aggregation.CountedReplicas), sc.Judge.history.cells[worker.Name].available(sc.known(p).watchedProtector, time.Now())
			recorded := int(quota.CellOf(p.PodProtector, worker.Name).Aggregation.CountedReplicas)
			if open := countOpenReservations(&cell.AdmissionHistory); counted != want || recorded != want || open > 0 {
				return fmt.Sprintf("protector %s has %d pods of %s in %s with %d reservations, want %d pods", p.Name, counted, worker.Name, decides.Name, open, want)
			}
		}
	}
	return ""
}

// keptProblem returns "" if all shares keep the floor, or all pods if there are fewer: they make up for pods that have died elsewhere (rule S4).
func (sc *ShareConvergence) keptProblem(p coreProtector) string {
	kept, all := 0, 0
	for _, worker := range sc.Workers {
		pods := sc.Judge.history.cells[worker.Name].available(sc.known(p).watchedProtector, time.Now())
		all += pods
		if share := sc.shareOf(worker, p); share != nil {
			pods = min(pods, share.Spec.MinAvailable.IntValue())
		}
		kept += pods
	}
	if want := min(floorOf(p.PodProtector), all); kept < want {
		return fmt.Sprintf("protector %s keeps %d pods, want %d", sc.known(p).name(), kept, want)
	}
	return ""
}

func (sc *ShareConvergence) known(p coreProtector) *sharedProtector {
	return sc.Judge.shares.protectors[protectorKey{p.core.Name, client.ObjectKeyFromObject(p)}]
}

// HasBudget reports whether one more removal in a cell leaves the floor of each protector.
func (sc *ShareConvergence) HasBudget(cell *Cluster) bool {
	for _, p := range sc.protectors() {
		known, floor := sc.known(p), floorOf(p.PodProtector)
		if sc.Judge.shares.available(known) <= floor && floor > 0 || sc.Judge.history.intolerableLoss(known.watchedProtector, cell.Name) != "" {
			return false
		}
	}
	return true
}

// IsReadyPod reports whether a pod is ready.
func IsReadyPod(pod *corev1.Pod) bool { return podState{pod: pod}.isReady() }
