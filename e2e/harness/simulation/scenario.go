package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// Scenario is one run, drawn from its seed: the components and objects, and the steps with their times.
type Scenario struct {
	Seed                         uint64
	Cores, Workers               int
	Webhooks, AggregatorsPerCell int
	Pods                         int
	Protectors                   []ProtectorPlan
	// Generated also makes the generator derive a protector from a Deployment.
	Generated bool
	// Kept runs keepers, which hold all protectors and recreate those that vanish.
	Kept bool
	// Shared makes the aggregators of a cell shards of a ring, which divide the cell. Spaces is the number of namespaces then.
	Shared bool
	Spaces int
	// Brake has the limits of the release brake, and the Deployments that exercise it.
	Brake BrakePlan
	Storm Storm
	Steps []Step
	// Workloads are the workloads of the worker clusters; see workloads.go.
	Workloads []WorkloadPlan
	// Topology runs the topology controller; see topology.go.
	Topology TopologyPlan
	// Updates gives pods containers that clients update; see updates.go.
	Updates bool
}

// ProtectorPlan describes a protector of the pods with a label.
type ProtectorPlan struct {
	Name, Label            string
	Core, Floor, Space     int
	Compact, Lag, MinReady int
	RateMillis             int
	// MindsLoss makes the protector tolerate the loss of a cell.
	MindsLoss bool
	// Computed is a floor that is not a number of pods.
	Computed ComputedFloor
	// NoRelabels leaves Relabel out of the operations that the protector guards.
	NoRelabels bool
	// Updates makes the protector guard updates and resizes.
	Updates bool
	// Criterion is the state in which a pod counts; empty is the default.
	Criterion v1alpha1.Criterion
	// Exempts makes the protector exempt pods with exemptLabels. CountsAll makes it count all pods of its namespace, including pods that
	// it does not cover.
	Exempts, CountsAll bool
}

// Storm is the intensity of the network and client faults.
type Storm struct {
	LoseAnswers, RefuseEvictions float64
	Weather                      apiserver.Weather
}

// Step is one thing that happens. What determines which of its fields are used.
type Step struct {
	At   time.Duration
	What StepKind
	// Cell and Core are indices. Who selects a pod, a process or a protector among those that exist at that time.
	Cell, Core, Who int
	// N is a number, such as a floor or a count.
	N int
	// For is a duration: the grace period of a removal, or the length of a pause or a cut.
	For time.Duration
	// To is the size that Deployments are scaled to, in percent. Every is the time from one Deployment to the next.
	To    int
	Every time.Duration
	// Stuck is how long a removal hangs after its review. RefusedLater makes another webhook refuse it.
	Stuck        time.Duration
	RefusedLater bool
}

// StepKind is the kind of a step.
type StepKind string

