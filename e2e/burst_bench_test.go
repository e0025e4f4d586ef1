package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// burst is a short storm: clients delete all pods in random order, once each, until the whole budget of all protectors is used.
type burst struct {
	protectors, pods, floor int
	clients                 int
}

func (s burst) budget() int { return s.protectors * (s.pods - s.floor) }

// BenchmarkColdStorm measures the beginning of a storm: the first 250 removals with a protector that was not used before.
func BenchmarkColdStorm(b *testing.B) {
	burst{protectors: 1, pods: 600, floor: 350, clients: 64}.run(b)
}

// BenchmarkWideStorm measures a storm over many protectors, each with a small budget.
func BenchmarkWideStorm(b *testing.B) {
	burst{protectors: 100, pods: 12, floor: 8, clients: 64}.run(b)
}

// run compares the time until the budget is used with the time in which the same clients remove as many pods through a webhook that
// allows everything.
func (s burst) run(b *testing.B) {
	u, durations := usage{}, map[string][]time.Duration{}
	for b.Loop() {
		alternate([]string{"reviewed", "protected"}, func(run string) {
			n := s.newFixture(b, run == "protected")
			n.withPausedNodes(func() {
				u.measure(run, s.budget(), func() time.Duration {
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
}

// newFixture creates the protectors, if there are any, and the pods, and waits until all pods are counted.
func (s burst) newFixture(b *testing.B, protected bool) *benchFixture {
	b.Helper()
	n := newBenchNamespace(b, nil)
	for i := range s.protectors {
		name := fmt.Sprintf("web-%d", i)
		if protected {
			n.protect(name, int32(s.floor))
		}
		n.deploy(name, s.pods)
	}
	n.waitUntilCounted(s.pods)
	n.pods = n.runningPods(s.protectors * s.pods)
	return n
}

// play returns how long each admitted removal took, and the time until the budget was used.
func (s burst) play(n *benchFixture) (each []time.Duration, total time.Duration) {
	n.Helper()
	rand.Shuffle(len(n.pods), func(i, j int) { n.pods[i], n.pods[j] = n.pods[j], n.pods[i] })
	began := time.Now()
	n.deleteEach(s.clients, func(took time.Duration, err error) (more bool) {
		if err == nil && len(each) < s.budget() {
			each, total = append(each, took), time.Since(began)
		} else if err != nil && storm.OutcomeOf(err) == storm.Failed {
			n.Errorf("delete a pod: %v", err)
		}
		return len(each) < s.budget()
	})
	if len(each) < s.budget() {
		n.Errorf("%d removals were admitted, want %d", len(each), s.budget())
	}
	return each, total
}
