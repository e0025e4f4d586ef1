package play

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// clients send requests to remove, relabel and update pods, and count the answers.
type clients struct {
	env      *environment
	renewals *renewalClients
}

func (cs *clients) newRemoval(id string, pod *corev1.Pod, s scenario.Step) *judge.Removal {
	return &judge.Removal{
		ID: id, Pod: client.ObjectKeyFromObject(pod), Evict: s.What == scenario.Evict, DryRun: s.What == scenario.DryRun, Grace: s.For, Hangs: s.Stuck,
		DeniedByOther: s.DeniedLater,
		Relabel:       scenario.RelabelOf(s), Update: scenario.ChangeOf(s),
	}
}

func (cs *clients) removeOne(n int, s scenario.Step) {
	c := cs.env.cell(s)
	pod, ok := pick(c.pods(), s.Who)
	if !ok {
		return
	}
	cs.env.runAfter(0, func() { cs.executeRemoval(c, cs.newRemoval(fmt.Sprint(n), pod, s)) })
}

func (cs *clients) executeRemoval(c *clusterState, r *judge.Removal) string {
	result := c.executeRemoval(r)
	cs.env.judge.CountAnswer(r, result)
	cs.env.trace.Add("%s: removal %s of %s ends: %s", c.name, r.ID, r.Pod.Name, result)
	return result
}

// removeAll is a deletecollection: it removes one pod after the other, and the first refusal ends it.
func (cs *clients) removeAll(n int, s scenario.Step) {
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

// forceRemoval annotates a pod and removes it.
func (cs *clients) forceRemoval(n int, s scenario.Step) {
	c := cs.env.cell(s)
	pod, ok := pick(c.pods(), s.Who)
	if !ok {
		return
	}
	_, _ = c.store.Update("pods", client.ObjectKeyFromObject(pod), "", "", func(o client.Object) error {
		annotations := scenario.CopyOf(o.GetAnnotations())
		annotations[v1alpha1.AnnotationForceDelete] = "true"
		o.SetAnnotations(annotations)
		return nil
	})
	r := cs.newRemoval(fmt.Sprint(n), pod, s)
	r.Evict = s.N%2 == 1
	cs.env.runAfter(0, func() { cs.executeRemoval(c, r) })
}
