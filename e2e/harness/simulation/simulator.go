package simulation

import (
	"fmt"
	"sync"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/dice"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// namespace holds all pods and protectors of a scenario with a single namespace.
const namespace = "default"

// namespaceName returns the name of the nth namespace.
func namespaceName(n int) string {
	if n == 0 {
		return namespace
	}
	return fmt.Sprint("team-", n)
}

// simulator is the set of clusters and processes in which a scenario runs.
type simulator struct {
	scenario       Scenario
	dice           *dice.Dice
	scheme         *runtime.Scheme
	storm          Storm
	judge          *judge
	trace          *Trace
	cores, workers []*clusterState

	mu               sync.Mutex
	webhookProcesses []*process
	aggregators      []*process
	generators       []*process
	secondGenerators []*process
	topologies       []*process
	killed           []*process
	collector        *collector
	serial           int
	renewals         *renewalClients

	// tasks counts the tasks of the world that have not ended.
	tasks sync.WaitGroup
}

func newSimulator(s Scenario, scheme *runtime.Scheme, trace *Trace) *simulator {
	trace.start()
	sim := &simulator{scenario: s, dice: dice.New(s.Seed), scheme: scheme, storm: s.Storm, trace: trace, judge: newJudge(s, trace), renewals: newRenewals()}
	// Steps set clocks forward and back by whole seconds, and a Ready condition has a resolution of whole seconds too.
	sim.judge.history.clockTolerance = 4 * time.Second
	for i := range s.Cores {
		sim.cores = append(sim.cores, sim.newCluster(fmt.Sprintf("core-%d", i), sim.judge.recordCoreEvent))
	}
	for i := range s.Workers {
		c := sim.newCluster(fmt.Sprintf("worker-%d", i), sim.judge.recordCellEvent)
		sim.judge.history.cells[c.name] = newTruth()
		sim.workers = append(sim.workers, c)
	}
	return sim
}

func (sim *simulator) newCluster(name string, changed func(string, *apiserver.Event)) *clusterState {
	c := &clusterState{name: name, simulator: sim, store: apiserver.NewStore()}
	c.store.Traffic = sim.trace.add
	c.store.Committed = func(e *apiserver.Event) { changed(name, e) }
	return c
}

// runAfter calls do after a while. calmDown and stopProcesses wait for it.
func (sim *simulator) runAfter(after time.Duration, do func()) {
	sim.tasks.Go(func() {
		time.Sleep(after)
		do()
	})
}

func (sim *simulator) webhooks() []*process {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	return append([]*process(nil), sim.webhookProcesses...)
}

// populate creates the objects that exist at the beginning.
func (sim *simulator) populate() {
	for _, core := range sim.cores {
		for _, worker := range sim.workers {
			core.create("cells", sim.newCell(worker.name))
		}
	}
	if sim.scenario.Shared {
		sim.createRings()
	}
	for _, worker := range sim.workers {
		sim.createWorkloads(worker)
	}
	for i := range sim.scenario.Pods {
		sim.createPod(sim.workers[i%len(sim.workers)], true)
	}
	for _, plan := range sim.scenario.Protectors {
		sim.cores[plan.Core%len(sim.cores)].create("podprotectors", plan.object())
	}
	if sim.scenario.Generated {
		sim.collector = sim.startCollector()
	}
	sim.populateSources()
}

func (p ProtectorPlan) object() *v1alpha1.PodProtector {
	o := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceName(p.Space), Name: p.Name}}
	compact, rate := int32(p.Compact), int32(p.RateMillis)
	o.Spec = v1alpha1.PodProtectorSpec{
		Selector:     &v1alpha1.PodSelector{MatchLabels: map[string]string{p.Label: "x"}},
		MinAvailable: v1alpha1.Pods(int32(p.Floor)), MinReadySeconds: int32(p.MinReady),
		Spread: p.spread(),
		AdmissionHistory: v1alpha1.AdmissionHistorySpec{
			MaxConcurrentLag: int32(p.Lag), CompactThreshold: &compact, AggregationRateMillis: &rate,
		},
		Operations: p.operations(),
	}
	p.setCriterion(&o.Spec)
	p.Computed.applyTo(&o.Spec)
	if p.Updates {
		seconds := int32(updateTimeout.Seconds())
		o.Spec.AdmissionHistory.UpdateTimeoutSeconds = &seconds
	}
	return o
}

func (sim *simulator) deployment() *appsv1.Deployment {
	replicas, unavailable := int32(sim.scenario.Pods), intstr.FromInt32(int32(sim.scenario.Pods)/3)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: sourceName, Labels: map[string]string{v1alpha1.LabelProtect: "true"}}}
	d.Spec.Replicas = &replicas
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	d.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &unavailable}
	return d
}

