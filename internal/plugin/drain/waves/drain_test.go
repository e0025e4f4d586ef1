package waves_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
	"github.com/breakwater-k8s/breakwater/internal/plugin/drain/waves"
)

const cell = "here"

// fixture is the oracle: the existing and available pods, and the floors, in the simplest form.
type fixture struct {
	now    time.Time
	pods   []*corev1.Pod
	floors map[string]int // for the pods with a label of that name
	// elsewhere is the number of available pods on other nodes, by label.
	elsewhere map[string]int
	replaced  map[string]bool
}

func (w *fixture) available(label string) int {
	n := w.elsewhere[label]
	for _, pod := range w.pods {
		if pod.Labels[label] != "" && isReady(pod) {
			n++
		}
	}
	return n
}

// unreplaced returns the number of available pods that do not return after their removal.
func (w *fixture) unreplaced(label string) (n int) {
	for _, pod := range w.pods {
		if pod.Labels[label] != "" && isReady(pod) && !w.replaced[pod.Name] {
			n++
		}
	}
	return n
}

func isReady(pod *corev1.Pod) bool { return pod.Status.Conditions[0].Status == corev1.ConditionTrue }

// cores returns the state of the world as Breakwater records it.
func (w *fixture) cores() []explain.Core {
	core := explain.Core{Name: "core"}
	for label, floor := range w.floors {
		p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: label}}
		p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{label: "yes"}}
		p.Spec.MinAvailable = v1alpha1.Pods(int32(floor))
		p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: cell, Aggregation: v1alpha1.Aggregation{
			CountedReplicas: int32(w.available(label)), CountedSpec: quota.CountedSpec(&p.Spec),
		}}}
		core.Protectors = append(core.Protectors, p)
	}
	slices.SortFunc(core.Protectors, func(a, b *v1alpha1.PodProtector) int { return strings.Compare(a.Name, b.Name) })
	return []explain.Core{core}
}

// nodes returns the nodes to drain.
func (w *fixture) nodes() (all []waves.Node) {
	cores, at := w.cores(), map[string]int{}
	for _, pod := range w.pods {
		i, known := at[pod.Spec.NodeName]
		if !known {
			i = len(all)
			at[pod.Spec.NodeName] = i
			all = append(all, waves.Node{Name: pod.Spec.NodeName})
		}
		p := waves.Pod{Request: explain.Request(pod, v1alpha1.OperationEvict), HasReplacement: w.replaced[pod.Name], ReplacementTime: time.Minute}
		p.Covering, p.Belongs, _ = explain.Covering(cores, cell, pod, explain.Node{})
		all[i].Pods = append(all[i].Pods, p)
	}
	return all
}

func pod(name, node string, ready bool, labels ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{}}}
	for _, label := range labels {
		p.Labels[label] = "yes"
	}
	p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	if ready {
		p.Status.Conditions[0].Status = corev1.ConditionTrue
	}
	return p
}

func drawFixture(t *rapid.T) *fixture {
	w := &fixture{now: time.Unix(1e9, 0), floors: map[string]int{}, elsewhere: map[string]int{}, replaced: map[string]bool{}}
	labels := []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "protectors")]
	for i := range rapid.IntRange(1, 14).Draw(t, "pods") {
		name := fmt.Sprint("pod-", i)
		var own []string
		for _, label := range labels {
			if rapid.Bool().Draw(t, "covered by "+label) {
				own = append(own, label)
			}
		}
		node := fmt.Sprint("node-", rapid.IntRange(0, 3).Draw(t, "node"))
		w.pods = append(w.pods, pod(name, node, rapid.IntRange(0, 5).Draw(t, "ready") > 0, own...))
		w.replaced[name] = rapid.IntRange(0, 7).Draw(t, "replaced") > 0
	}
	for _, label := range labels {
		w.elsewhere[label] = rapid.IntRange(0, 3).Draw(t, "elsewhere")
		w.floors[label] = max(0, w.available(label)+rapid.IntRange(-6, 1).Draw(t, "floor"))
	}
	return w
}

