package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cascade deletes the Deployments of a scope in all cells at once, alternating between foreground and background propagation. Each cell's
// garbage collector deletes their ReplicaSets and pods, with retries. The tally does not count those requests; the record shows what they
// removed.
type Cascade struct{ Scope Scope }

// Name implements Attack.
func (Cascade) Name() string { return "cascade" }

// Run implements Attack.
func (a Cascade) Run(ctx context.Context, tally *Tally) error {
	return inEachCell(a.Scope.Cells, func(cell Cell) error {
		client := cell.Client.AppsV1().Deployments(a.Scope.Namespace)
		deployments, err := client.List(ctx, metav1.ListOptions{LabelSelector: a.Scope.Selector})
		if err != nil {
			return ignoreTimeout(ctx, fmt.Errorf("list the Deployments of cell %s: %w", cell.Name, err))
		}
		var running sync.WaitGroup
		for i, deployment := range deployments.Items {
			propagation := []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground}[i%2]
			running.Go(func() { a.delete(ctx, cell, deployment, propagation, tally) })
		}
		running.Wait()
		return nil
	})
}

func (a Cascade) delete(ctx context.Context, cell Cell, d appsv1.Deployment, p metav1.DeletionPropagation, tally *Tally) {
	client := cell.Client.AppsV1().Deployments(d.Namespace)
	observe(ctx, tally, client.Delete(ctx, d.Name, metav1.DeleteOptions{PropagationPolicy: &p}))
}

// DeleteCollection deletes all pods of a scope with one request to each cell, in all cells at once, Times times. The API server stops such
// a request at the first refusal, so one request removes little from a protected cell.
type DeleteCollection struct {
	Scope Scope
	Times int
}

// Name implements Attack.
func (DeleteCollection) Name() string { return "deletecollection" }

// Run implements Attack.
func (a DeleteCollection) Run(ctx context.Context, tally *Tally) error {
	return inEachCell(a.Scope.Cells, func(cell Cell) error {
		client := cell.Client.CoreV1().Pods(a.Scope.Namespace)
		for i := 0; i < a.Times && ctx.Err() == nil; i++ {
			observe(ctx, tally, client.DeleteCollection(ctx, metav1.DeleteOptions{},
				metav1.ListOptions{LabelSelector: a.Scope.Selector}))
		}
		return nil
	})
}

// EvictionWave evicts every pod that exists and is not terminating when it begins, once each, in an order that the seed determines.
type EvictionWave struct {
	Recorder *Recorder
	Clients  int
	Seed     uint64
}

// Name implements Attack.
func (EvictionWave) Name() string { return "eviction wave" }

// Run implements Attack.
func (a EvictionWave) Run(ctx context.Context, tally *Tally) error {
	pods := a.Recorder.Pods()
	random := rand.New(rand.NewPCG(a.Seed, 0))
	random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	todo := make(chan Pod, len(pods))
	for _, pod := range pods {
		todo <- pod
	}
	close(todo)
	var running sync.WaitGroup
	for range a.Clients {
		running.Go(func() {
			for pod := range todo {
				if ctx.Err() != nil {
					return
				}
				observe(ctx, tally, pod.Evict(ctx))
			}
		})
	}
	running.Wait()
	return nil
}

// RandomDeletes are many clients, each of which deletes one random pod after the other, up to Each pods. The seed determines the draws.
// Which pods they hit depends on the other clients.
type RandomDeletes struct {
	Recorder *Recorder
	Clients  int
	Each     int
	Seed     uint64
}

// Name implements Attack.
func (RandomDeletes) Name() string { return "random deletes" }

// Run implements Attack.
func (a RandomDeletes) Run(ctx context.Context, tally *Tally) error {
	var running sync.WaitGroup
	for client := range a.Clients {
		random := rand.New(rand.NewPCG(a.Seed, uint64(client)+1))
		running.Go(func() {
			for range a.Each {
				pod, ok := a.Recorder.awaitPod(ctx, random)
				if !ok {
					return
				}
				observe(ctx, tally, pod.Delete(ctx))
			}
		})
	}
	running.Wait()
	return nil
}

// awaitPod picks a pod, and waits if there is none. It gives up when ctx ends.
func (r *Recorder) awaitPod(ctx context.Context, random *rand.Rand) (Pod, bool) {
	for ctx.Err() == nil {
		if pod, ok := r.Pick(random); ok {
			return pod, true
		}
		// New pods may appear that are not available yet, and those cause no event.
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return Pod{}, false
}

// Delete deletes the pod with the pod's own grace period.
func (p Pod) Delete(ctx context.Context) error {
	return p.Cell.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{})
}

// Evict evicts the pod.
func (p Pod) Evict(ctx context.Context) error {
	return p.Cell.Client.CoreV1().Pods(p.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
	})
}

// observe counts a request, unless the end of the attack's time cut it off.
func observe(ctx context.Context, tally *Tally, err error) {
	if err != nil && ctx.Err() != nil {
		return
	}
	tally.Observe(err)
}

func inEachCell(cells []Cell, do func(Cell) error) error {
	var running sync.WaitGroup
	faults := make([]error, len(cells))
	for i, cell := range cells {
		running.Go(func() { faults[i] = do(cell) })
	}
	running.Wait()
	return errors.Join(faults...)
}

// ignoreTimeout drops an error that only reports the end of the attack's time.
func ignoreTimeout(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