func (c *clusterState) create(resource string, object client.Object) {
	if _, err := c.store.Create(resource, object, ""); err != nil {
		panic(fmt.Sprintf("simulation: create %s: %v", object.GetName(), err))
	}
}

func (sim *simulator) createPod(c *clusterState, ready bool) types.NamespacedName {
	p := sim.newPod(c)
	setReady(p, ready)
	c.create("pods", p)
	return client.ObjectKeyFromObject(p)
}

// newPod returns a running pod without conditions.
func (sim *simulator) newPod(c *clusterState) *corev1.Pod {
	sim.mu.Lock()
	sim.serial++
	name, in := fmt.Sprintf("web-%d", sim.serial), namespaceName(sim.serial%max(sim.scenario.Spaces, 1))
	sim.mu.Unlock()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name, Labels: map[string]string{"app": "x", "tier": "x"}}}
	p.Spec.NodeName = "node-1"
	p.Status.Phase = corev1.PodRunning
	c.assignOwner(p)
	if sim.scenario.Updates {
		addContainers(p)
	}
	return p
}

func setReady(p *corev1.Pod, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
	}}
}

func (sim *simulator) startProcesses() {
	for i := range sim.scenario.Webhooks {
		sim.webhookProcesses = append(sim.webhookProcesses, sim.startWebhook(fmt.Sprintf("webhook-%d", i)))
	}
	for _, core := range sim.cores {
		for _, worker := range sim.workers {
			for i := range sim.scenario.AggregatorsPerCell {
				sim.aggregators = append(sim.aggregators, sim.startAggregator(aggregatorName(core.name, worker.name, i), core.name, worker.name))
			}
		}
	}
	for i, core := range sim.cores {
		if sim.scenario.isKept() {
			sim.generators = append(sim.generators, sim.startGenerator(fmt.Sprint("generator-", i), core.name))
		}
		if sim.scenario.Topology.Runs {
			sim.topologies = append(sim.topologies, sim.startTopology(fmt.Sprint("topology-", i), core.name))
		}
	}
}

func aggregatorName(core, cell string, i int) string {
	return fmt.Sprintf("aggregator-%s-%s-%d", core, cell, i)
}

func (sim *simulator) allProcesses() []*process {
	sim.mu.Lock()
	defer sim.mu.Unlock()
	var all []*process
	for _, processes := range [][]*process{sim.webhookProcesses, sim.aggregators, sim.generators, sim.secondGenerators, sim.topologies} {
		all = append(all, processes...)
	}
	return all
}

// pods returns the pods of a cell that are not terminating, by name.
func (c *clusterState) pods() []*corev1.Pod {
	objects, _ := c.store.List("pods", "")
	var existing []*corev1.Pod
	for _, o := range objects {
		if p, ok := o.(*corev1.Pod); ok && p.DeletionTimestamp == nil {
			existing = append(existing, p)
		}
	}
	return existing
}

func (c *clusterState) protectors() []*v1alpha1.PodProtector {
	objects, _ := c.store.List("podprotectors", "")
	var all []*v1alpha1.PodProtector
	for _, o := range objects {
		if p, ok := o.(*v1alpha1.PodProtector); ok {
			all = append(all, p)
		}
	}
	return all
}

// stopProcesses ends all processes and waits for them.
func (sim *simulator) stopProcesses() {
	all := sim.allProcesses()
	for _, p := range all {
		p.stop()
	}
	for _, p := range all {
		<-p.ended
		p.kill()
	}
	for _, p := range sim.killed {
		<-p.ended
	}
	sim.tasks.Wait()
	if sim.collector != nil {
		sim.collector.stop()
		<-sim.collector.ended
	}
	for _, c := range append(sim.cores, sim.workers...) {
		c.store.Wait()
	}
	// A webhook continues to release reservations for a few seconds.
	time.Sleep(10 * time.Second)
	synctest.Wait()
}

// waitUntilCounted waits until all protectors are counted in all cells. The storm must not begin earlier.
func (sim *simulator) waitUntilCounted(timeout time.Duration) error {
	return sim.waitUntil(timeout, func() string {
		for _, core := range sim.cores {
			for _, p := range core.protectors() {
				for _, worker := range sim.workers {
					cell := quota.CellOf(p, worker.name)
					if cell == nil || cell.Aggregation.Void || cell.Aggregation.CountedSpec != quota.CountedSpec(&p.Spec) {
						return fmt.Sprintf("protector %s is not counted in %s", p.Name, worker.name)
					}
				}
			}
		}
		return ""
	})
}

// waitUntil polls until look returns "".
func (sim *simulator) waitUntil(timeout time.Duration, condition func() string) error {
	deadline := time.Now().Add(timeout)
	problem := condition()
	for ; problem != ""; problem = condition() {
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s: %s", timeout, problem)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}
