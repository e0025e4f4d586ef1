package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const (
	// rolloutPods is the number of pods of all Deployments, of which rolloutFloor must stay. rolloutUnavailable is the maxUnavailable of each
	// Deployment. It exceeds the budget of a cell's share, so that the budget limits the rollout.
	rolloutPods, rolloutFloor, rolloutUnavailable = 200, 180, 12
	// drainPause is the least time until a denied eviction is retried.
	drainPause = time.Second
)

// rollOutWithoutCore kills the core in the middle of a rollout in all cells, which has to complete without it. Then a node is drained. Other
// rollouts and drains follow until the core returns.
func (p *play) rollOutWithoutCore(ctx context.Context) error {
	outage := p.outage(longOutage)
	ctx, cancel := context.WithTimeout(ctx, outage+5*waitTimeout)
	defer cancel()
	strategy := fmt.Appendf(nil, `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":%d}}}}`, rolloutUnavailable*p.plan.Scale)
	if err := p.patchDeployments(ctx, strategy); err != nil {
		return err
	}
	if err := p.rollOut(ctx, 0); err != nil {
		return err
	}
	if err := poll(ctx, p.checkPartlyUpdated); err != nil {
		return err
	}
	p.faultBegan = time.Since(p.start)
	_, end, err := killCore(p)
	if err != nil {
		return err
	}
	if p.checkRollout(ctx) == nil {
		return errors.New("the rollout was complete before the core was killed")
	}
	over := time.Now().Add(outage)
	for turn := 1; ; turn++ {
		if err := p.completeAndDrain(ctx); err != nil {
			return err
		}
		if time.Now().After(over) {
			break
		}
		if err := p.rollOut(ctx, turn); err != nil {
			return err
		}
	}
	*p.outageResult.RolloutCompletes = true
	if err := end(ctx); err != nil {
		return err
	}
	p.faultEnded = time.Since(p.start)
	p.attacks.cascade(ctx)
	return p.replenish(ctx)
}

// completeAndDrain waits for the end of a rollout, and drains a node.
func (p *play) completeAndDrain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*waitTimeout)
	defer cancel()
	if err := poll(ctx, p.checkRollout); err != nil {
		return fmt.Errorf("roll out: %w", err)
	}
	return p.drain(ctx, p.stage.Cells[p.random.IntN(len(p.stage.Cells))])
}

// checkPartlyUpdated returns an error until a quarter of all pods has the new template.
func (p *play) checkPartlyUpdated(ctx context.Context) error {
	updated := 0
	for _, cell := range p.stage.Cells {
		list, err := cell.Client.AppsV1().Deployments(p.app.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			d := &list.Items[i]
			if d.Status.ObservedGeneration != d.Generation {
				return fmt.Errorf("the status of Deployment %s in cell %s counts pods of the old template as updated", d.Name, cell.Name)
			}
			updated += int(d.Status.UpdatedReplicas)
		}
	}
	if updated < p.app.Pods/4 {
		return fmt.Errorf("%d of %d pods are updated", updated, p.app.Pods)
	}
	return nil
}

// checkRollout returns an error while the Deployments of any cell have a rollout in progress.
func (p *play) checkRollout(ctx context.Context) error {
	for _, cell := range p.stage.Cells {
		list, err := cell.Client.AppsV1().Deployments(p.app.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range list.Items {
			d, want := &list.Items[i], *list.Items[i].Spec.Replicas
			if s := &d.Status; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != want || s.Replicas != want || s.AvailableReplicas != want {
				return fmt.Errorf("the rollout of Deployment %s in cell %s is in progress: %+v", d.Name, cell.Name, d.Status)
			}
		}
	}
	return nil
}

// drain evicts all pods of the application from a node of a cell like kubectl drain: it cordons the node, and retries what is denied.
func (p *play) drain(ctx context.Context, cell storm.Cell) error {
	nodes, err := cell.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	node := nodes.Items[p.random.IntN(len(nodes.Items))].Name
	if err := cordon(ctx, cell, node, true); err != nil {
		return err
	}
	for {
		left, err := p.evictFrom(ctx, cell, node)
		if err != nil {
			return err
		}
		if left == 0 {
			return cordon(ctx, cell, node, false)
		}
		if err := p.waitBetween(ctx, drainPause, 2*drainPause); err != nil {
			return fmt.Errorf("drain node %s of cell %s, which has %d pods left: %w", node, cell.Name, left, err)
		}
	}
}

// evictFrom evicts the pods of the application from a node, and returns how many were there.
func (p *play) evictFrom(ctx context.Context, cell storm.Cell, node string) (int, error) {
	onNode := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()}
	pods, err := cell.Client.CoreV1().Pods(p.app.Namespace).List(ctx, onNode)
	if err != nil {
		return 0, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !available(pod) {
			continue // see drawOperation
		}
		err := p.journal.Remove(ctx, 0, storm.Pod{Cell: cell, Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, Evict)
		if outcome := storm.OutcomeOf(err); outcome == storm.Failed {
			return 0, fmt.Errorf("evict pod %s from node %s of cell %s: %w", pod.Name, node, cell.Name, err)
		}
	}
	return len(pods.Items), nil
}

func cordon(ctx context.Context, cell storm.Cell, node string, unschedulable bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, unschedulable)
	_, err := cell.Client.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}
