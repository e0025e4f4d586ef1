package realworkloads_test

import (
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// removeAllPods deletes all pods at once, then evicts all pods at once, and then deletes them as a collection. It judges what was admitted.
func (p *play) removeAllPods(selector string, floor int) storm.Verdict {
	p.Helper()
	r, err := storm.StartRecorder(p.Context(), storm.Scope{Cells: []storm.Cell{p.cell()}, Namespace: p.Namespace, Selector: selector}, storm.RecorderOptions{})
	p.Must(err)
	defer r.Stop()
	p.waitForRemovals(r, p.tryAll(r, func(pod storm.Pod) error { return pod.Delete(p.Context()) }))
	// The removal of a replacement that is not available yet is not charged, and it may become available before it is removed: the readiness
	// race, which this test does not excuse.
	p.Must(r.Settle(p.Context(), time.Second, time.Minute))
	p.waitForRemovals(r, p.tryAll(r, func(pod storm.Pod) error { return pod.Evict(p.Context()) }))
	p.Must(r.Settle(p.Context(), time.Second, time.Minute))
	// The server stops at the first refusal, which is the result that a protected workload wants.
	_ = p.cell().Client.CoreV1().Pods(p.Namespace).DeleteCollection(p.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: selector})
	p.waitForSameView(r, selector)
	for _, err := range r.StreamErrors() {
		p.Errorf("%s: the recorder failed: %v", p.shape.name, err)
	}
	return storm.Judge(r.Stop(), floor)
}

// tryAll tries to remove each pod with a request of its own, all at once. It returns the pods whose removal was admitted. A request that
// fails for another reason than a denial fails the test.
func (p *play) tryAll(r *storm.Recorder, remove func(storm.Pod) error) map[types.UID]bool {
	p.Helper()
	var running sync.WaitGroup
	var mu sync.Mutex
	admitted := map[types.UID]bool{}
	for _, pod := range r.Pods() {
		running.Go(func() {
			err := remove(pod)
			mu.Lock()
			defer mu.Unlock()
			switch storm.OutcomeOf(err) {
			case storm.Admitted:
				admitted[pod.UID] = true
			case storm.Failed:
				p.Errorf("%s: remove pod %s: %v", p.shape.name, pod.Name, err)
			}
		})
	}
	running.Wait()
	return admitted
}

// waitForRemovals waits until the recorder has received all admitted removals.
func (p *play) waitForRemovals(r *storm.Recorder, admitted map[types.UID]bool) {
	p.Helper()
	p.Eventually(func() string {
		for _, pod := range r.Pods() {
			if admitted[pod.UID] {
				return fmt.Sprintf("the recorder has not received the removal of pod %s", pod.Name)
			}
		}
		return ""
	})
}

// waitForSameView waits until the recorder has received the state of the API server.
func (p *play) waitForSameView(r *storm.Recorder, selector string) {
	p.Helper()
	p.Eventually(func() string {
		existing := map[types.UID]bool{}
		for _, pod := range p.worker.pods(selector) {
			existing[pod.UID] = true
		}
		recorded := r.Pods()
		for _, pod := range recorded {
			if !existing[pod.UID] {
				return fmt.Sprintf("the recorder has not received the removal of pod %s", pod.Name)
			}
		}
		if len(recorded) != len(existing) {
			return fmt.Sprintf("the recorder has %d pods, want %d", len(recorded), len(existing))
		}
		return ""
	})
}
