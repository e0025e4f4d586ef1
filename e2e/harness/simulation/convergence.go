package simulation

import (
	"cmp"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// convergence reports whether the statuses that the clusters store have converged on the truth. It changes nothing.
type convergence struct {
	judge          *judge
	scenario       Scenario
	cores, workers []*clusterView
	// webhooks returns what the watches of each webhook have shown.
	webhooks func() []watchedVersions
	// generators returns the names of the processes that keep protectors.
	generators func() []string
	// countUnrenewed counts the reservations of a cell that no client renews.
	countUnrenewed func(*v1alpha1.AdmissionHistory) int
}

// watchedVersions is for each core the version up to which a webhook has received the protectors.
type watchedVersions struct {
	webhook string
	byCore  map[string]uint64
}

// calmProblem returns "" if the status of every protector is true and nothing is reserved. Otherwise it returns the first deviation.
func (cv *convergence) calmProblem() string {
	if problem := cv.unservedSource(); problem != "" {
		return problem
	}
	for _, core := range cv.cores {
		if problem := cv.shardingProblem(core); problem != "" {
			return problem
		}
		for _, p := range core.protectors() {
			if problem := cv.unseenCoverage(core.name, p); problem != "" {
				return problem
			}
			if problem := cmp.Or(discountReason(p), cv.targetProblem(core.name, p), cv.expectationProblem(core.name, p)); problem != "" {
				return problem
			}
			watched := cv.judge.history.protectors[protectorKey{core.name, client.ObjectKeyFromObject(p)}]
			for _, worker := range cv.workers {
				cell := quota.CellOf(p, worker.name)
				if cell == nil {
					return fmt.Sprintf("protector %s has no counts of %s", p.Name, worker.name)
				}
				if term := parseVersion(cell.Aggregation.TermVersion); term < core.restoredVersion {
					return fmt.Sprintf("protector %s has counts of %s of a leadership that began at %d, before the core was restored", p.Name, worker.name, term)
				}
				if problem := unguarded(&cv.scenario.Scope, worker, p); problem != "" {
					return problem
				}
				if cell.Aggregation.InTransition { // a new leader of the cell would begin the transition again
					return fmt.Sprintf("protector %s counts the pods of %s by an earlier spec as well", p.Name, worker.name)
				}
				want := cv.judge.history.cells[worker.name].available(watched, time.Now())
				if got := int(cell.Aggregation.CountedReplicas); got != want || cell.Aggregation.Void || cell.Aggregation.CountedSpec != quota.CountedSpec(&p.Spec) {
					return fmt.Sprintf("protector %s counts %d pods of %s, want %d", p.Name, got, worker.name, want)
				}
				if open := cv.countUnrenewed(&cell.AdmissionHistory); open > 0 {
					return fmt.Sprintf("protector %s has %d open reservations of %s: %s", p.Name, open, worker.name, describeStatus(p))
				}
			}
		}
	}
	return ""
}

// unseenCoverage returns "" if all webhooks know what a protector covers: events that were delayed in the storm still take their time.
func (cv *convergence) unseenCoverage(core string, p *v1alpha1.PodProtector) string {
	watched := cv.judge.history.protectors[protectorKey{core, client.ObjectKeyFromObject(p)}]
	for _, webhook := range cv.webhooks() {
		if knows, needs := webhook.byCore[core], max(watched.coveredSince, watched.floorRaisedAt); knows < needs {
			return fmt.Sprintf("%s has seen protector %s of core %s up to version %d, want %d", webhook.webhook, p.Name, core, knows, needs)
		}
	}
	return ""
}

// uncountedProtector returns which protector is not counted in which cell; "" if there is none. The storm must not begin earlier.
func (cv *convergence) uncountedProtector() string {
	for _, core := range cv.cores {
		for _, p := range core.protectors() {
			for _, worker := range cv.workers {
				cell := quota.CellOf(p, worker.name)
				if cell == nil || cell.Aggregation.Void || cell.Aggregation.CountedSpec != quota.CountedSpec(&p.Spec) {
					return fmt.Sprintf("protector %s is not counted in %s", p.Name, worker.name)
				}
			}
		}
	}
	return ""
}
