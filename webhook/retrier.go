package webhook

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// A review contains what its caller claims, and any client may be the caller. The retrier writes or evicts nothing on
// the basis of a review: it first reads the pod, its controller, its node and its namespace from the cell's API server.

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

// retrier wakes controllers in backoff whose removals were refused, when there is budget again. It only makes them
// faster: safety does not depend on it.
type retrier struct {
	// controllers maps each waiting controller to the pod whose removal was refused last.
	controllers waitlist[waitingController, podRef]
	pods        waitlist[waitingPod, struct{}]
	cells       *cells
	metrics     *metrics
	log         logr.Logger
	// triggered triggers a check of the waitlists.
	triggered chan struct{}

	// nextSweep is the time until the next check. last holds when each controller was woken, paused the pods whose
	// eviction was refused, nodes the taints that were read last, and reached the clients of the cells. Only run uses
	// these fields.
	nextSweep  time.Duration
	wokenAt    map[waitingController]time.Time
	paused     map[waitingPod]evictionPause
	taintCache map[nodeKey]cachedTaints
	clients    map[string]*retrierClients
}

func newRetrier(cells *cells, metrics *metrics, log logr.Logger) *retrier {
	return &retrier{
		cells: cells, metrics: metrics, log: log, triggered: make(chan struct{}, 1),
		wokenAt: map[waitingController]time.Time{}, paused: map[waitingPod]evictionPause{}, taintCache: map[nodeKey]cachedTaints{},
		clients: map[string]*retrierClients{},
	}
}

// clientsOf returns the clients of a cell.
func (n *retrier) clientsOf(cell string) (*retrierClients, error) {
	config, err := n.cells.config(cell)
	if err != nil {
		return nil, fmt.Errorf("cell %s: %w", cell, err)
	}
	if cached := n.clients[cell]; cached != nil && cached.config == config {
		return cached, nil
	}
	found, err := newRetrierClients(config)
	if err != nil {
		return nil, fmt.Errorf("clients of cell %s: %w", cell, err)
	}
	n.clients[cell] = found
	return found, nil
}

// enqueue puts the client of a refused removal on the waitlists, if it is a controller. Users and tools see the refusal
// themselves.
func (n *retrier) enqueue(cell string, r removal.Request, verdict removal.VerdictReason, protector protectorRef) {
	if n == nil || !strings.HasPrefix(r.User, serviceAccounts) && r.User != controllerManager || r.DryRun {
		return
	}
	refused := podRef{r.PodName, r.Pod.UID}
	ref := r.Controller()
	switch {
	case r.User == namespaceController:
		n.controllers.add(protector, waitingController{cell: cell, namespace: r.Namespace}, refused)
	case ref != nil && ref.UID != "":
		n.controllers.add(protector, waitingController{cell, r.Namespace, ref.UID}, refused)
	}
	if r.Operation == v1alpha1.OperationDelete {
		isCollected := ref != nil && (r.User == garbageCollector || r.User == controllerManager)
		n.pods.add(protector, waitingPod{cell, r.Namespace, refused, isCollected}, struct{}{})
	}
	if verdict != removal.VerdictReason(quota.DeniedDomainLoss) { // a protector may have budget, but not for this pod
		n.trigger()
	}
}

const (
	serviceAccounts = "system:serviceaccount:"
	// controllerManager is the user of all Kubernetes controllers where they have no service accounts of their own.
	controllerManager = "system:kube-controller-manager"
	// namespaceController deletes the content of deleted namespaces. It retries a namespace when the namespace changes,
	// and each minute.
	namespaceController = serviceAccounts + "kube-system:namespace-controller"
	garbageCollector    = serviceAccounts + "kube-system:generic-garbage-collector"
)

// trigger triggers a check of the waitlists.
func (n *retrier) trigger() {
	if n == nil {
		return
	}
	select {
	case n.triggered <- struct{}{}:
	default: // a check is pending already
	}
}

// retryUntilDone wakes the clients on the waitlists, until ctx ends.
func (n *retrier) retryUntilDone(ctx context.Context) {
	timer := time.NewTimer(sweepInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-n.triggered:
		}
		n.nextSweep = sweepInterval
		n.requeuePaused(time.Now())
		for _, protector := range n.controllers.protectors() {
			n.wake(ctx, protector, protector.budget(ctx))
		}
		for _, protector := range n.pods.protectors() {
			n.retryEvictions(ctx, protector, protector.budget(ctx))
		}
		n.dropExpired()
		timer.Reset(n.nextSweep)
	}
}

// wake touches the objects of controllers that wait for a protector, as many as the budget allows.
func (n *retrier) wake(ctx context.Context, protector protectorRef, budget int) {
	for _, entry := range n.controllers.pop(protector, budget) {
		c := entry.client
		if remaining := minWakeInterval - time.Since(n.wokenAt[c]); remaining > 0 {
			n.controllers.add(protector, c, entry.payload)
			n.nextSweep = min(n.nextSweep, remaining)
			continue
		}
		n.wokenAt[c] = time.Now()
		touched, err := n.touch(ctx, c, entry.payload)
		if touched || err != nil {
			n.countRetry(c.cell, "wake", err)
		}
		if err != nil {
			n.log.V(1).Info("Could not wake a controller", "cell", c.cell, "namespace", c.namespace, "pod", entry.payload.name, "reason", err.Error())
		}
	}
}

// touch writes a Breakwater annotation to the metadata of a controller's object, or of a namespace that is being
// deleted. The only effect is a watch event. It does nothing if the pod no longer exists, or has no controller.
func (n *retrier) touch(ctx context.Context, c waitingController, refused podRef) (touched bool, err error) {
	cell, err := n.clientsOf(c.cell)
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
		return true, cell.annotate(ctx, "", metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: space.Name, UID: space.UID})
	}
	pod, err := cell.pod(ctx, c.namespace, refused)
	if err != nil || pod == nil {
		return false, err
	}
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return false, nil
	}
	return true, cell.annotate(ctx, c.namespace, *owner)
}

func (n *retrier) countRetry(cell, action string, err error) {
	result := "done"
	if err != nil {
		result = "failed"
	}
	n.metrics.retries.WithLabelValues(cell, action, result).Inc()
}

// dropExpired removes expired entries.
func (n *retrier) dropExpired() {
	maps.DeleteFunc(n.wokenAt, func(_ waitingController, at time.Time) bool { return time.Since(at) > minWakeInterval })
	maps.DeleteFunc(n.taintCache, func(_ nodeKey, t cachedTaints) bool { return time.Since(t.at) > taintsTTL })
}
