package wake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/clusters/successor"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/succession"
)

const (
	// minOrphanPause and maxOrphanPause limit the time between two checks of the pods of one controller. The pause doubles: no event reports that
	// a controller is created again.
	minOrphanPause, maxOrphanPause = 2 * time.Second, 30 * time.Second
	// maxOrphanOwners limits how many controllers are checked, and maxOrphanRefs how many of their refused pods are remembered. The garbage
	// collector retries, and so the others follow.
	maxOrphanOwners, maxOrphanRefs = 1000, 16
)

// orphanReleaser releases pods to the successor of their controller: it removes the reference to a controller that was deleted, when another
// object of its kind and name selects the pods. The successor then adopts them. Without it a StatefulSet that is deleted and created again would
// never recover: it can neither adopt the pods that the floor keeps nor create pods of their names.
//
// A refusal of the garbage collector only starts a check. All facts are live (rule 15), and package succession decides.
type orphanReleaser struct {
	cells   Cells
	retries *prometheus.CounterVec
	log     logr.Logger
	now     func() time.Time
	// triggered triggers a check of the controllers that are due.
	triggered chan struct{}

	mu      sync.Mutex
	waiting map[waitingController]*orphans

	// clusters are the clients of the cells. Only the goroutine of releaseUntilDone uses them.
	clusters map[string]orphanCluster
}

// orphans are the pods of one controller whose removal by the garbage collector was refused.
type orphans struct {
	denied      map[podRef]struct{}
	checkedAt   time.Time
	nextCheckAt time.Time
	pause       time.Duration
}

// orphanCluster is the cluster of a cell, with the configuration that it was created from.
type orphanCluster struct {
	config *rest.Config
	*successor.Cluster
}

func newOrphanReleaser(cells Cells, retries *prometheus.CounterVec, log logr.Logger) *orphanReleaser {
	return &orphanReleaser{
		cells: cells, retries: retries, log: log, now: time.Now, triggered: make(chan struct{}, 1),
		waiting: map[waitingController]*orphans{}, clusters: map[string]orphanCluster{},
	}
}

// enqueue records a refused removal whose client may be the garbage collector. The UID of the owner comes from the review, and only groups its
// pods.
func (o *orphanReleaser) enqueue(cell string, request removal.Request) {
	if o == nil || request.User != garbageCollector && request.User != controllerManager {
		return
	}
	owner := request.Controller()
	if owner == nil || owner.UID == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	c := waitingController{cell, request.Namespace, owner.UID}
	found := o.waiting[c]
	if found == nil {
		if len(o.waiting) >= maxOrphanOwners {
			return
		}
		found = &orphans{denied: map[podRef]struct{}{}, pause: minOrphanPause}
		o.waiting[c] = found
	}
	if len(found.denied) < maxOrphanRefs {
		found.denied[podRef{request.PodName, request.Pod.UID}] = struct{}{}
	}
	if soon := found.checkedAt.Add(minOrphanPause); found.nextCheckAt.After(soon) {
		found.nextCheckAt = soon
	}
	select {
	case o.triggered <- struct{}{}:
	default: // a check is pending already
	}
}

// releaseUntilDone checks the controllers that are due, until ctx ends.
func (o *orphanReleaser) releaseUntilDone(ctx context.Context) {
	timer := time.NewTimer(maxOrphanPause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-o.triggered:
		}
		due, _ := o.due()
		for _, c := range due {
			o.check(ctx, c)
		}
		_, next := o.due()
		timer.Reset(next)
	}
}

// due returns the controllers that are due for a check, and the time until the next one is.
func (o *orphanReleaser) due() (due []waitingController, next time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	next = maxOrphanPause
	for c, found := range o.waiting {
		if wait := found.nextCheckAt.Sub(now); wait > 0 {
			next = min(next, wait)
			continue
		}
		next, due = 0, append(due, c)
	}
	slices.SortFunc(due, func(a, b waitingController) int {
		return strings.Compare(a.cell+"/"+a.namespace+"/"+string(a.uid), b.cell+"/"+b.namespace+"/"+string(b.uid))
	})
	return due, next
}

