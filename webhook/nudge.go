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
	// nudgePause is the least time between two nudges of one controller: it asks for all its pods at once.
	nudgePause = 200 * time.Millisecond
	// nudgeSweep is the most time between two looks at who waits; a change of a protector asks for one at once.
	nudgeSweep = 2 * time.Second
	// nudgeTime bounds one nudge.
	nudgeTime = 5 * time.Second
)

// A review is what its caller says, who may be anyone. Nothing that the nudger writes or evicts rests on it: the pod, its controller, its node
// and its namespace are read from the cell's API server before.

// refusedController is the controller of pods whose removals were refused, or a namespace that is being deleted if it has no UID. Controllers
// of Kubernetes try again after a pause that doubles each time, to 1,000 seconds, but at once when their object changes. The UID is of the
// review, and does nothing but group its pods.
type refusedController struct {
	cell, namespace string
	uid             types.UID
}

// podRef names a pod that a review was about.
type podRef struct {
	name string
	uid  types.UID
}

// budget is how many removals a protector would admit now; one that was released admits all.
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

// nudger wakes those who were refused when there is budget again. It is a matter of speed: nothing is less safe without it.
type nudger struct {
	// controllers has a pod of each that was refused last.
	controllers waitlist[refusedController, podRef]
	evictees    waitlist[evictee, struct{}]
	cells       *cells
	metrics     *metrics
	log         logr.Logger
	// changed asks for a look at who waits.
	changed chan struct{}

	// pause is until the next look, last when a controller was nudged, paused whose eviction was refused, nodes the taints that were
	// read last, and reached the cells. run alone uses them.
	pause   time.Duration
	last    map[refusedController]time.Time
	paused  map[evictee]pause
	nodes   map[node]taints
	reached map[string]*nudged
}

// nudged reaches the objects of one cell.
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

// reach returns what reaches a cell.
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

// note lets whoever was refused wait for budget, if it is a controller: people and tools see the refusal.
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
	if verdict != removal.VerdictReason(quota.RefusedDomainLoss) { // there may be budget all the time, and not for this pod
		n.look()
	}
}

const (
	serviceAccounts = "system:serviceaccount:"
	// controllerManager is the user of all controllers of Kubernetes where they have no accounts of their own.
	controllerManager = "system:kube-controller-manager"
	// namespaceController empties namespaces that are deleted. It looks at one again when that changes, and each minute.
	namespaceController = serviceAccounts + "kube-system:namespace-controller"
	garbageCollector    = serviceAccounts + "kube-system:generic-garbage-collector"
)

// look asks for a look at who waits.
func (n *nudger) look() {
	if n == nil {
		return
	}
	select {
	case n.changed <- struct{}{}:
	default: // one is asked for
	}
}

// run wakes who waits, until ctx ends.
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

// wake touches the objects of the controllers that wait for a protector, as many as there is budget for.
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

// touch writes an annotation of ours to the metadata of a controller's object, or of a namespace that is being deleted. Nothing comes of that
// but an event of its watch. It does nothing if the pod does not exist any more, or has no controller.
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

// pod reads a pod; nil if it does not exist, is another one of its name, or is being deleted.
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

// like reaches the objects of an object's kind, in a namespace.
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

// forget makes room.
func (n *nudger) forget() {
	maps.DeleteFunc(n.last, func(_ refusedController, at time.Time) bool { return time.Since(at) > nudgePause })
	maps.DeleteFunc(n.nodes, func(_ node, t taints) bool { return time.Since(t.at) > nodeMemory })
}
