package living_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// nodeAutoscaler drains a node as cluster-autoscaler does, in its package core/scaledown/actuation. The autoscaler taints the node, and evicts all
// pods concurrently. It retries each eviction every 10 s for 2 minutes, whatever the error is, until the pod is deleted. Then it removes the
// taint, emits an event ScaleDownFailed, and waits 3 minutes before it tries the node again. This type makes the same number of attempts with
// shorter pauses.
type nodeAutoscaler struct {
	*fixture
	cell  storm.Cell
	node  string
	pause time.Duration

	mu     sync.Mutex
	denied []error
}

const attempts = 12

// scaleDown drains the node once, and returns the names of the pods that it could not evict.
func (a *nodeAutoscaler) scaleDown(ctx context.Context) (notEvicted []string) {
	a.Helper()
	a.setTaints(`[{"key":"ToBeDeletedByClusterAutoscaler","value":"1","effect":"NoSchedule"},{"key":"` + testNodeKey + `","effect":"NoSchedule"}]`)
	var evicting sync.WaitGroup
	for _, pod := range a.ExistingPods(a.cell) {
		if pod.Spec.NodeName != a.node {
			continue
		}
		evicting.Go(func() {
			if a.evict(ctx, pod) {
				return
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			notEvicted = append(notEvicted, pod.Name)
		})
	}
	evicting.Wait()
	if len(notEvicted) > 0 {
		a.setTaints(`[{"key":"` + testNodeKey + `","effect":"NoSchedule"}]`)
	}
	return notEvicted
}

func (a *nodeAutoscaler) evict(ctx context.Context, pod corev1.Pod) bool {
	pace := time.NewTicker(a.pause)
	defer pace.Stop()
	for range attempts {
		err := a.cell.Client.CoreV1().Pods(pod.Namespace).EvictV1(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds},
		})
		if err == nil || apierrors.IsNotFound(err) {
			return true
		}
		a.mu.Lock()
		a.denied = append(a.denied, err)
		a.mu.Unlock()
		select {
		case <-pace.C:
		case <-ctx.Done():
			return false
		}
	}
	return false
}

func (a *nodeAutoscaler) setTaints(taints string) {
	a.Helper()
	_, err := a.cell.Client.CoreV1().Nodes().Patch(a.Context(), a.node, types.MergePatchType,
		[]byte(`{"spec":{"taints":`+taints+`}}`), metav1.PatchOptions{})
	a.Must(err)
}

func TestEvictionLoop(t *testing.T) {
	claim(t, "an autoscaler stops after 12 denials of each pod, and its next loop empties the node pod by pod when budget for one exists", func(l *fixture) {
		node := createPodsOnNode(l, 2, 2)
		k := startFloorWatch(l, 4, 4)
		a := &nodeAutoscaler{fixture: l, cell: here(l), node: node, pause: 20 * time.Millisecond}
		if left := a.scaleDown(l.Context()); len(left) != 2 || len(a.denied) != 2*attempts {
			l.Errorf("the autoscaler stopped with %q left after %d denials, want both pods after %d", left, len(a.denied), 2*attempts)
		}
		for _, err := range a.denied {
			l.ExpectDenial(err, "floor 4, available 4, removals under way 0")
		}
		k.expectNoRemoval()

		scaleDeployment(l, elsewhere(l), "elsewhere", 3)
		l.WaitForSummary(e2e.AllAvailable(5))
		a.pause = 500 * time.Millisecond
		l.Eventually(func() string { // its next loops
			if left := a.scaleDown(l.Context()); len(left) > 0 {
				return fmt.Sprintf("%q remain: %v", left, a.denied[len(a.denied)-1])
			}
			return ""
		})
		waitForPodsOnNode(l, node, 0)
		l.WaitForSummary(e2e.AllAvailable(5))
	})
}
