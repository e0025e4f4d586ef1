package play

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

func (ws *workloads) createPod(c *clusterState, ready bool) types.NamespacedName {
	p := ws.newPod(c)
	scenario.SetReady(p, ready)
	c.create("pods", p)
	return client.ObjectKeyFromObject(p)
}

// newPod returns a running pod without conditions.
func (ws *workloads) newPod(c *clusterState) *corev1.Pod {
	serial := ws.env.nextSerial()
	name, in := fmt.Sprintf("web-%d", serial), scenario.NamespaceName(serial%max(ws.env.scenario.Spaces, 1))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name, Labels: map[string]string{"app": "x", "tier": "x"}}}
	p.Spec.NodeName = "node-1"
	p.Status.Phase = corev1.PodRunning
	c.assignOwner(p)
	if ws.env.scenario.Updates {
		scenario.AddContainers(p)
	}
	return p
}

// rollOut replaces some pods, one after the other. It creates a new pod, makes it ready, and retries the deletion of an old pod up to five
// times.
func (ws *workloads) rollOut(n int, s scenario.Step) {
	c := ws.env.cell(s)
	ws.env.runAfter(0, func() {
		old := c.pods()
		for i, pod := range old[:min(len(old), 1+s.N%4)] {
			fresh := ws.createPod(c, false)
			time.Sleep(ws.env.dice.Between(100*time.Millisecond, 2*time.Second, fmt.Sprintf("rollout %d.%d", n, i)))
			c.setPodReady(fresh)
			for try := range 5 {
				r := ws.clients.newRemoval(fmt.Sprintf("%d.%d.%d", n, i, try), pod, scenario.Step{What: scenario.Delete, For: time.Second})
				result := ws.clients.executeRemoval(c, r)
				if result == "removed" || result == "404" {
					break
				}
				time.Sleep(time.Second)
			}
		}
	})
}

// changePod changes a pod without a review.
func (ws *workloads) changePod(s scenario.Step) {
	c := ws.env.cell(s)
	pod, ok := pick(c.pods(), s.Who)
	if !ok {
		return
	}
	_, _ = c.store.Update("pods", client.ObjectKeyFromObject(pod), "", "", func(o client.Object) error {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return nil
		}
		switch s.What {
		case scenario.BecomeReady, scenario.BecomeUnready:
			scenario.SetReady(pod, s.What == scenario.BecomeReady)
		case scenario.BecomeUnknown:
			scenario.SetReady(pod, false)
			pod.Status.Conditions[0].Status = corev1.ConditionUnknown
		case scenario.BecomePending:
			pod.Status.Phase = corev1.PodPending
		case scenario.BecomeRunning:
			pod.Status.Phase = corev1.PodRunning
		case scenario.BecomeScheduled:
			pod.Spec.NodeName = "node-1"
		case scenario.SetCriterion:
			scenario.ApplyCriterion(pod, s.N)
		case scenario.Die:
			pod.Status.Phase = corev1.PodFailed
			scenario.SetReady(pod, false)
		case scenario.Relabel:
			kept := scenario.OwnLabels(pod)
			pod.Labels = map[string]string{"app": []string{"x", "y"}[s.N%2], "tier": "x"}
			maps.Copy(pod.Labels, kept)
		}
		return nil
	})
}

// createUnbound creates a pod that no scheduler has placed yet.
func (ws *workloads) createUnbound(c *clusterState) {
	p := ws.newPod(c)
	p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending
	c.create("pods", p)
}
