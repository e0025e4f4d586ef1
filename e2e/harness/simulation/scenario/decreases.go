package scenario

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// BrakePlan is the input of the release brake: its limits, and Deployments that accidents and users scale down or delete.
type BrakePlan struct {
	// Count and Percent bound the large decreases of a Window. Each decrease waits for Quiet.
	Count, Percent int
	Quiet, Window  time.Duration
	// Sources are the Deployments with a protector, besides the one that the pods belong to.
	Sources []SourcePlan
	// Policies are the policies that protect some of them. See policies.go.
	Policies []PolicyPlan
	// PolicyFirst is how long the namespace controller leaves the Deployments of a deleted namespace after its policy.
	PolicyFirst time.Duration
}

// SourcePlan is a Deployment that asks for protection. It has no pods: the simulation only changes its floor.
type SourcePlan struct {
	Namespace, Name string
	// Owner is the Application that owns it, if any.
	Owner    string
	Replicas int
	// By is what asks for its protection.
	By Protection
}

// maxSources is the number of workers of a generator, minus the first source. With more sources the Go scheduler would decide which of
// them waits for a worker.
const maxSources = 7

// DeletableNamespace is the namespace that may be deleted.
const DeletableNamespace = "shop"

// BrakePlan returns the plan with limits. Scenarios without a brake plan get default limits.
func (s Scenario) BrakePlan() BrakePlan {
	plan := s.Brake
	if plan.Window == 0 {
		plan.Count, plan.Percent, plan.Quiet, plan.Window = 1, 5, 2*time.Second, 15*time.Second
	}
	return plan
}

// Limits returns the flags of the generators.
func (s Scenario) Limits() brake.Limits {
	plan := s.BrakePlan()
	return brake.Limits{Count: plan.Count, Percent: plan.Percent, Quiet: plan.Quiet, Window: plan.Window, OnCascade: v1alpha1.CascadeHold}
}

// ReleaseTime returns how long it takes until all decreases that no user confirms have had their windows, one after another.
func (s Scenario) ReleaseTime() time.Duration {
	plan := s.BrakePlan()
	return time.Duration(len(s.Sources())/plan.Count) * (plan.Window + time.Second)
}

// Sources returns all Deployments of the first core.
func (s Scenario) Sources() []SourcePlan {
	if !s.Generated {
		return nil
	}
	return append([]SourcePlan{{Namespace: Namespace, Name: SourceName, Replicas: s.Pods}}, s.Brake.Sources...)
}

// drawDecreases adds accidents that lower many floors at once. It has its own random stream, so that all other seeds stay the same. The
// stream was chosen such that it leaves out the seeds that other tests and docs/concepts/safety.md name.
func drawDecreases(s *Scenario, r *rand.Rand) {
	if r.IntN(5) > 0 {
		return
	}
	s.Generated = true
	s.Brake = BrakePlan{
		Count: 1 + r.IntN(2), Percent: []int{0, 5, 30}[r.IntN(3)],
		Quiet: time.Duration(2+r.IntN(2)) * time.Second, Window: time.Duration(12+r.IntN(9)) * time.Second,
	}
	for i := range 3 + r.IntN(maxSources-2) {
		plan := SourcePlan{Namespace: []string{Namespace, Namespace, DeletableNamespace}[r.IntN(3)], Name: fmt.Sprint("app-", i), Replicas: 1 + r.IntN(20)}
		if r.IntN(3) == 0 {
			plan.Owner = fmt.Sprint("owner-", r.IntN(2))
		}
		s.Brake.Sources = append(s.Brake.Sources, plan)
	}
	for range 1 + r.IntN(2) {
		drawAccident(s, r)
	}
	for range r.IntN(6) {
		drawUserChanges(s, r)
	}
	for range r.IntN(3) {
		drawLeaders(s, r)
	}
}

// readinessStream is the random stream of changes of minReadySeconds. It was chosen so that it changes no seed that tests, mutants or docs name.
const readinessStream = 0x7265616479a7

