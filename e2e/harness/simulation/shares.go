package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/aggregator"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// In the scenarios of DrawShares, cells decide on shares of the floor while the core is cut off, shares are deleted, floors change, some are
// percentages, Cells are deleted, silent cells are discounted, and protectors begin and end to have shares. Each cell has webhooks of its own.
// They also read the protectors of the cell's cluster, which are the shares, and more aggregators count for these. judge_shares.go judges such
// scenarios.

// servedCells returns for which cells there are separate webhooks; empty is all cells.
func (ps *processes) servedCells() []string {
	if !ps.env.scenario.Shares {
		return []string{""}
	}
	var names []string
	for _, worker := range ps.env.workers {
		names = append(names, worker.name)
	}
	return names
}

func webhookName(cell string, i int) string {
	if cell == "" {
		return fmt.Sprintf("webhook-%d", i)
	}
	return fmt.Sprintf("webhook-%s-%d", cell, i)
}

// coresOf returns the clusters whose protectors the webhooks of a cell read.
func (ps *processes) coresOf(cell string) []*clusterState {
	cores := slices.Clone(ps.env.cores)
	for _, worker := range ps.env.workers {
		if worker.name == cell {
			cores = append(cores, worker)
		}
	}
	return cores
}

// startShareAggregators starts the aggregators that count for shares. Their core is the cell's cluster.
func (ps *processes) startShareAggregators() {
	if !ps.env.scenario.Shares {
		return
	}
	for _, worker := range ps.env.workers {
		for i := range ps.env.scenario.AggregatorsPerCell {
			ps.aggregators = append(ps.aggregators, ps.startAggregator(aggregatorName("shares", worker.name, i), worker.name, worker.name))
		}
	}
}

// setUpShares lets an aggregator move the shares of its cell, or count for them if its core is the cell's cluster.
func (p *process) setUpShares(mgr manager.Manager, core string, options *aggregator.Options) error {
	switch {
	case !p.env.scenario.Shares:
		return nil
	case core == options.Cell:
		options.OfShares = true
		return nil
	}
	shares, err := cluster.New(p.cores[options.Cell].Config(), func(o *cluster.Options) {
		o.Scheme, o.MapperProvider, o.Logger = p.env.scheme, p.managerOptions(nil).MapperProvider, logr.Discard()
		o.Cache = p.managerOptions(nil).Cache
	})
	if err != nil {
		return err
	}
	options.Shares = orderedCluster{shares}
	return mgr.Add(shares)
}

// orderedCluster is a cluster whose informers deliver the events of one instant in the order of names.
type orderedCluster struct{ cluster.Cluster }

// GetCache implements cluster.Cluster.
func (c orderedCluster) GetCache() cache.Cache { return orderedCache{c.Cluster.GetCache()} }

// shareFaults cut cells off the core, delete shares, and change which protectors have shares.
type shareFaults struct {
	env       *environment
	processes *processes
}

func (f *shareFaults) addSteps(steps stepTable) {
	steps.add(f.cutCore, CutCore)
	steps.add(f.setCoreOutage, SetCoreOutage)
	steps.add(f.deleteShare, DeleteShare)
}

// cutCore holds the connections of all processes of a cell to the core, in one or in both directions. Messages in transit arrive when the cut
// ends.
func (f *shareFaults) cutCore(s Step) {
	cell, core := f.env.cell(s).name, f.env.core(s).name
	f.env.judge.recordCut(cell, s.For)
	for _, p := range f.processes.allProcesses() {
		if p.cell == cell && !p.pauseState.hasEnded() {
			link := p.cores[core]
			[]func(){link.Hold, link.Hold, link.HoldRequests, link.HoldAnswers}[s.N%4]()
			f.env.runAfter(s.For, link.Heal)
		}
	}
}

