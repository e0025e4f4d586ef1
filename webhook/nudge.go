package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

const (
	// nudgePause is the minimum time between two nudges of one controller: the controller retries all its pods at once.
	nudgePause = 200 * time.Millisecond
	// nudgeSweep is the maximum time between two checks of the waitlists; a change of a protector triggers one at once.
	nudgeSweep = 2 * time.Second
	// nudgeTime limits one nudge.
	nudgeTime = 5 * time.Second
)

// A review contains what its caller claims, and any client may be the caller. The nudger writes or evicts nothing on
// the basis of a review: it first reads the pod, its controller, its node and its namespace from the cell's API server.

// refusedController is the controller of pods whose removals were refused or, without a UID, a namespace that is being
// deleted. Kubernetes controllers retry after a pause that doubles each time, up to 1,000 seconds, but at once when
// their object changes. The UID comes from the review and is used only to group its pods.
type refusedController struct {
	cell, namespace string
	uid             types.UID
}

// podRef names a pod that a review was about.
type podRef struct {
	name string
	uid  types.UID
}

// budget returns how many removals a protector would admit now. A protector that was released admits all.
func (r protectorRef) budget(ctx context.Context) int {
	known, vanished, err := r.core.newest(ctx, r.key)
	switch {
	case apierrors.IsNotFound(err):
		return math.MaxInt
	case err != nil, vanished:
		return 0
	}
	return quota.Allowed(known)
}

// nudger wakes controllers in backoff whose removals were refused, when there is budget again. It only makes them
// faster: safety does not depend on it.
type nudger struct {
	// controllers maps each waiting controller to the pod whose removal was refused last.
	controllers waitlist[refusedController, podRef]
	evictees    waitlist[evictee, struct{}]
	cells       *cells
	metrics     *metrics
	log         logr.Logger
	// changed triggers a check of the waitlists.
	changed chan struct{}

	// pause is the time until the next check. last holds when each controller was nudged, paused the evictees whose
	// eviction was refused, nodes the taints that were read last, and reached the clients of the cells. Only run uses
	// these fields.
	pause   time.Duration
	last    map[refusedController]time.Time
	paused  map[evictee]pause
	nodes   map[node]taints
	reached map[string]*nudged
}

// nudged holds the clients of one cell.
type nudged struct {
	config   *rest.Config
	kinds    meta.RESTMapper
	metadata metadata.Interface
	client   kubernetes.Interface
}

func newNudged(config *rest.Config) (*nudged, error) {
	calls, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	n := &nudged{config: config}
	if n.kinds, err = apiutil.NewDynamicRESTMapper(config, calls); err != nil {
		return nil, err
	}
	if n.metadata, err = metadata.NewForConfigAndClient(config, calls); err != nil {
		return nil, err
	}
	n.client, err = kubernetes.NewForConfigAndClient(config, calls)
	return n, err
}

func newNudger(cells *cells, metrics *metrics, log logr.Logger) *nudger {
	return &nudger{
		cells: cells, metrics: metrics, log: log, changed: make(chan struct{}, 1),
		last: map[refusedController]time.Time{}, paused: map[evictee]pause{}, nodes: map[node]taints{}, reached: map[string]*nudged{},
	}
}

// reach returns the clients of a cell.
func (n *nudger) reach(cell string) (*nudged, error) {
	config, err := n.cells.config(cell)
	if err != nil {
		return nil, fmt.Errorf("cell %s: %w", cell, err)
	}
	if known := n.reached[cell]; known != nil && known.config == config {
		return known, nil
	}
	found, err := newNudged(config)
	if err != nil {
		return nil, fmt.Errorf("clients of cell %s: %w", cell, err)
	}
	n.reached[cell] = found
	return found, nil
}