// All kinds of steps.
const (
	Delete           StepKind = "delete"
	Evict            StepKind = "evict"
	DryRun           StepKind = "delete --dry-run"
	DeleteCollection StepKind = "deletecollection"
	Force            StepKind = "remove a pod by force"
	Renew            StepKind = "ask again and again for an eviction that is refused later"
	CreatePod        StepKind = "create a pod"
	BecomeReady      StepKind = "a pod becomes ready"
	BecomeUnready    StepKind = "a pod becomes unready"
	BecomeUnknown    StepKind = "a pod's readiness becomes unknown"
	BecomePending    StepKind = "a pod becomes pending"
	BecomeRunning    StepKind = "a pod becomes running"
	BecomeScheduled  StepKind = "a pod gets a node"
	CreateUnbound    StepKind = "create a pod without a node"
	SetCriterion     StepKind = "a pod gets a criterion of its own"
	Die              StepKind = "a pod dies"
	Relabel          StepKind = "a pod changes its labels"
	AskRelabel       StepKind = "ask to change the labels of a pod"
	SetFloor         StepKind = "set the floor"
	SetSelector      StepKind = "set the selector"
	Widen            StepKind = "set what a protector covers"
	ScaleSource      StepKind = "scale the Deployment"
	Rollout          StepKind = "roll out pods of a cell"
	DeleteSource     StepKind = "delete the Deployment"
	CreateSource     StepKind = "create the Deployment again"

	KillWebhook      StepKind = "kill a webhook"
	PauseWebhook     StepKind = "pause a webhook"
	KillAggregator   StepKind = "kill an aggregator"
	PauseAggregator  StepKind = "pause an aggregator"
	FreezeAggregator StepKind = "stop an aggregator by SIGSTOP"
	StopAggregator   StepKind = "stop an aggregator, which may come back"
	KillGenerator    StepKind = "kill the generator"
	CutLink          StepKind = "cut a process off a cluster"
	StallWatches     StepKind = "stall the watches of a process"
	StallCell        StepKind = "stall what the aggregators of a cell watch"
	DeleteLease      StepKind = "delete the Lease of a cell"
	CompactHistory   StepKind = "compact the history"
	RestartCluster   StepKind = "restart an apiserver"
	RestoreWorker    StepKind = "restore a worker from a backup"
	RestoreCore      StepKind = "restore a core from a backup"
	LoseSource       StepKind = "lose the Deployment"
	LoseProtector    StepKind = "lose the generated protector"
	LoseOne          StepKind = "lose a protector"
	DeleteProtector  StepKind = "delete a protector"
	CreateProtector  StepKind = "create the protectors again"
	JumpClock        StepKind = "set a clock"

	StepWebhookClock    StepKind = "set the clock of a webhook by minutes"
	StepAggregatorClock StepKind = "set the clock of an aggregator by minutes"

	DeleteSources    StepKind = "delete Deployments"
	ScaleSources     StepKind = "scale Deployments"
	CreateSources    StepKind = "create Deployments again"
	DeleteNamespace  StepKind = "delete a namespace"
	DeleteOwner      StepKind = "delete the owner of Deployments"
	OptOut           StepKind = "take the label for protection off a Deployment"
	OptIn            StepKind = "put the label for protection on all Deployments"
	ConfirmSource    StepKind = "confirm on a Deployment"
	ConfirmProtector StepKind = "confirm on a protector"
	ConfirmNamespace StepKind = "confirm on a namespace"
	TakeBack         StepKind = "take all confirmations back"
	DeleteGenerated  StepKind = "delete a generated protector"
	LoseGrants       StepKind = "delete the ConfigMap of the grants"
	SecondGenerator  StepKind = "run a second generator"
	PauseGenerator   StepKind = "pause the generator"

	SyncWorkloads    StepKind = "let the controllers of a cell sync"
	ScaleWorkload    StepKind = "scale a workload of a cell"
	DeleteWorkload   StepKind = "delete a workload of a cell"
	CreateWorkload   StepKind = "create the workloads of a cell again"
	ConfirmWorkloads StepKind = "confirm on a protector that deleted workloads are released"
	RestartPods      StepKind = "remove all pods of a cell"

	UpdateImage StepKind = "update a pod's image"
	ResizePod   StepKind = "resize a pod in place"

	DeleteCell   StepKind = "delete a Cell"
	CreateCell   StepKind = "create a Cell again"
	KillTopology StepKind = "kill the topology controller"
)

func (s Step) String() string {
	text := fmt.Sprintf("%12s  %s (cell %d, core %d, who %d, n %d", s.At, s.What, s.Cell, s.Core, s.Who, s.N)
	if s.For > 0 {
		text += fmt.Sprintf(", for %s", s.For)
	}
	if s.Every > 0 {
		text += fmt.Sprintf(", to %d %%, every %s", s.To, s.Every)
	}
	if s.Stuck > 0 {
		text += fmt.Sprintf(", stuck for %s", s.Stuck)
	}
	if s.RefusedLater {
		text += ", refused by another webhook"
	}
	return text + ")"
}

func (s Scenario) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d cores, %d workers, %d webhooks, %d aggregators a cell, shared %v, %d pods in %d namespaces, generated %v, kept %v\n",
		s.Seed, s.Cores, s.Workers, s.Webhooks, s.AggregatorsPerCell, s.Shared, s.Pods, max(s.Spaces, 1), s.Generated, s.Kept)
	fmt.Fprintf(&b, "storm %+v\n", s.Storm)
	for _, p := range s.Protectors {
		fmt.Fprintf(&b, "protector %+v\n", p)
	}
	if s.Topology.Runs {
		fmt.Fprintf(&b, "topology %+v\n", s.Topology)
	}
	if s.Brake.Window > 0 {
		fmt.Fprintf(&b, "brake %+v\n", s.Brake)
	}
	for _, step := range s.Steps {
		fmt.Fprintln(&b, step)
	}
	return b.String()
}

