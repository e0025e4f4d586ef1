package simulation

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (ws *workloads) createPod(c *clusterState, ready bool) types.NamespacedName {
	p := ws.newPod(c)
	setReady(p, ready)
	c.create("pods", p)
	return client.ObjectKeyFromObject(p)
}

// newPod returns a running pod without conditions.
func (ws *workloads) newPod(c *clusterState) *corev1.Pod {
	serial := ws.env.nextSerial()
	name, in := fmt.Sprintf("web-%d", serial), namespaceName(serial%max(ws.env.scenario.Spaces, 1))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name, Labels: map[string]string{"app": "x", "tier": "x"}}}
	p.Spec.NodeName = "node-1"
	p.Status.Phase = corev1.PodRunning
	c.assignOwner(p)
	if ws.env.scenario.Updates {
		addContainers(p)
	}
	return p
}

// rollOut replaces some pods, one after the other. It creates a new pod, makes it ready, and retries the deletion of an old pod up to five
// times.
func (ws *workloads) rollOut(n int, s Step) {
	c := ws.env.cell(s)
	ws.env.runAfter(0, func() {
		old := c.pods()
		for i, pod := range old[:min(len(old), 1+s.N%4)] {
			fresh := ws.createPod(c, false)
			time.Sleep(ws.env.dice.Between(100*time.Millisecond, 2*time.Second, fmt.Sprintf("rollout %d.%d", n, i)))
			_, _ = c.store.Update("pods", fresh, "", "", func(o client.Object) error {
				if pod, ok := o.(*corev1.Pod); ok {
					setReady(pod, true)
				}
				return nil
			})
			for try := range 5 {
				result := ws.clients.executeRemoval(c, ws.clients.newRemoval(fmt.Sprintf("%d.%d.%d", n, i, try), pod, Step{What: Delete, For: time.Second}))
				if result == "removed" || result == "404" {
					break
				}
				time.Sleep(time.Second)
			}
		}
	})
}

// changePod changes a pod without a review.
func (ws *workloads) changePod(s Step) {
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
		case BecomeReady, BecomeUnready:
			setReady(pod, s.What == BecomeReady)
		case BecomeUnknown:
			setReady(pod, false)
			pod.Status.Conditions[0].Status = corev1.ConditionUnknown
		case BecomePending:
			pod.Status.Phase = corev1.PodPending
		case BecomeRunning:
			pod.Status.Phase = corev1.PodRunning
		case BecomeScheduled:
			pod.Spec.NodeName = "node-1"
		case SetCriterion:
			setCriterion(pod, s.N)
		case Die:
			pod.Status.Phase = corev1.PodFailed
			setReady(pod, false)
		case Relabel:
			kept := ownLabels(pod)
			pod.Labels = map[string]string{"app": []string{"x", "y"}[s.N%2], "tier": "x"}
			maps.Copy(pod.Labels, kept)
		}
		return nil
	})
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
