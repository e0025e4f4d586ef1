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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/quota"
	"github.com/breakwater-k8s/breakwater/internal/removal"
)

const (
	// nudgePause is the least time between two nudges of one controller: it asks for all its pods at once.
	nudgePause = 200 * time.Millisecond
	// nudgeSweep is the most time between two looks at who waits; a change of a protector asks for one at once.
	nudgeSweep = 2 * time.Second
	// nudgeTime bounds one nudge.
	nudgeTime = 5 * time.Second
)

// controller is what owns a pod whose removal was refused, in a cell. Controllers of Kubernetes try again after a pause that
// doubles each time, to 1,000 seconds, but at once when their object changes.
type controller struct {
	cell, namespace, apiVersion, kind, name string
	uid                                     types.UID
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
	controllers waitlist[controller]
	evictees    waitlist[evictee]
	cells       *cells
	metrics     *metrics
	log         logr.Logger
	// changed asks for a look at who waits.
	changed chan struct{}

	// pause is until the next look, last when a controller was nudged, paused whose eviction was refused, nodes the taints that were
	// read last, and reached the cells. run alone uses them.
	pause   time.Duration
	last    map[controller]time.Time
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
		last: map[controller]time.Time{}, paused: map[evictee]pause{}, nodes: map[node]taints{}, reached: map[string]*nudged{},
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
	waits := controller{cell: cell, namespace: r.Namespace}
	ref := r.Controller()
	if ref != nil {
		waits.apiVersion, waits.kind, waits.name, waits.uid = ref.APIVersion, ref.Kind, ref.Name, ref.UID
	}
	switch {
	case r.User == namespaceController:
		n.controllers.add(protector, controller{cell: cell, apiVersion: "v1", kind: "Namespace", name: r.Namespace})
	case ref != nil:
		n.controllers.add(protector, waits)
	}
	if r.Operation == v1alpha1.OperationDelete {
		pod := evictee{cell: cell, namespace: r.Namespace, name: r.PodName, node: r.Pod.Spec.NodeName, uid: r.Pod.UID}
		if ref != nil && (r.User == garbageCollector || r.User == controllerManager) {
			pod.owner = waits
		}
		n.evictees.add(protector, pod)
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
	for _, c := range n.controllers.take(protector, budget) {
		if left := nudgePause - time.Since(n.last[c]); left > 0 {
			n.controllers.add(protector, c)
			n.pause = min(n.pause, left)
			continue
		}
		n.last[c] = time.Now()
		err := n.touch(ctx, c)
		n.told(c.cell, "wake", err)
		if err != nil {
			n.log.V(1).Info("A controller was not woken", "cell", c.cell, "kind", c.kind, "namespace", c.namespace, "name", c.name, "reason", err.Error())
		}
	}
}

// touch writes an annotation of ours to the metadata of a controller's object. Nothing comes of that but an event of its watch.
func (n *nudger) touch(ctx context.Context, c controller) error {
	cell, err := n.reach(c.cell)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, nudgeTime)
	defer cancel()
	objects, err := cell.like(c)
	if err != nil {
		return err
	}
	change := map[string]any{"annotations": map[string]string{v1alpha1.AnnotationNudgedAt: time.Now().UTC().Format(time.RFC3339Nano)}}
	if c.uid != "" {
		change["uid"] = c.uid
	}
	patch, err := json.Marshal(map[string]any{"metadata": change})
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, c.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "breakwater-webhook"})
	return err
}

// like reaches the objects of a controller's kind, in its namespace.
func (n *nudged) like(c controller) (metadata.ResourceInterface, error) {
	version, err := schema.ParseGroupVersion(c.apiVersion)
	if err != nil {
		return nil, err
	}
	mapping, err := n.kinds.RESTMapping(schema.GroupKind{Group: version.Group, Kind: c.kind}, version.Version)
	if err != nil {
		return nil, err
	}
	return n.metadata.Resource(mapping.Resource).Namespace(c.namespace), nil
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
	maps.DeleteFunc(n.last, func(_ controller, at time.Time) bool { return time.Since(at) > nudgePause })
	maps.DeleteFunc(n.nodes, func(_ node, t taints) bool { return time.Since(t.at) > nodeMemory })
}