// isKept reports whether keepers run. They run wherever a generator runs.
func (s Scenario) isKept() bool { return s.Kept || s.Generated }

// agesMatter reports whether any protector counts pods by how long they have been ready.
func (s Scenario) agesMatter() bool {
	return s.changesCoverage() || slices.ContainsFunc(s.Protectors, func(p ProtectorPlan) bool { return p.MinReady > 0 })
}

// stormTime is how long steps happen before all faults end.
const stormTime = 40 * time.Second

func newRand(seed, kind uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, kind)) }

// Draw returns the scenario of a seed.
func Draw(seed uint64) Scenario {
	r := newRand(seed, 0x6272656b)
	s := Scenario{
		Seed: seed, Cores: 1, Workers: 1 + r.IntN(3), Webhooks: 1 + r.IntN(3), AggregatorsPerCell: 1 + r.IntN(2), Pods: 3 + r.IntN(14),
		Generated: r.IntN(4) == 0,
	}
	if r.IntN(6) == 0 {
		s.Cores = 2
	}
	s.Storm = drawStorm(r)
	for i := range 1 + r.IntN(2) {
		s.Protectors = append(s.Protectors, ProtectorPlan{
			Name: fmt.Sprintf("p%d", i), Label: []string{"app", "tier"}[i], Core: r.IntN(s.Cores), Floor: r.IntN(s.Pods + 1),
			Compact: r.IntN(5), Lag: max(0, r.IntN(12)-6), MinReady: max(0, r.IntN(8)-5), RateMillis: r.IntN(3) * 500,
		})
	}
	for range 1 + r.IntN(4) {
		s.drawBurst(r)
	}
	for range r.IntN(8) {
		s.drawChange(r)
	}
	for range r.IntN(6) {
		s.drawFault(r)
	}
	if r.IntN(4) == 0 {
		s.drawStalledCell(r)
	}
	if r.IntN(6) == 0 {
		s.drawWrongClocks(r)
	}
	if r.IntN(6) == 0 {
		s.drawTwoLeaders(r)
	}
	if r.IntN(6) == 0 {
		s.drawCoreRestore(r)
	}
	if s.Generated {
		s.drawSource(r)
	}
	if r.IntN(4) == 0 {
		s.drawProtectorLosses(r)
	}
	s.drawSpread(newRand(seed, 0x6c6f7373d9))
	s.drawDecreases(newRand(seed, 0x6272616c16))
	s.drawCoverageChanges(newRand(seed, 0x776964656e))
	s.drawComputed(newRand(seed, 0x666c6f6f72))
	s.drawRelabels(newRand(seed, relabelStream))
	s.drawRenewals(newRand(seed, renewalStream))
	s.drawClocks(newRand(seed, clockStream))
	s.drawAbandonedRemovals(newRand(seed, 0x757361626c65))
	s.drawFreeze(newRand(seed, 0x667265657a65))
	s.drawCriteria(newRand(seed, criteriaStream))
	s.drawForcedRemovals(newRand(seed, forceStream))
	s.drawTopology(newRand(seed, topologyStream))
	s.drawUpdates(newRand(seed, updateStream))
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}

func drawStorm(r *rand.Rand) Storm {
	s := Storm{}
	if r.IntN(2) == 0 {
		s.LoseAnswers, s.RefuseEvictions = r.Float64()*0.2, r.Float64()*0.5
	}
	if r.IntN(2) == 0 {
		s.Weather = apiserver.Weather{
			Slow: time.Duration(1+r.IntN(400)) * time.Millisecond, Lag: time.Duration(1+r.IntN(3000)) * time.Millisecond,
			Lose: r.Float64() * 0.1, Break: r.Float64() * 0.05,
		}
	}
	return s
}