func (f *shareFaults) setCoreOutage(s Step) {
	core := f.env.core(s)
	p, ok := pick(core.protectors(), s.Who)
	if !ok {
		return
	}
	_, _ = core.store.Update("podprotectors", client.ObjectKeyFromObject(p), "", user, func(o client.Object) error {
		if p, ok := o.(*v1alpha1.PodProtector); ok {
			p.Spec.CoreOutage = []v1alpha1.CoreOutage{v1alpha1.CoreOutageDeny, v1alpha1.CoreOutageLocalShare}[s.N&1]
			p.Generation++
		}
		return nil
	})
}

// deleteShare deletes a share, or makes it vanish.
func (f *shareFaults) deleteShare(s Step) {
	c := f.env.cell(s)
	share, ok := pick(c.protectors(), s.Who)
	switch {
	case !ok:
	case s.N%2 == 0:
		c.store.Lose("podprotectors", client.ObjectKeyFromObject(share))
	default:
		_, _ = c.store.Delete("podprotectors", client.ObjectKeyFromObject(share), "", user)
	}
}

// DrawShares returns a scenario of a seed in which cells decide on their shares.
func DrawShares(seed uint64) Scenario {
	r := newRand(seed, 0x7368617265)
	s := Scenario{
		Seed: seed, Cores: 1, Workers: 2 + r.IntN(2), Webhooks: 1 + r.IntN(2), AggregatorsPerCell: 1 + r.IntN(2), Pods: 4 + r.IntN(12), Shares: true,
		Storm: drawStorm(r),
	}
	for i := range 1 + r.IntN(5)/4 {
		s.Protectors = append(s.Protectors, ProtectorPlan{
			Name: fmt.Sprintf("p%d", i), Label: []string{"app", "tier"}[i], Floor: r.IntN(s.Pods), Compact: r.IntN(5), RateMillis: r.IntN(3) * 500,
			CoreOutage: []v1alpha1.CoreOutage{v1alpha1.CoreOutageLocalShare, v1alpha1.CoreOutageDeny}[i*r.IntN(2)],
		})
	}
	for range 2 + r.IntN(4) {
		drawBurst(&s, r)
	}
	if r.IntN(3) > 0 {
		drawOutage(&s, r)
	}
	s.drawSteps(r, r.IntN(6), CreatePod, CreatePod, BecomeReady, BecomeReady, Rollout, SetFloor)
	if r.IntN(3) == 0 {
		s.drawSteps(r, 1+r.IntN(2), Die, BecomeUnready)
	}
	s.drawSteps(r, r.IntN(6), KillWebhook, PauseWebhook, KillAggregator, KillAggregator, PauseAggregator, PauseAggregator, CutLink, CutLink, DeleteLease,
		StallWatches, StallWatches, StallWatches, CompactHistory, RestartCluster, JumpClock)
	if r.IntN(3) == 0 {
		drawEntries(&s, r)
	}
	if r.IntN(4) == 0 {
		s.drawSteps(r, 1+r.IntN(2), DeleteShare)
	}
	if r.IntN(4) == 0 {
		drawShareRestores(&s, r)
	}
	if r.IntN(5) == 0 { // keepers recreate a protector that was lost; a webhook that starts meanwhile cannot know it
		s.Kept = true
		begin := randomTime(r)
		s.Steps = append(s.Steps, Step{At: begin + 2*time.Second, What: LoseOne, Who: r.IntN(2)})
		s.Steps = slices.DeleteFunc(s.Steps, func(step Step) bool { return step.What == KillWebhook })
		drawRemovalWave(&s, r, begin, 8*time.Second)
	}
	s.HadShares = r.IntN(2) == 0
	drawSharedFloors(&s, newRand(seed, sharedFloorStream))
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}

// sharedFloorStream is the random stream of drawSharedFloors. It was chosen so that it changes no seed that tests, mutants or docs name.
const sharedFloorStream = 0x666c6f6f7202