// No step of a plan leaves fewer available pods than a floor requires. The plan removes each pod once or reports it as blocked, and it
// blocks no pod that could be removed.
func TestPlanKeepsFloors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawFixture(t)
		parallel := rapid.Bool().Draw(t, "parallel")
		plan := waves.NewPlan(cell, w.now, w.nodes(), parallel, waves.Strategy{})
		there := map[string]*corev1.Pod{}
		for _, p := range w.pods {
			there["shop/"+p.Name] = p
		}
		back := map[string]int{} // replacements, by label
		starts := waves.Span(0)
		for i, wave := range plan.Waves {
			if wave.Starts != starts {
				t.Fatalf("wave %d starts after %d, want %d: %+v", i, wave.Starts, starts, plan)
			}
			starts += wave.Takes
			for _, name := range wave.Pods {
				if there[name] == nil {
					t.Fatalf("wave %d removes %s a second time", i, name)
				}
				delete(there, name)
			}
			for label, floor := range w.floors {
				available := w.elsewhere[label] + back[label]
				for _, p := range there {
					if p.Labels[label] != "" && isReady(p) {
						available++
					}
				}
				took := false
				for _, name := range wave.Pods {
					p := w.pod(name)
					took = took || p.Labels[label] != "" && isReady(p)
				}
				if took && available < floor {
					t.Fatalf("wave %d leaves %d of %s available, the floor is %d: %+v", i, available, label, floor, plan)
				}
			}
			for _, name := range wave.Pods {
				for label := range w.floors {
					if p := w.pod(name); p.Labels[label] != "" && isReady(p) && w.replaced[p.Name] {
						back[label]++
					}
				}
			}
		}
		if plan.Takes != starts {
			t.Fatalf("plan takes %d, want %d", plan.Takes, starts)
		}
		for _, b := range plan.Blocked {
			p := there[b.Pod]
			if p == nil {
				t.Fatalf("pod %s is blocked and removed, or blocked twice: %+v", b.Pod, plan)
			}
			delete(there, b.Pod)
			if !w.replaced[p.Name] {
				continue
			}
			must := false
			for label, floor := range w.floors {
				must = must || p.Labels[label] != "" && isReady(p) && w.available(label)-w.unreplaced(label)-1 < floor && floor > 0
			}
			if !must {
				t.Fatalf("pod %s is blocked, but its removal is admitted while all other pods are available: %+v", b.Pod, b)
			}
		}
		if len(there) > 0 {
			t.Fatalf("plan does not mention pods %v: %+v", there, plan)
		}
	})
}

func (w *fixture) pod(name string) *corev1.Pod {
	i := slices.IndexFunc(w.pods, func(p *corev1.Pod) bool { return "shop/"+p.Name == name })
	return w.pods[i]
}

// With one protector and all nodes in parallel, a plan has the minimum number of waves.
func TestPlanHasMinimumWaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, budget := rapid.IntRange(1, 20).Draw(t, "pods"), rapid.IntRange(1, 20).Draw(t, "budget")
		w := &fixture{now: time.Unix(1e9, 0), floors: map[string]int{"a": max(1, n-budget)}, elsewhere: map[string]int{}, replaced: map[string]bool{}}
		budget = n - w.floors["a"]
		for i := range n {
			p := pod(fmt.Sprint("pod-", i), fmt.Sprint("node-", i%3), true, "a")
			w.pods, w.replaced[p.Name] = append(w.pods, p), true
		}
		plan := waves.NewPlan(cell, w.now, w.nodes(), true, waves.Strategy{})
		if budget == 0 {
			if len(plan.Waves) > 0 || len(plan.Blocked) != n {
				t.Fatalf("plan without budget = %+v, want no wave", plan)
			}
			return
		}
		if want := (n + budget - 1) / budget; len(plan.Waves) != want || plan.Takes != waves.Span(time.Duration(want)*time.Minute) {
			t.Fatalf("got %d waves for %d pods with a budget of %d, want %d: %+v", len(plan.Waves), n, budget, want, plan)
		}
	})
}