func randomTime(r *rand.Rand) time.Duration { return time.Duration(r.Int64N(int64(stormTime))) }

// randomHang returns how long a request hangs after its review: a random time in one of n draws, otherwise 0.
func randomHang(r *rand.Rand, n int) time.Duration {
	if r.IntN(n) > 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(requestLimit)))
}

// drawBurst adds many removals in a short time, some of the same pod.
func (s *Scenario) drawBurst(r *rand.Rand) {
	begin, width := randomTime(r), time.Duration(1+r.IntN(3000))*time.Millisecond
	for range 1 + r.IntN(12) {
		step := Step{
			At: begin + time.Duration(r.Int64N(int64(width))), What: []StepKind{Delete, Delete, Delete, Evict, Evict, DeleteCollection, DryRun}[r.IntN(7)],
			Cell: r.IntN(s.Workers), Who: r.IntN(16), RefusedLater: r.IntN(8) == 0,
		}
		if r.IntN(3) > 0 {
			step.For = time.Duration(1+r.IntN(5000)) * time.Millisecond
		}
		step.Stuck = randomHang(r, 5)
		s.Steps = append(s.Steps, step)
		if r.IntN(4) == 0 { // another client sends the same request
			step.At += time.Duration(r.IntN(2000)) * time.Millisecond
			s.Steps = append(s.Steps, step)
		}
	}
}

// drawChange adds one other change of a pod, a protector or the Deployment.
func (s *Scenario) drawChange(r *rand.Rand) {
	kinds := []StepKind{
		CreatePod, CreatePod, CreatePod, BecomeReady, BecomeReady, BecomeUnready, BecomeUnknown, Die, Relabel, SetFloor, SetFloor, SetSelector,
		ScaleSource, Rollout,
	}
	s.Steps = append(s.Steps, Step{
		At: randomTime(r), What: kinds[r.IntN(len(kinds))], Cell: r.IntN(s.Workers), Core: r.IntN(s.Cores), Who: r.IntN(16), N: r.IntN(s.Pods + 2),
	})
}

// drawStalledCell adds a cell whose aggregators see no events for a while, during which pods are created and removals are requested.
func (s *Scenario) drawStalledCell(r *rand.Rand) {
	begin, cell := randomTime(r), r.IntN(s.Workers)
	s.Steps = append(s.Steps, Step{At: begin, What: StallCell, Cell: cell, For: 20 * time.Second})
	for range 1 + r.IntN(3) {
		s.Steps = append(s.Steps, Step{At: begin + time.Second, What: CreatePod, Cell: cell, Who: 1})
	}
	for range 2 + r.IntN(6) {
		s.Steps = append(s.Steps, Step{
			At: begin + time.Duration(1000+r.IntN(4000))*time.Millisecond, What: Delete, Cell: cell, Who: r.IntN(16), For: time.Second,
			Stuck: time.Duration(r.Int64N(int64(requestLimit))),
		})
	}
}

// drawWrongClocks adds webhooks whose clocks are far behind, and removals that hang after their review by these webhooks.
func (s *Scenario) drawWrongClocks(r *rand.Rand) {
	begin := randomTime(r)
	for i := range s.Webhooks {
		s.Steps = append(s.Steps, Step{At: begin, What: JumpClock, Who: i, N: -2})
	}
	for range 2 + r.IntN(4) {
		s.Steps = append(s.Steps, Step{
			At: begin + time.Duration(r.IntN(4000))*time.Millisecond, What: Delete, Cell: r.IntN(s.Workers), Who: r.IntN(16), For: time.Second,
			Stuck: time.Duration(r.Int64N(int64(requestLimit))),
		})
	}
}

// drawTwoLeaders adds a cell whose leader sees no events and has not noticed yet that another replica leads.
func (s *Scenario) drawTwoLeaders(r *rand.Rand) {
	begin, cell := randomTime(r), r.IntN(s.Workers)
	s.AggregatorsPerCell = 2
	s.Steps = append(s.Steps, Step{At: begin, What: StallWatches, Cell: s.Cores + cell, Who: s.Webhooks + 2*cell + r.IntN(2), For: 15 * time.Second})
	for i := range 3 + r.IntN(5) {
		s.Steps = append(s.Steps, Step{
			At: begin + time.Duration(i*700+r.IntN(700))*time.Millisecond, What: []StepKind{Delete, CreatePod, DeleteLease}[r.IntN(3)], Cell: cell, Who: r.IntN(16),
		})
	}
}

