package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// burst is a short storm: clients delete all pods in random order, once each, until a number of removals was admitted.
type burst struct {
	protectors, pods, floor int
	// removals is that number, at most the budget of all protectors. If it is the whole budget, clients meet denials before they find the last pods that
	// may go. Two runs with another webhook show what that costs at least: "answered" admits everything, and "counted" counts each budget in memory.
	removals int
}

const burstClients = 64

// BenchmarkColdStorm measures the beginning of a storm: the first 250 removals with a protector that was not used before.
func BenchmarkColdStorm(b *testing.B) {
	for _, budget := range []int{250, 400} {
		b.Run(fmt.Sprintf("budget=%d", budget), burst{protectors: 1, pods: 600, floor: 600 - budget, removals: 250}.run)
	}
}

// BenchmarkWideStorm measures a storm over many protectors, each with a small budget.
func BenchmarkWideStorm(b *testing.B) {
	burst{protectors: 100, pods: 12, floor: 8, removals: 400}.run(b)
}

// run compares the time of the removals with that in which the same clients remove as many pods through a webhook that allows everything.
func (s burst) run(b *testing.B) {
	u, durations := usage{}, map[string][]time.Duration{}
	for b.Loop() {
		alternate([]string{"reviewed", "answered", "counted", "protected"}, func(run string) {
			n := s.newFixture(b, run)
			n.withPausedNodes(func() {
				u.measure(run, s.removals, func() time.Duration {
					each, total := s.play(n)
					durations[run] = append(durations[run], each...)
					return total
				})
			})
		})
	}
	u.report(b)
	for run := range u {
		reportPercentiles(b, run, durations[run])
	}
	b.ReportMetric(u.over("protected", "reviewed"), "protected-over-reviewed")
	b.ReportMetric(u.over("reviewed", "protected"), "times-reviewed")
	b.ReportMetric(u.over("counted", "answered"), "counted-over-answered")
	b.ReportMetric(u.over("answered", "counted"), "counted-times-answered")
}

// newFixture creates the protectors, if there are any, and the pods, and waits until all pods are counted.
func (s burst) newFixture(b *testing.B, run string) *benchFixture {
	b.Helper()
	labels := map[string]string{}
	isCounted := run == "counted" || run == "answered"
	if isCounted {
		labels[v1alpha1.LabelExempt] = "true"
	}
	n := newBenchNamespace(b, labels)
	for i := range s.protectors {
		name := fmt.Sprintf("web-%d", i)
		if run == "protected" {
			n.protect(name, int32(s.floor))
		}
		n.deploy(name, s.pods)
	}
	if isCounted {
		budget := s.pods
		if run == "counted" {
			budget -= s.floor
		}
		n.countInMemory(budget)
	}
	n.waitUntilCounted(s.pods)
	n.pods = n.runningPods(s.protectors * s.pods)
	return n
}

// play returns how long each admitted removal took, and the time until as many as wanted were admitted.
func (s burst) play(n *benchFixture) (each []time.Duration, total time.Duration) {
	n.Helper()
	rand.Shuffle(len(n.pods), func(i, j int) { n.pods[i], n.pods[j] = n.pods[j], n.pods[i] })
	began := time.Now()
	n.deleteEach(burstClients, func(took time.Duration, err error) (more bool) {
		if err == nil && len(each) < s.removals {
			each, total = append(each, took), time.Since(began)
		} else if err != nil && storm.OutcomeOf(err) == storm.Failed {
			n.Errorf("delete a pod: %v", err)
		}
		return len(each) < s.removals
	})
	if len(each) < s.removals {
		n.Errorf("%d removals were admitted, want %d", len(each), s.removals)
	}
	return each, total
}