func TestSimulateReplacesOnlyPodsWithController(t *testing.T) {
	w := &fixture{now: time.Unix(1e9, 0), floors: map[string]int{"a": 3}, elsewhere: map[string]int{}, replaced: map[string]bool{}}
	for i := range 5 {
		p := pod(fmt.Sprint("pod-", i), "node", true, "a")
		w.pods, w.replaced[p.Name] = append(w.pods, p), true
	}
	pods := w.nodes()[0].Pods
	waits := waves.Simulate(waves.NewSimulation(cell, w.now, pods), pods, waves.Strategy{})
	if len(waits.Waves) != 3 || len(waits.Stuck) > 0 || waits.Takes != waves.Span(3*time.Minute) {
		t.Errorf("Simulate() with replacements = %+v, want all pods removed", waits)
	}
	for i := range pods {
		pods[i].HasReplacement = false
	}
	never := waves.Simulate(waves.NewSimulation(cell, w.now, pods), pods, waves.Strategy{})
	if len(never.Waves) != 1 || len(never.Waves[0].Pods) != 2 || len(never.Stuck) != 3 {
		t.Fatalf("Simulate() of pods without a controller = %+v, want one wave up to the budget, and the rest stuck", never)
	}
	if s := never.Stuck[0]; s.Pod != "shop/pod-2" || s.Protector != "core/shop/a" || s.Verdict != "NoBudget" || !strings.Contains(s.Message, "floor 3, available 3, removals under way 0") {
		t.Errorf("Simulate() left %+v, want a denial with the current numbers", s)
	}
	if got := w.cores()[0].Protectors[0].Status.Cells[0].AdmissionHistory.Buckets; len(got) > 0 {
		t.Errorf("NewSimulation() or Play() changed the original protector: %+v", got)
	}
}

func TestSimulateSettlesRemovedPods(t *testing.T) {
	w := &fixture{now: time.Unix(1e9, 0), floors: map[string]int{"a": 1}, elsewhere: map[string]int{"a": 9}, replaced: map[string]bool{}}
	for i := range 4 {
		p := pod(fmt.Sprint("pod-", i), "node", true, "a")
		w.pods, w.replaced[p.Name] = append(w.pods, p), true
	}
	pods := w.nodes()[0].Pods
	for i := range pods {
		pods[i].Covering[0].Protector.Spec.AdmissionHistory.MaxConcurrentLag = 2
	}
	course := waves.Simulate(waves.NewSimulation(cell, w.now, pods), pods, waves.Strategy{})
	if len(course.Waves) != 2 || len(course.Stuck) > 0 {
		t.Errorf("Simulate() with maxConcurrentLag 2 = %+v, want waves of 2", course)
	}
}

func TestSimulateEndsAtTimeoutAndAtDenials(t *testing.T) {
	w := &fixture{now: time.Unix(1e9, 0), floors: map[string]int{"a": 4}, elsewhere: map[string]int{}, replaced: map[string]bool{}}
	for i := range 6 {
		p := pod(fmt.Sprint("pod-", i), fmt.Sprint("node-", i/5), true, "a")
		w.pods, w.replaced[p.Name] = append(w.pods, p), true
	}
	w.pods = append(w.pods, pod("free-0", "node-0", true), pod("free-1", "node-1", true))
	var pods []waves.Pod
	for _, node := range w.nodes() {
		pods = append(pods, node.Pods...)
	}
	ends := waves.Simulate(waves.NewSimulation(cell, w.now, pods), pods, waves.Strategy{Timeout: 90 * time.Second})
	if len(ends.Waves) != 2 || len(ends.Stuck) != 2 || ends.Stuck[0].Verdict != "Timeout" || !strings.Contains(ends.Stuck[0].Message, "--timeout 1m30s") {
		t.Errorf("Simulate() with a timeout of 90 s = %+v, want two waves of 60 s and two pods left", ends)
	}
	// The first two pods of node-0 are deleted. The third is denied, so that the other pods of its node are not requested.
	aborts := waves.Simulate(waves.NewSimulation(cell, w.now, pods), pods, waves.Strategy{AbortNode: true})
	var verdicts []string
	for _, s := range aborts.Stuck {
		verdicts = append(verdicts, s.Pod+" "+string(s.Verdict))
	}
	want := []string{"shop/pod-2 NoBudget", "shop/pod-3 NotRequested", "shop/pod-4 NotRequested", "shop/free-0 NotRequested", "shop/pod-5 NoBudget", "shop/free-1 NotRequested"}
	if len(aborts.Waves) != 1 || !slices.Equal(verdicts, want) {
		t.Errorf("Simulate() that aborts at denials leaves %q after %d waves, want %q after 1", verdicts, len(aborts.Waves), want)
	}
}
