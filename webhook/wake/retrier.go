// Package wake makes clients try again whose removals were refused, when there is budget again: controllers in backoff, evictions that ended,
// pods of controllers that were created again. It only makes them faster, and delays refusals to a scheduler that retries too often. Safety does
// not depend on it.
//
// A review contains what its caller claims, and any client may be the caller. So nothing is written or evicted on the basis of a review: the
// pod, its controller, its node and its namespace are first read from the cell's API server.
package wake

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

const (
	// minWakeInterval is the minimum time between two wake-ups of one controller: the controller retries all its pods at once.
	minWakeInterval = 200 * time.Millisecond
	// sweepInterval is the maximum time between two checks of the waitlists; a change of a protector triggers one at once.
	sweepInterval = 2 * time.Second
	// wakeTimeout limits one wake-up.
	wakeTimeout = 5 * time.Second
)

// waitingController is the controller of pods whose removals were refused or, without a UID, a namespace that is being
// deleted. Kubernetes controllers retry after a pause that doubles each time, up to 1,000 seconds, but at once when
// their object changes. The UID comes from the review and is used only to group its pods.
type waitingController struct {
	cell, namespace string
	uid             types.UID
}

// podRef names a pod that a review was about.
type podRef struct {
	name string
	uid  types.UID
}

// Cells give the client configurations of cells. The pointer stays the same for as long as the connection does.
type Cells interface {
	Config(cell string) (*rest.Config, error)
}

// Protector is a protector that clients wait for. Equal ones are the same protector.
type Protector interface {
	fmt.Stringer // unique among the protectors of a webhook
	// Budget returns how many removals the protector would admit now.
	Budget(ctx context.Context) int
}

// Retrier wakes controllers in backoff whose removals were refused, when there is budget again. A nil Retrier does nothing.
type Retrier struct {
	// controllers maps each waiting controller to the pod whose removal was refused last.
	controllers waitlist[waitingController, podRef]
	pods        waitlist[waitingPod, struct{}]
	// orphans releases pods whose controller was deleted and created again. It needs no budget.
	orphans *orphanReleaser
	cells   Cells
	retries *prometheus.CounterVec
	log     logr.Logger
	now     func() time.Time
	// triggered triggers a check of the waitlists.
	triggered chan struct{}

	// nextSweep is the time until the next check. wokenAt holds when each controller was woken, paused the pods whose
	// eviction was refused, untaintedAt when nodes were read that have no taints, and clients those of the cells. Only
	// retryUntilDone uses these fields.
	nextSweep   time.Duration
	wokenAt     map[waitingController]time.Time
	paused      map[waitingPod]evictionPause
	untaintedAt map[nodeKey]time.Time
	clients     map[string]*cellClients
}

// New creates a Retrier that reaches the clusters of cells, and counts in retries by cell, way (wake, evict or release) and result.
func New(cells Cells, retries *prometheus.CounterVec, log logr.Logger) *Retrier {
	return &Retrier{
		cells: cells, retries: retries, log: log, now: time.Now, triggered: make(chan struct{}, 1),
		wokenAt: map[waitingController]time.Time{}, paused: map[waitingPod]evictionPause{}, untaintedAt: map[nodeKey]time.Time{},
		clients: map[string]*cellClients{}, orphans: newOrphanReleaser(cells, retries, log),
	}
}

// clientsOf returns the clients of a cell.
func (r *Retrier) clientsOf(cell string) (*cellClients, error) {
	config, err := r.cells.Config(cell)
	if err != nil {
		return nil, fmt.Errorf("cell %s: %w", cell, err)
	}
	if cached := r.clients[cell]; cached != nil && cached.config == config {
		return cached, nil
	}
	found, err := newCellClients(config)
	if err != nil {
		return nil, fmt.Errorf("clients of cell %s: %w", cell, err)
	}
	r.clients[cell] = found
	return found, nil
}

// Enqueue puts the client of a refused removal on the waitlists, if it is a controller. Users and tools see the refusal
// themselves.
func (r *Retrier) Enqueue(cell string, request removal.Request, verdict removal.VerdictReason, protector Protector) {
	if r == nil || !strings.HasPrefix(request.User, serviceAccounts) && request.User != controllerManager || request.DryRun {
		return
	}
	denied := podRef{request.PodName, request.Pod.UID}
	ref := request.Controller()
	switch {
	case request.User == namespaceController:
		r.controllers.add(protector, waitingController{cell: cell, namespace: request.Namespace}, denied)
	case ref != nil && ref.UID != "":
		r.controllers.add(protector, waitingController{cell, request.Namespace, ref.UID}, denied)
	}
	if request.Operation == v1alpha1.OperationDelete {
		isCollected := ref != nil && (request.User == garbageCollector || request.User == controllerManager)
		isDevice := request.User == deviceTaintEviction || request.User == controllerManager
		r.pods.add(protector, waitingPod{cell, request.Namespace, denied, isCollected, isDevice}, struct{}{})
		r.orphans.enqueue(cell, request)
	}
	if verdict != removal.VerdictReason(quota.DeniedDomainLoss) { // a protector may have budget, but not for this pod
		r.Trigger()
	}
}

