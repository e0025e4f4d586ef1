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

// space returns the name of the nth namespace.
func space(n int) string {
	if n == 0 {
		return namespace
	}
	return fmt.Sprint("team-", n)
}

// world is the set of clusters and processes in which a scenario runs.
type world struct {
	scenario       Scenario
	dice           *dice.Dice
	scheme         *runtime.Scheme
	storm          Storm
	judge          *judge
	trace          *Trace
	cores, workers []*clusterState

	mu          sync.Mutex
	hooks       []*process
	aggregators []*process
	generators  []*process
	seconds     []*process
	topologies  []*process
	buried      []*process
	collector   *collector
	serial      int
	renewals    *renewals

	// busy counts the tasks of the world that have not ended.
	busy sync.WaitGroup
}

func newWorld(s Scenario, scheme *runtime.Scheme, trace *Trace) *world {
	trace.start()
	w := &world{scenario: s, dice: dice.New(s.Seed), scheme: scheme, storm: s.Storm, trace: trace, judge: newJudge(s, trace), renewals: newRenewals()}
	// Steps set clocks forward and back by whole seconds, and a Ready condition has a resolution of whole seconds too.
	w.judge.lenience = 4 * time.Second
	for i := range s.Cores {
		w.cores = append(w.cores, w.newCluster(fmt.Sprintf("core-%d", i), w.judge.coreChanged))
	}
	for i := range s.Workers {
		c := w.newCluster(fmt.Sprintf("worker-%d", i), w.judge.cellChanged)
		w.judge.cells[c.name] = newTruth()
		w.workers = append(w.workers, c)
	}
	return w
}

func (w *world) newCluster(name string, changed func(string, *apiserver.Event)) *clusterState {
	c := &clusterState{name: name, world: w, store: apiserver.NewStore()}
	c.store.Traffic = w.trace.add
	c.store.Committed = func(e *apiserver.Event) { changed(name, e) }
	return c
}

// later calls do after a while. calmDown and stopAll wait for it.
func (w *world) later(after time.Duration, do func()) {
	w.busy.Go(func() {
		time.Sleep(after)
		do()
	})
}

func (w *world) webhooks() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*process(nil), w.hooks...)
}

// populate creates the objects that exist at the beginning.
func (w *world) populate() {
	for _, core := range w.cores {
		for _, worker := range w.workers {
			core.create("cells", w.newCell(worker.name))
		}
	}
	if w.scenario.Shared {
		w.createRings()
	}
	for _, worker := range w.workers {
		w.createWorkloads(worker)
	}
	for i := range w.scenario.Pods {
		w.createPod(w.workers[i%len(w.workers)], true)
	}
	for _, plan := range w.scenario.Protectors {
		w.cores[plan.Core%len(w.cores)].create("podprotectors", plan.object())
	}
	if w.scenario.Generated {
		w.collector = w.startCollector()
	}
	w.populateSources()
}

func (p ProtectorPlan) object() *v1alpha1.PodProtector {
	o := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: space(p.Space), Name: p.Name}}
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
	p.Computed.set(&o.Spec)
	if p.Updates {
		seconds := int32(updateTimeout.Seconds())
		o.Spec.AdmissionHistory.UpdateTimeoutSeconds = &seconds
	}
	return o
}

func (w *world) deployment() *appsv1.Deployment {
	replicas, unavailable := int32(w.scenario.Pods), intstr.FromInt32(int32(w.scenario.Pods)/3)
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

func (w *world) createPod(c *clusterState, ready bool) types.NamespacedName {
	p := w.newPod(c)
	setReady(p, ready)
	c.create("pods", p)
	return client.ObjectKeyFromObject(p)
}

// newPod returns a running pod without conditions.
func (w *world) newPod(c *clusterState) *corev1.Pod {
	w.mu.Lock()
	w.serial++
	name, in := fmt.Sprintf("web-%d", w.serial), space(w.serial%max(w.scenario.Spaces, 1))
	w.mu.Unlock()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name, Labels: map[string]string{"app": "x", "tier": "x"}}}
	p.Spec.NodeName = "node-1"
	p.Status.Phase = corev1.PodRunning
	c.own(p)
	if w.scenario.Updates {
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

func (w *world) startAll() {
	for i := range w.scenario.Webhooks {
		w.hooks = append(w.hooks, w.startWebhook(fmt.Sprintf("webhook-%d", i)))
	}
	for _, core := range w.cores {
		for _, worker := range w.workers {
			for i := range w.scenario.AggregatorsPerCell {
				w.aggregators = append(w.aggregators, w.startAggregator(aggregatorName(core.name, worker.name, i), core.name, worker.name))
			}
		}
	}
	for i, core := range w.cores {
		if w.scenario.isKept() {
			w.generators = append(w.generators, w.startGenerator(fmt.Sprint("generator-", i), core.name))
		}
		if w.scenario.Topology.Runs {
			w.topologies = append(w.topologies, w.startTopology(fmt.Sprint("topology-", i), core.name))
		}
	}
}

func aggregatorName(core, cell string, i int) string {
	return fmt.Sprintf("aggregator-%s-%s-%d", core, cell, i)
}

func (w *world) everybody() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*process
	for _, some := range [][]*process{w.hooks, w.aggregators, w.generators, w.seconds, w.topologies} {
		all = append(all, some...)
	}
	return all
}

// pods returns the pods of a cell that are not terminating, by name.
func (c *clusterState) pods() []*corev1.Pod {
	objects, _ := c.store.List("pods", "")
	var living []*corev1.Pod
	for _, o := range objects {
		if p, ok := o.(*corev1.Pod); ok && p.DeletionTimestamp == nil {
			living = append(living, p)
		}
	}
	return living
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

// stopAll ends all processes and waits for them.
func (w *world) stopAll() {
	all := w.everybody()
	for _, p := range all {
		p.stop()
	}
	for _, p := range all {
		<-p.ended
		p.kill()
	}
	for _, p := range w.buried {
		<-p.ended
	}
	w.busy.Wait()
	if w.collector != nil {
		w.collector.stop()
		<-w.collector.ended
	}
	for _, c := range append(w.cores, w.workers...) {
		c.store.Wait()
	}
	// A webhook continues to release reservations for a few seconds.
	time.Sleep(10 * time.Second)
	synctest.Wait()
}

// awaitCounted waits until all protectors are counted in all cells. The storm must not begin earlier.
func (w *world) awaitCounted(patience time.Duration) error {
	return w.await(patience, func() string {
		for _, core := range w.cores {
			for _, p := range core.protectors() {
				for _, worker := range w.workers {
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

// await polls until look returns "".
func (w *world) await(patience time.Duration, look func() string) error {
	deadline := time.Now().Add(patience)
	word := look()
	for ; word != ""; word = look() {
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s: %s", patience, word)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}