// drawReadiness makes the workloads of a brake plan wait for pods to be ready for longer, and lowers that again, by accident or one by one. Some are scaled
// meanwhile.
func drawReadiness(s *Scenario, r *rand.Rand) {
	if len(s.Brake.Sources) == 0 || r.IntN(2) > 0 {
		return
	}
	s.Steps = append(s.Steps, Step{At: time.Duration(r.IntN(3000)) * time.Millisecond, What: SetReadiness, N: 16, To: 30, Every: time.Millisecond})
	for range 1 + r.IntN(3) {
		lowered := Step{
			At: randomTime(r), What: SetReadiness, Who: r.IntN(16), N: 1 + r.IntN(8), To: []int{0, 10, 29}[r.IntN(3)],
			Every: time.Duration(1+r.IntN(2000)) * time.Millisecond,
		}
		s.Steps = append(s.Steps, lowered)
		if r.IntN(2) == 0 {
			s.Steps = append(s.Steps, Step{
				At: lowered.At + time.Duration(r.IntN(8000))*time.Millisecond, What: ScaleSources, Who: lowered.Who, N: lowered.N, To: []int{80, 150, 300}[r.IntN(3)],
				Every: lowered.Every,
			})
		}
	}
}

// drawAccident adds many floor decreases with one cause.
func drawAccident(s *Scenario, r *rand.Rand) {
	kinds := []StepKind{DeleteSources, DeleteSources, ScaleSources, ScaleSources, DeleteNamespace, DeleteOwner}
	accident := Step{
		At: randomTime(r), What: kinds[r.IntN(len(kinds))], Who: r.IntN(16), N: 2 + r.IntN(12), To: []int{0, 5, 20, 50, 70}[r.IntN(5)],
		Every: time.Duration(1+r.IntN(100)) * time.Millisecond,
	}
	if r.IntN(4) == 0 { // a slow one
		accident.Every = time.Duration(500+r.IntN(6000)) * time.Millisecond
	}
	s.Steps = append(s.Steps, accident)
	if r.IntN(3) == 0 { // that is undone
		s.Steps = append(s.Steps, Step{
			At: accident.At + time.Duration(1+r.IntN(20000))*time.Millisecond, What: []StepKind{CreateSources, ScaleSources}[r.IntN(2)], N: 16, To: 200,
			Every: 20 * time.Millisecond,
		})
	}
}

// drawUserChanges adds what users do to single Deployments, and how they confirm.
func drawUserChanges(s *Scenario, r *rand.Rand) {
	kinds := []StepKind{
		DeleteSources, ScaleSources, ScaleSources, CreateSources, OptOut, OptIn, ConfirmSource, ConfirmProtector, ConfirmNamespace, TakeBack,
		DeleteGenerated,
	}
	s.Steps = append(s.Steps, Step{
		At: randomTime(r), What: kinds[r.IntN(len(kinds))], Who: r.IntN(16), N: 1 + r.IntN(2), To: []int{0, 40, 60, 80, 150, 300}[r.IntN(6)],
		Every: time.Duration(1+r.IntN(4000)) * time.Millisecond, For: time.Duration(r.IntN(3)) * 7 * time.Second,
	})
}

// drawLeaders adds faults of the generators and of their stored state.
func drawLeaders(s *Scenario, r *rand.Rand) {
	kinds := []StepKind{SecondGenerator, SecondGenerator, PauseGenerator, KillGenerator, KillGenerator, LoseGrants, StallWatches, CutLink, RestoreCore,
		CompactHistory}
	step := Step{At: randomTime(r), What: kinds[r.IntN(len(kinds))], For: time.Duration(100+r.IntN(15000)) * time.Millisecond}
	switch step.What {
	case StallWatches, CutLink:
		step.Who = s.generatorIndex()
	case RestoreCore:
		step.N = r.IntN(60)
	case SecondGenerator: // the first one stalls, another leads, and then the first resumes
		if r.IntN(2) == 0 {
			s.Steps = append(s.Steps, Step{At: step.At, What: PauseGenerator, For: step.For / 2})
		}
	}
	s.Steps = append(s.Steps, step)
}

// generatorIndex returns the index of the first core's generator among all processes.
func (s *Scenario) generatorIndex() int { return s.Webhooks + s.Cores*s.Workers*s.AggregatorsPerCell }
