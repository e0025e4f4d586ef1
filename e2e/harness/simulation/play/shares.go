package play

import (
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/aggregator"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// In the scenarios of DrawShares, cells decide on shares of the floor while the core is cut off, shares are deleted, floors change, some are
// percentages, Cells are deleted, silent cells are discounted, and protectors begin and end to have shares. scenario/sharekinds.go adds break-glass
// removals, a second core, and protectors that get no shares. Each cell has webhooks of its own. They also read the protectors of the cell's
// cluster, which are the shares, and more aggregators count for these. judge/shares.go judges such scenarios.

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

// createCoreUIDs creates the namespace kube-system of each core. Its UID, which tells the shares of several cores apart, is the name of the core.
func (ps *processes) createCoreUIDs() {
	for _, core := range ps.env.cores {
		core.create(apiserver.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: types.UID(core.name)}})
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
		o.Scheme, o.MapperProvider, o.Logger = p.env.scheme, p.managerOptions(clusters.CacheOptions()).MapperProvider, logr.Discard()
		o.Cache = p.managerOptions(clusters.CacheOptions()).Cache
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
	steps.add(f.cutCore, scenario.CutCore)
	steps.add(f.setCoreOutage, scenario.SetCoreOutage)
	steps.add(f.deleteShare, scenario.DeleteShare)
}

// cutCore holds the connections of all processes of a cell to the core, in one or in both directions. Messages in transit arrive when the cut
// ends.
func (f *shareFaults) cutCore(s scenario.Step) {
	cell, core := f.env.cell(s).name, f.env.core(s).name
	f.env.judge.RecordCut(cell, s.For)
	for _, p := range f.processes.allProcesses() {
		if p.cell == cell && !p.pauseState.hasEnded() {
			link := p.cores[core]
			[]func(){link.Hold, link.Hold, link.HoldRequests, link.HoldAnswers}[s.N%4]()
			f.env.runAfter(s.For, link.Heal)
		}
	}
}

func (f *shareFaults) setCoreOutage(s scenario.Step) {
	core := f.env.core(s)
	p, ok := pick(core.protectors(), s.Who)
	if !ok {
		return
	}
	_, _ = core.store.Update("podprotectors", client.ObjectKeyFromObject(p), "", scenario.User, func(o client.Object) error {
		if p, ok := o.(*v1alpha1.PodProtector); ok {
			p.Spec.CoreOutage = []v1alpha1.CoreOutage{v1alpha1.CoreOutageDeny, v1alpha1.CoreOutageLocalShare}[s.N&1]
			p.Generation++
		}
		return nil
	})
}

// deleteShare deletes a share, or makes it vanish.
func (f *shareFaults) deleteShare(s scenario.Step) {
	c := f.env.cell(s)
	share, ok := pick(c.protectors(), s.Who)
	switch {
	case !ok:
	case s.N%2 == 0:
		c.store.Lose("podprotectors", client.ObjectKeyFromObject(share))
	default:
		_, _ = c.store.Delete("podprotectors", client.ObjectKeyFromObject(share), "", scenario.User)
	}
}
