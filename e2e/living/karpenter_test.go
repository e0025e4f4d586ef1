package living_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e"
)

// A node that Karpenter terminates with a terminationGracePeriod: from the time at which a pod's own grace period would reach past the
// node's deadline, each pass of its drain deletes that pod, without an eviction, ends at the first error and comes back with a backoff.
func TestKarpenterDeletesAtItsDeadline(t *testing.T) {
	claim(t, "pods that a node's deadline deletes without eviction are refused at the floor, and go one by one when there is budget", func(l *lab) {
		node := fillNode(l, 3, 3)
		_, err := here(l).Client.CoreV1().Nodes().Patch(l.Context(), node, types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}, {"key": %q, "value": %q, "effect": "NoSchedule"}]}}`,
				roomKey, l.Namespace), metav1.PatchOptions{})
		l.Must(err)
		k := keep(l, 6, 6)
		for range 3 {
			l.WantRefusal(expire(l, node), "floor 6, available 6")
		}
		k.untouched()

		scale(l, elsewhere(l), "elsewhere", 4)
		backoff := 10 * time.Millisecond
		l.Eventually(func() string {
			err := expire(l, node)
			if err == nil && onNode(l, node) == 0 {
				return ""
			}
			<-time.After(backoff) // that of its work queue
			backoff = min(2*backoff, time.Second)
			return fmt.Sprintf("%d pods are on the node: %v", onNode(l, node), err)
		})
		l.AwaitSummary(e2e.AllAvailable(7))
	})
}

// expire is one pass of the drain: it deletes the pods of the node until one deletion fails.
func expire(l *lab, node string) error {
	l.Helper()
	for _, pod := range l.Pods(here(l)) {
		grace := int64(1)
		if pod.Spec.NodeName != node {
			continue
		}
		if err := here(l).Client.CoreV1().Pods(pod.Namespace).Delete(l.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
			return err
		}
	}
	return nil
}