// drawSharedFloors makes floors percentages, deletes Cells, and lets the other cells not rely on one whose aggregators are silent.
func drawSharedFloors(s *Scenario, r *rand.Rand) {
	percentages, topology := r.IntN(4) == 0, r.IntN(5) == 0
	if percentages {
		for i := range s.Protectors {
			s.Protectors[i].Computed = drawComputedFloor(r, s.Pods)
			s.Protectors[i].Computed.Expected = s.Pods
		}
	}
	if !topology {
		return
	}
	s.Topology = TopologyPlan{Runs: true, Discounts: r.IntN(2) == 0}
	begin, cell, length := randomTime(r), r.IntN(s.Workers), time.Duration(30+r.IntN(20))*time.Second
	if !s.Topology.Discounts {
		s.Steps = append(s.Steps, Step{At: begin, What: DeleteCell, Cell: cell}, Step{At: begin + length - 20*time.Second, What: CreateCell, Cell: cell})
		drawRemovalWave(s, r, begin-2*time.Second, 30*time.Second)
		return
	}
	for i := range s.AggregatorsPerCell {
		s.Steps = append(s.Steps, Step{At: begin, What: PauseAggregator, Who: cell*s.AggregatorsPerCell + i, For: length})
	}
	drawRemovalWave(s, r, begin+length-8*time.Second, 16*time.Second)
}

// drawShareRestores restores the core or the cluster of a cell, with removals before and after. Webhooks are not restarted, since a new one cannot
// know of the restore before an aggregator does.
func drawShareRestores(s *Scenario, r *rand.Rand) {
	begin, cell := randomTime(r), r.IntN(s.Workers)
	if r.IntN(3) > 0 {
		s.Steps = append(s.Steps, Step{At: begin + 4*time.Second, What: RestoreCore, N: r.IntN(80)})
	}
	if r.IntN(3) > 0 {
		s.Steps = append(s.Steps, Step{At: begin + time.Duration(r.IntN(8000))*time.Millisecond, What: RestoreWorker, Cell: cell, Who: r.IntN(60)})
	}
	s.Steps = slices.DeleteFunc(s.Steps, func(step Step) bool { return step.What == KillWebhook })
	drawRemovalWave(s, r, begin, 10*time.Second)
}

// drawEntries lets cells leave and enter while removals are under way that the protector, or the share, has reserved.
func drawEntries(s *Scenario, r *rand.Rand) {
	begin, who := randomTime(r)/2, r.IntN(2)
	for i := range 1 + r.IntN(4) {
		s.Steps = append(s.Steps, Step{At: begin, What: SetCoreOutage, Who: who, N: i})
		drawRemovalWave(s, r, max(0, begin-2*time.Second), 4*time.Second)
		begin += time.Duration(2000+r.IntN(6000)) * time.Millisecond
	}
}

// drawSteps adds n steps of some kinds at random times.
func (s *Scenario) drawSteps(r *rand.Rand, n int, kinds ...StepKind) {
	for range n {
		s.Steps = append(s.Steps, Step{
			At: randomTime(r), What: kinds[r.IntN(len(kinds))], Cell: r.IntN(s.Workers + s.Cores), Who: r.IntN(16), N: r.IntN(s.Pods + 2),
			For: time.Duration(100+r.IntN(20000)) * time.Millisecond,
		})
	}
}

// drawOutage cuts one cell or all cells off the core, one shortly after the other, with removals meanwhile.
func drawOutage(s *Scenario, r *rand.Rand) {
	begin, length := randomTime(r), time.Duration(1+r.IntN(40))*time.Second
	first := r.IntN(s.Workers)
	for i := range []int{1, s.Workers}[r.IntN(2)] {
		s.Steps = append(s.Steps, Step{
			At: begin + time.Duration(r.IntN(500))*time.Millisecond, What: CutCore, Cell: (first + i) % s.Workers, N: r.IntN(4),
			For: length + time.Duration(r.IntN(2000))*time.Millisecond,
		})
	}
	if r.IntN(3) == 0 { // the connection flaps
		for at := begin; at < begin+length; at += time.Duration(200+r.IntN(3000)) * time.Millisecond {
			s.Steps = append(s.Steps, Step{At: at, What: CutCore, Cell: r.IntN(s.Workers), N: r.IntN(4), For: time.Duration(r.IntN(2000)) * time.Millisecond})
		}
	}
	drawRemovalWave(s, r, begin, length)
}
