package realworkloads_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// Rule 14: labels of a pod can change through its status as well.
func TestRealWorkloadsRelabelThroughStatus(t *testing.T) {
	t.Parallel()
	const pods, floor = 30, 20
	l := suite.NewFixture(t, nil)
	l.CreateProtector(floor)
	l.CreateBarePods(l.Application(pods))
	l.WaitForWebhooks(l.Cells[0], l.ExistingPods(l.Cells[0])[0])
	r, err := storm.StartRecorder(l.Context(), l.Application(pods).Scope(l.Cells), storm.RecorderOptions{})
	l.Must(err)
	defer r.Stop()
	var running sync.WaitGroup
	before := r.Pods()
	rand.Shuffle(len(before), func(i, j int) { before[i], before[j] = before[j], before[i] })
	removals := []func(*e2e.Fixture, storm.Pod) error{
		func(l *e2e.Fixture, pod storm.Pod) error { return pod.Delete(l.Context()) },
		relabelWith(types.MergePatchType, `{"metadata":{"labels":{"app":null}}}`),
		relabelWith(types.StrategicMergePatchType, `{"metadata":{"labels":{"app":"other"}}}`),
		relabelWith(types.JSONPatchType, `[{"op":"remove","path":"/metadata/labels/app"}]`),
		replaceStatus,
	}
	var mu sync.Mutex
	admitted, outcomes := map[types.UID]bool{}, map[storm.Outcome]int{}
	for i, pod := range before {
		running.Go(func() {
			outcome := storm.OutcomeOf(removals[i%len(removals)](l, pod))
			mu.Lock()
			defer mu.Unlock()
			outcomes[outcome]++
			if outcome == storm.Admitted {
				admitted[pod.UID] = true
			}
		})
	}
	running.Wait()
	l.Eventually(func() string {
		for _, pod := range r.Pods() {
			if admitted[pod.UID] {
				return fmt.Sprintf("the recorder has not received that pod %s left", pod.Name)
			}
		}
		return ""
	})
	verdict := storm.Judge(r.Stop(), floor)
	results.relabelOverAdmissions = &verdict.OverAdmissions
	t.Logf("requests: %v, pods that left: %d, pods that stayed: %d", outcomes, verdict.Removals, verdict.FinalAvailable)
	if verdict.OverAdmissions > 0 {
		t.Errorf("%d pods left below the floor of %d, which had %d of %d pods left", verdict.OverAdmissions, floor, verdict.MinAvailable, pods)
	}
	if verdict.Removals == 0 {
		t.Errorf("no pod could be removed, want %d", pods-floor)
	}
}

// relabelWith returns a function that patches the status of a pod.
func relabelWith(kind types.PatchType, content string) func(*e2e.Fixture, storm.Pod) error {
	return func(l *e2e.Fixture, pod storm.Pod) error {
		_, err := pod.Cell.Client.CoreV1().Pods(pod.Namespace).Patch(l.Context(), pod.Name, kind, []byte(content), metav1.PatchOptions{}, "status")
		return err
	}
}

// replaceStatus updates the status of a pod with an object that lacks the label.
func replaceStatus(l *e2e.Fixture, pod storm.Pod) error {
	client := pod.Cell.Client.CoreV1().Pods(pod.Namespace)
	object, err := client.Get(l.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	changed := &corev1.Pod{ObjectMeta: object.ObjectMeta, Spec: object.Spec, Status: object.Status}
	delete(changed.Labels, "app")
	_, err = client.UpdateStatus(l.Context(), changed, metav1.UpdateOptions{})
	return err
}
