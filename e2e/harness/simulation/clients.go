package simulation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clients send requests to remove, relabel and update pods, and count the answers.
type clients struct {
	env      *environment
	renewals *renewalClients
}

func (cs *clients) newRemoval(id string, pod *corev1.Pod, s Step) *removal {
	return &removal{
		id: id, pod: client.ObjectKeyFromObject(pod), evict: s.What == Evict, dryRun: s.What == DryRun, grace: s.For, hangs: s.Stuck, refusedByOther: s.RefusedLater,
		relabel: relabelOf(s), update: changeOf(s),
	}
}

func (cs *clients) removeOne(n int, s Step) {
	c := cs.env.cell(s)
	pod, ok := pick(c.pods(), s.Who)
	if !ok {
		return
	}
	cs.env.runAfter(0, func() { cs.executeRemoval(c, cs.newRemoval(fmt.Sprint(n), pod, s)) })
}

func (cs *clients) executeRemoval(c *clusterState, r *removal) string {
	result := c.executeRemoval(r)
	cs.env.judge.countAnswer(r, result)
	cs.env.trace.add("%s: removal %s of %s ends: %s", c.name, r.id, r.pod.Name, result)
	return result
}

// removeAll is a deletecollection: it removes one pod after the other, and the first refusal ends it.
func (cs *clients) removeAll(n int, s Step) {
	c := cs.env.cell(s)
	s.Stuck = 0
	cs.env.runAfter(0, func() {
		for i, pod := range c.pods() {
			if result := cs.executeRemoval(c, cs.newRemoval(fmt.Sprintf("%d.%d", n, i), pod, s)); result != "removed" && result != "404" {
				return
			}
		}
	})
}