// check releases the pods of a controller, if they can be. Otherwise it schedules the next check, unless the pods cannot be released later either.
func (o *orphanReleaser) check(ctx context.Context, c waitingController) {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	again, err := o.releaseOrphans(ctx, c)
	if err != nil {
		o.log.V(1).Info("Could not release the pods of a deleted controller", "cell", c.cell, "namespace", c.namespace, "uid", c.uid, "reason", err.Error())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	found := o.waiting[c]
	if !again && err == nil || len(found.denied) == 0 {
		delete(o.waiting, c)
		return
	}
	found.checkedAt = o.now()
	found.nextCheckAt = found.checkedAt.Add(found.pause)
	found.pause = min(2*found.pause, maxOrphanPause)
}

// releaseOrphans releases the pods of a controller to its successor. again reports whether they may be released later.
func (o *orphanReleaser) releaseOrphans(ctx context.Context, c waitingController) (again bool, err error) {
	cell, err := o.cluster(c.cell)
	if err != nil {
		return true, err
	}
	pod, err := o.livePod(ctx, cell, c)
	if err != nil || pod == nil {
		return false, err
	}
	controller := metav1.GetControllerOf(pod)
	if controller == nil {
		return false, nil
	}
	named, err := cell.Named(ctx, c.namespace, *controller)
	if err != nil {
		return true, err
	}
	decision := succession.Decide(pod, named)
	if decision != succession.Release && decision != succession.NotSelected {
		return decision.MayChange(), nil
	}
	again = decision == succession.NotSelected // the successor may select other pods of the controller
	pods, err := cell.PodsOf(ctx, c.namespace, *controller, named)
	if err != nil {
		return true, err
	}
	released := 0
	for i := range pods {
		if succession.Decide(&pods[i], named) != succession.Release {
			continue
		}
		switch err := cell.Release(ctx, &pods[i], fieldManager); {
		case err == nil:
			released++
			o.reportPod(ctx, cell, &pods[i], *controller, named)
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			again = true // another replica may have released it, or the pod changed
			continue
		default:
			countRetry(o.retries, c.cell, "release", err)
			return true, err
		}
		countRetry(o.retries, c.cell, "release", nil)
	}
	if released > 0 {
		o.log.Info("Released pods to the successor of their deleted controller", "cell", c.cell, "namespace", c.namespace,
			"kind", controller.Kind, "name", controller.Name, "deleted", controller.UID, "successor", named.UID, "pods", released)
		o.reportSuccessor(ctx, cell, c.namespace, *controller, named, released)
	}
	return again, nil
}

// livePod returns the first of the refused pods that lives, or nil if none does. It forgets those that do not.
func (o *orphanReleaser) livePod(ctx context.Context, cell orphanCluster, c waitingController) (*corev1.Pod, error) {
	o.mu.Lock()
	denied := slices.Collect(maps.Keys(o.waiting[c].denied))
	o.mu.Unlock()
	for _, ref := range denied {
		pod, err := cell.Client.CoreV1().Pods(c.namespace).Get(ctx, ref.name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		if err == nil && pod.UID == ref.uid && pod.DeletionTimestamp == nil && metav1.GetControllerOfNoCopy(pod) != nil {
			return pod, nil
		}
		o.mu.Lock()
		delete(o.waiting[c].denied, ref)
		o.mu.Unlock()
	}
	return nil, nil
}

// cluster returns the cluster of a cell.
func (o *orphanReleaser) cluster(cell string) (orphanCluster, error) {
	config, err := o.cells.Config(cell)
	if err != nil {
		return orphanCluster{}, fmt.Errorf("cell %s: %w", cell, err)
	}
	if cached := o.clusters[cell]; cached.Cluster != nil && cached.config == config {
		return cached, nil
	}
	found, err := successor.NewCluster(config)
	if err != nil {
		return orphanCluster{}, fmt.Errorf("clients of cell %s: %w", cell, err)
	}
	o.clusters[cell] = orphanCluster{config, found}
	return o.clusters[cell], nil
}