const (
	serviceAccounts = "system:serviceaccount:"
	// controllerManager is the user of all Kubernetes controllers where they have no service accounts of their own.
	controllerManager = "system:kube-controller-manager"
	// namespaceController deletes the content of deleted namespaces. It retries a namespace when the namespace changes,
	// and each minute.
	namespaceController = serviceAccounts + "kube-system:namespace-controller"
	garbageCollector    = removal.GarbageCollector
)

// Trigger triggers a check of the waitlists.
func (r *Retrier) Trigger() {
	if r == nil {
		return
	}
	select {
	case r.triggered <- struct{}{}:
	default: // a check is pending already
	}
}

// Start wakes waiting clients until ctx ends.
func (r *Retrier) Start(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { r.orphans.releaseUntilDone(ctx) })
	r.retryUntilDone(ctx)
	running.Wait()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: each replica wakes the clients that it refused.
func (*Retrier) NeedLeaderElection() bool { return false }

// retryUntilDone wakes the clients on the waitlists, until ctx ends.
func (r *Retrier) retryUntilDone(ctx context.Context) {
	timer := time.NewTimer(sweepInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-r.triggered:
		}
		r.nextSweep = sweepInterval
		r.requeuePaused(r.now())
		for _, protector := range r.controllers.protectors() {
			r.wake(ctx, protector, protector.Budget(ctx))
		}
		for _, protector := range r.pods.protectors() {
			r.retryEvictions(ctx, protector, protector.Budget(ctx))
		}
		r.dropExpired()
		timer.Reset(r.nextSweep)
	}
}

// wake touches the objects of controllers that wait for a protector, as many as the budget allows.
func (r *Retrier) wake(ctx context.Context, protector Protector, budget int) {
	for _, entry := range r.controllers.pop(protector, budget) {
		c, now := entry.client, r.now()
		if remaining := minWakeInterval - now.Sub(r.wokenAt[c]); remaining > 0 {
			r.controllers.add(protector, c, entry.payload)
			r.nextSweep = min(r.nextSweep, remaining)
			continue
		}
		r.wokenAt[c] = now
		touched, err := r.touch(ctx, c, entry.payload)
		if touched || err != nil {
			countRetry(r.retries, c.cell, "wake", err)
		}
		if err != nil {
			r.log.V(1).Info("Could not wake a controller", "cell", c.cell, "namespace", c.namespace, "pod", entry.payload.name, "reason", err.Error())
		}
	}
}

// touch writes a Breakwater annotation to the metadata of a controller's object, or of a namespace that is being
// deleted. The only effect is a watch event. It does nothing if the pod no longer exists, or has no controller.
func (r *Retrier) touch(ctx context.Context, c waitingController, denied podRef) (touched bool, err error) {
	cell, err := r.clientsOf(c.cell)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	if c.uid == "" {
		space, err := cell.client.CoreV1().Namespaces().Get(ctx, c.namespace, metav1.GetOptions{})
		if err != nil || space.DeletionTimestamp == nil {
			return false, client.IgnoreNotFound(err)
		}
		return true, cell.annotate(ctx, "", metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: space.Name, UID: space.UID}, r.now())
	}
	pod, err := cell.pod(ctx, c.namespace, denied)
	if err != nil || pod == nil {
		return false, err
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return false, nil
	}
	return true, cell.annotate(ctx, c.namespace, *owner, r.now())
}

// countRetry counts one attempt to wake, evict or release, and its result.
func countRetry(retries *prometheus.CounterVec, cell, way string, err error) {
	result := "done"
	if err != nil {
		result = "failed"
	}
	retries.WithLabelValues(cell, way, result).Inc()
}

// dropExpired removes expired entries.
func (r *Retrier) dropExpired() {
	now := r.now()
	maps.DeleteFunc(r.wokenAt, func(_ waitingController, at time.Time) bool { return now.Sub(at) > minWakeInterval })
	maps.DeleteFunc(r.untaintedAt, func(_ nodeKey, at time.Time) bool { return now.Sub(at) > noTaintsTTL })
}
