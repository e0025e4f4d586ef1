package living_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
)

// BenchmarkLiving compares how long callers take under a protector with how long they take in an exempt namespace, for which the API server does
// not call the webhook. It alternates between both runs, and starts each round with a different one. Pods start and terminate at once, so that
// callers and Breakwater take all the time. The rollout has two variants: pods that need a second to start, which is short, and pods that need
// none.
func BenchmarkLiving(b *testing.B) {
	for _, s := range callerScenarios() {
		b.Run(s.name, func(b *testing.B) {
			took, rounds := map[string]time.Duration{}, 0
			runs := []string{"unguarded", "protected"}
			for b.Loop() {
				for turn := range runs {
					run := runs[(rounds+turn)%len(runs)]
					took[run] += s.run(b, run == "protected")
				}
				rounds++
			}
			for _, run := range runs {
				b.ReportMetric(took[run].Seconds()/float64(rounds), run+"-s")
			}
			b.ReportMetric(took["protected"].Seconds()/took["unguarded"].Seconds(), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// callerScenario is one caller and its task.
type callerScenario struct {
	name        string
	pods, floor int
	// setup creates the pods, and returns a function that runs the caller and waits until it is done.
	setup func(l *fixture) (play func())
}

func (s callerScenario) run(b *testing.B, protected bool) time.Duration {
	b.Helper()
	namespaces := map[string]string{}
	if !protected {
		namespaces[v1alpha1.LabelExempt] = "true"
	}
	l := livingSuite.NewFixture(b, namespaces)
	play := s.setup(l)
	l.Eventually(func() string { return availabilityProblem(l, s.pods) })
	if protected {
		l.CreateProtector(s.floor, func(spec *v1alpha1.PodProtectorSpec) { spec.AdmissionHistory.AggregationRateMillis = nil })
		l.WaitForSummary(e2e.AllAvailable(s.pods))
	}
	began := time.Now()
	play()
	took := time.Since(began)
	deleteAllPods(l)
	return took
}

func availabilityProblem(l *fixture, want int) string {
	l.Helper()
	available := 0
	for _, cell := range l.Cells {
		for _, pod := range l.ExistingPods(cell) {
			if podhealth.FactsOf(&pod).At(0, time.Now()).Available {
				available++
			}
		}
	}
	if available != want {
		return fmt.Sprintf("%d pods are available, want %d", available, want)
	}
	return ""
}

// deleteAllPods deletes all pods and nodes of a run, so that the next run starts from the same state.
func deleteAllPods(l *fixture) {
	l.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "web"}}
	l.Must(client.IgnoreNotFound(l.Core.Delete(l.Context(), p)))
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	for _, cell := range l.Cells {
		apps := cell.Client.AppsV1()
		l.Must(errors.Join(
			apps.Deployments(l.Namespace).DeleteCollection(l.Context(), options, metav1.ListOptions{}),
			apps.StatefulSets(l.Namespace).DeleteCollection(l.Context(), options, metav1.ListOptions{}),
		))
	}
	l.Eventually(func() string {
		if n := l.CountExistingPods(); n > 0 {
			return fmt.Sprintf("%d pods remain", n)
		}
		return ""
	})
	l.Must(here(l).Client.CoreV1().Nodes().DeleteCollection(l.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: testNodeKey + "=" + l.Namespace}))
}

// callerScenarios returns the scenarios. A caller that moves pods has a budget of a tenth of the pods. A caller that only removes pods has
// budget for all its removals.
func callerScenarios() []callerScenario {
	return []callerScenario{
		{"rollout-200", 200, 180, rolloutSetup(map[string]string{federation.StartAnnotation: "1s"})},
		{"rollout-200-at-once", 200, 180, rolloutSetup(nil)},
		{"statefulset-10", 10, 9, func(l *fixture) func() {
			createStatefulSet(l, here(l), "here", 10)
			return func() {
				changeStatefulSetImage(l, "here")
				waitForStatefulSetRollout(l, "here", 10)
			}
		}},
		{"kubectl-drain-8-of-40", 40, 36, func(l *fixture) func() {
			node := createPodsOnNode(l, 8, 32)
			return func() {
				if c := startDrain(l, node); c.exitCode() != 0 {
					l.Fatalf("kubectl failed:\n%s", c)
				}
			}
		}},
		{"eviction-loop-8-of-40", 40, 36, func(l *fixture) func() {
			a := &nodeAutoscaler{fixture: l, cell: here(l), node: createPodsOnNode(l, 8, 32), pause: 10 * time.Second}
			return func() {
				if left := a.scaleDown(l.Context()); len(left) > 0 {
					l.Fatalf("%q remain: %v", left, a.denied)
				}
			}
		}},
		{"taint-8-of-40", 40, 36, func(l *fixture) func() {
			node := createPodsOnNode(l, 8, 32)
			return func() {
				taintNoExecute(l, node)
				waitForPodsOnNode(l, node, 0)
				l.Eventually(func() string { return availabilityProblem(l, 40) })
			}
		}},
		{"scale-down-40-to-20", 40, 20, func(l *fixture) func() {
			createDeployment(l, here(l), "here", 40)
			return func() {
				scaleDeployment(l, here(l), "here", 20)
				waitForPods(l, 20)
			}
		}},
		{"preemption-5-of-10", 10, 5, func(l *fixture) func() {
			addNode(l, "first", 10)
			createDeployment(l, here(l), "here", 10, onTestNodes(l), withSeats(1))
			return func() { waitForSchedule(l, createPriorityPod(l, "urgent", 1000, 5)) }
		}},
		{"namespace-40", 40, 0, func(l *fixture) func() {
			createDeployment(l, here(l), "here", 40)
			return func() {
				namespaces := here(l).Client.CoreV1().Namespaces()
				l.Must(namespaces.Delete(l.Context(), l.Namespace, metav1.DeleteOptions{}))
				waitForDeleted(l, func() error {
					_, err := namespaces.Get(l.Context(), l.Namespace, metav1.GetOptions{})
					return err
				})
			}
		}},
		{"cascade-40", 40, 0, func(l *fixture) func() {
			createDeployment(l, here(l), "here", 40)
			return func() {
				how := metav1.DeletePropagationBackground
				l.Must(here(l).Client.AppsV1().Deployments(l.Namespace).Delete(l.Context(), "here", metav1.DeleteOptions{PropagationPolicy: &how}))
				waitForPods(l, 0)
			}
		}},
	}
}

// rolloutSetup returns a setup with 200 pods, whose image and annotations the caller changes.
func rolloutSetup(annotations map[string]string) func(l *fixture) (play func()) {
	return func(l *fixture) func() {
		createDeployment(l, here(l), "here", 200)
		setStrategy(l, "here", 20, 20)
		return func() {
			changeImage(l, here(l), "here", annotations)
			waitForRollout(l, "here")
		}
	}
}