// note puts the client of a refused removal on the waitlists, if it is a controller. Users and tools see the refusal
// themselves.
func (n *nudger) note(cell string, r removal.Request, verdict removal.VerdictReason, protector protectorRef) {
	if n == nil || !strings.HasPrefix(r.User, serviceAccounts) && r.User != controllerManager || r.DryRun {
		return
	}
	refused := podRef{r.PodName, r.Pod.UID}
	ref := r.Controller()
	switch {
	case r.User == namespaceController:
		n.controllers.add(protector, refusedController{cell: cell, namespace: r.Namespace}, refused)
	case ref != nil && ref.UID != "":
		n.controllers.add(protector, refusedController{cell, r.Namespace, ref.UID}, refused)
	}
	if r.Operation == v1alpha1.OperationDelete {
		isCollected := ref != nil && (r.User == garbageCollector || r.User == controllerManager)
		n.evictees.add(protector, evictee{cell, r.Namespace, refused, isCollected}, struct{}{})
	}
	if verdict != removal.VerdictReason(quota.RefusedDomainLoss) { // a protector may have budget, but not for this pod
		n.look()
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

// look triggers a check of the waitlists.
func (n *nudger) look() {
	if n == nil {
		return
	}
	select {
	case n.changed <- struct{}{}:
	default: // a check is pending already
	}
}

// run wakes the clients on the waitlists, until ctx ends.
func (n *nudger) run(ctx context.Context) {
	again := time.NewTimer(nudgeSweep)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		case <-n.changed:
		}
		n.pause = nudgeSweep
		n.resume(time.Now())
		for _, protector := range n.controllers.protectors() {
			n.wake(ctx, protector, protector.budget(ctx))
		}
		for _, protector := range n.evictees.protectors() {
			n.evict(ctx, protector, protector.budget(ctx))
		}
		n.forget()
		again.Reset(n.pause)
	}
}

// wake touches the objects of controllers that wait for a protector, as many as the budget allows.
func (n *nudger) wake(ctx context.Context, protector protectorRef, budget int) {
	for _, waits := range n.controllers.take(protector, budget) {
		c := waits.who
		if left := nudgePause - time.Since(n.last[c]); left > 0 {
			n.controllers.add(protector, c, waits.note)
			n.pause = min(n.pause, left)
			continue
		}
		n.last[c] = time.Now()
		touched, err := n.touch(ctx, c, waits.note)
		if touched || err != nil {
			n.told(c.cell, "wake", err)
		}
		if err != nil {
			n.log.V(1).Info("Could not wake a controller", "cell", c.cell, "namespace", c.namespace, "pod", waits.note.name, "reason", err.Error())
		}
	}
}

// touch writes a Breakwater annotation to the metadata of a controller's object, or of a namespace that is being
// deleted. The only effect is a watch event. It does nothing if the pod no longer exists, or has no controller.
func (n *nudger) touch(ctx context.Context, c refusedController, refused podRef) (touched bool, err error) {
	cell, err := n.reach(c.cell)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, nudgeTime)
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

// pod reads a pod. It returns nil if the pod does not exist, has another UID, or is being deleted.
func (n *nudged) pod(ctx context.Context, namespace string, ref podRef) (*corev1.Pod, error) {
	pod, err := n.client.CoreV1().Pods(namespace).Get(ctx, ref.name, metav1.GetOptions{})
	if err != nil || pod.UID != ref.uid || pod.DeletionTimestamp != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return pod, nil
}

// annotate writes the annotation to an object that must have the UID of the reference.
func (n *nudged) annotate(ctx context.Context, namespace string, object metav1.OwnerReference) error {
	objects, err := n.like(namespace, object)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.UID, "annotations": map[string]string{v1alpha1.AnnotationNudgedAt: time.Now().UTC().Format(time.RFC3339Nano)},
	}})
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, object.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "breakwater-webhook"})
	return err
}

// like returns a metadata client for the resource of an object's kind, in a namespace.
func (n *nudged) like(namespace string, object metav1.OwnerReference) (metadata.ResourceInterface, error) {
	version, err := schema.ParseGroupVersion(object.APIVersion)
	if err != nil {
		return nil, err
	}
	mapping, err := n.kinds.RESTMapping(schema.GroupKind{Group: version.Group, Kind: object.Kind}, version.Version)
	if err != nil {
		return nil, err
	}
	return n.metadata.Resource(mapping.Resource).Namespace(namespace), nil
}

func (n *nudger) told(cell, how string, err error) {
	result := "done"
	if err != nil {
		result = "failed"
	}
	n.metrics.nudges.WithLabelValues(cell, how, result).Inc()
}

// forget removes expired entries.
func (n *nudger) forget() {
	maps.DeleteFunc(n.last, func(_ refusedController, at time.Time) bool { return time.Since(at) > nudgePause })
	maps.DeleteFunc(n.nodes, func(_ node, t taints) bool { return time.Since(t.at) > nodeMemory })
}