func (s *Scenario) drawFault(r *rand.Rand) {
	kinds := []StepKind{
		KillWebhook, PauseWebhook, KillAggregator, KillAggregator, PauseAggregator, PauseAggregator, KillGenerator, CutLink, CutLink,
		DeleteLease, StallWatches, StallWatches, StallWatches, CompactHistory, RestartCluster, RestoreWorker, JumpClock, JumpClock,
	}
	s.Steps = append(s.Steps, Step{
		At: randomTime(r), What: kinds[r.IntN(len(kinds))], Cell: r.IntN(s.Workers + s.Cores), Core: r.IntN(s.Cores), Who: r.IntN(16), N: r.IntN(5) - 2,
		For: time.Duration(100+r.IntN(20000)) * time.Millisecond,
	})
}

// drawCoreRestore adds the restore of a core in the middle of removals.
func (s *Scenario) drawCoreRestore(r *rand.Rand) {
	begin, core := randomTime(r), r.IntN(s.Cores)
	s.Steps = append(s.Steps, Step{At: begin + 4*time.Second, What: RestoreCore, Core: core, N: r.IntN(60)})
	for range 2 + r.IntN(8) {
		s.Steps = append(s.Steps, Step{
			At: begin + time.Duration(r.IntN(8000))*time.Millisecond, What: []StepKind{Delete, Delete, Evict}[r.IntN(3)],
			Cell: r.IntN(s.Workers), Who: r.IntN(16), For: time.Second, Stuck: time.Duration(r.IntN(2)) * time.Duration(r.Int64N(int64(requestLimit))),
		})
	}
}

// drawSource adds changes and losses of the Deployment.
func (s *Scenario) drawSource(r *rand.Rand) {
	for range r.IntN(4) {
		kinds := []StepKind{DeleteSource, CreateSource, CreateSource, LoseSource, LoseSource, LoseProtector}
		s.Steps = append(s.Steps, Step{At: randomTime(r), What: kinds[r.IntN(len(kinds))]})
	}
}

// drawProtectorLosses adds protectors that vanish in the middle of removals, or are deleted on purpose, with watches stalled or not.
func (s *Scenario) drawProtectorLosses(r *rand.Rand) {
	s.Kept = true
	begin, core := randomTime(r), r.IntN(s.Cores)
	what := []StepKind{LoseOne, LoseOne, LoseOne, DeleteProtector}[r.IntN(4)]
	s.Steps = append(s.Steps, Step{At: begin + 4*time.Second, What: what, Core: core, Who: r.IntN(16)})
	if r.IntN(3) == 0 { // and no watch shows its end
		s.Steps = append(s.Steps, Step{At: begin + 2*time.Second, What: StallWatches, Cell: core, Who: r.IntN(16), For: 4 * time.Second},
			Step{At: begin + 5*time.Second, What: CompactHistory, Cell: core}, Step{At: begin + 5*time.Second, What: RestartCluster, Cell: core})
	}
	if r.IntN(3) == 0 {
		s.Steps = append(s.Steps, Step{At: begin + time.Duration(r.IntN(10000))*time.Millisecond, What: CreateProtector, Core: core})
	}
	if r.IntN(4) == 0 {
		s.Steps = append(s.Steps, Step{
			At: begin + time.Duration(r.IntN(8000))*time.Millisecond, What: KillGenerator, Who: core, For: time.Duration(r.IntN(5000)) * time.Millisecond,
		})
	}
	for range 2 + r.IntN(8) {
		s.Steps = append(s.Steps, Step{
			At: begin + time.Duration(r.IntN(10000))*time.Millisecond, What: []StepKind{Delete, Delete, Evict}[r.IntN(3)],
			Cell: r.IntN(s.Workers), Who: r.IntN(16), For: time.Second, Stuck: time.Duration(r.IntN(2)) * time.Duration(r.Int64N(int64(requestLimit))),
		})
	}
}
