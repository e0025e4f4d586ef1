package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/quota"
)

const (
	// nudgePause is the least time between two nudges of one controller: it asks for all its pods at once.
	nudgePause = 200 * time.Millisecond
	// nudgeSweep is the time between two looks at who waits, besides those that a change of a protector asks for.
	nudgeSweep = 2 * time.Second
	// nudgeTime bounds one nudge.
	nudgeTime = 5 * time.Second
	// nodeMemory is how long the taints of a node are believed.
	nodeMemory = 5 * time.Second
)

// controller is what owns a pod whose removal was refused, in a cell. Controllers of Kubernetes try again after a pause that
// doubles each time, to 1,000 seconds, but at once when their object changes.
type controller struct {
	cell, namespace, apiVersion, kind, name string
	uid                                     types.UID
}

// evictee is a pod that a controller was refused to remove. The eviction of pods from tainted nodes gives up after five attempts,
// and never takes it up again.
type evictee struct {
	cell, namespace, name, node string
	uid                         types.UID
}

// budgetOf is how many removals a protector would admit now; one that is gone admits all.
func (p *Protection) budgetOf(ctx context.Context, protector string) int {
	core, key, _ := strings.Cut(protector, "/")
	namespace, name, _ := strings.Cut(key, "/")
	c := p.core(core)
	if c == nil {
		return 0
	}
	known, err := c.protectors.Newest(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	switch {
	case apierrors.IsNotFound(err):
		return math.MaxInt
	case err != nil:
		return 0
	}
	budget := quota.BudgetOf(known)
	if budget.FloorUnknown {
		return 0
	}
	return budget.Left()
}

// nudger wakes those who were refused when there is budget again. It is a matter of speed: nothing is less safe without it.
type nudger struct {
	controllers waitlist[controller]
	evictees    waitlist[evictee]
	cells       map[string]*nudged
	// others reaches cells that come and go; nil when there are none.
	others  func(cell string) *nudged
	metrics *metrics
	log     logr.Logger
	// changed asks for a look at who waits.
	changed chan struct{}

	// last is when a controller was nudged, and nodes the taints that were read last. run alone uses them.
	last  map[controller]time.Time
	nodes map[node]taints
}

type node struct{ cell, name string }

type taints struct {
	at  time.Time
	all []corev1.Taint
}

// nudged reaches the objects of one cell.
type nudged struct {
	kinds    meta.RESTMapper
	metadata metadata.Interface
	client   kubernetes.Interface
}

func newNudged(config *rest.Config) (*nudged, error) {
	calls, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	n := &nudged{}
	if n.kinds, err = apiutil.NewDynamicRESTMapper(config, calls); err != nil {
		return nil, err
	}
	if n.metadata, err = metadata.NewForConfigAndClient(config, calls); err != nil {
		return nil, err
	}
	n.client, err = kubernetes.NewForConfigAndClient(config, calls)
	return n, err
}

func newNudger(metrics *metrics, log logr.Logger) *nudger {
	return &nudger{
		cells: map[string]*nudged{}, metrics: metrics, log: log, changed: make(chan struct{}, 1),
		last: map[controller]time.Time{}, nodes: map[node]taints{},
	}
}

// note lets whoever was refused wait for budget, if it is a controller: people and tools see the refusal.
func (n *nudger) note(cell string, r Request, answer Answer) {
	if n == nil || answer.blames == nil || !strings.HasPrefix(r.User, serviceAccounts) && r.User != controllerManager || r.DryRun {
		return
	}
	protector := answer.blames.String()
	if ref := r.controller(); ref != nil {
		n.controllers.add(protector, controller{
			cell: cell, namespace: r.Namespace, apiVersion: ref.APIVersion, kind: ref.Kind, name: ref.Name, uid: ref.UID,
		})
	}
	if r.Operation == v1alpha1.OperationDelete {
		n.evictees.add(protector, evictee{cell: cell, namespace: r.Namespace, name: r.PodName, node: r.Pod.Spec.NodeName, uid: r.Pod.UID})
	}
	n.look()
}

const (
	serviceAccounts = "system:serviceaccount:"
	// controllerManager is the user of all controllers of Kubernetes where they have no accounts of their own.
	controllerManager = "system:kube-controller-manager"
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

// run wakes who waits, until ctx ends. budget is how many removals a protector would admit now.
func (n *nudger) run(ctx context.Context, budget func(ctx context.Context, protector string) int) {
	sweep := time.NewTicker(nudgeSweep)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
		case <-n.changed:
		}
		for _, protector := range n.controllers.protectors() {
			n.wake(ctx, protector, budget(ctx, protector))
		}
		for _, protector := range n.evictees.protectors() {
			n.evict(ctx, protector, budget(ctx, protector))
		}
		n.forget()
	}
}

// wake touches the objects of the controllers that wait for a protector, as many as there is budget for.
func (n *nudger) wake(ctx context.Context, protector string, budget int) {
	for _, c := range n.controllers.take(protector, budget) {
		if time.Since(n.last[c]) < nudgePause {
			n.controllers.add(protector, c)
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

// reach returns the way to a cell's objects; nil when there is none.
func (n *nudger) reach(cell string) *nudged {
	if known := n.cells[cell]; known != nil || n.others == nil {
		return known
	}
	return n.others(cell)
}

// touch writes an annotation of ours to the metadata of a controller's object. Nothing comes of that but an event of its watch.
func (n *nudger) touch(ctx context.Context, c controller) error {
	cell := n.reach(c.cell)
	if cell == nil {
		return fmt.Errorf("cell %s is not known", c.cell)
	}
	ctx, cancel := context.WithTimeout(ctx, nudgeTime)
	defer cancel()
	version, err := schema.ParseGroupVersion(c.apiVersion)
	if err != nil {
		return err
	}
	mapping, err := cell.kinds.RESTMapping(schema.GroupKind{Group: version.Group, Kind: c.kind}, version.Version)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": c.uid, "annotations": map[string]string{v1alpha1.AnnotationNudgedAt: time.Now().UTC().Format(time.RFC3339Nano)},
	}})
	if err != nil {
		return err
	}
	_, err = cell.metadata.Resource(mapping.Resource).Namespace(c.namespace).Patch(
		ctx, c.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "breakwater-webhook"})
	return err
}

// evict takes up the eviction of pods from tainted nodes, as many as there is budget for. Each asks for its budget like any other.
func (n *nudger) evict(ctx context.Context, protector string, budget int) {
	for _, e := range n.evictees.take(protector, budget) {
		done, err := n.evictOne(ctx, e)
		if done || err != nil {
			n.told(e.cell, "evict", err)
		}
		if apierrors.IsTooManyRequests(err) {
			n.evictees.add(protector, e)
		} else if err != nil {
			n.log.V(1).Info("A pod was not evicted from its tainted node", "cell", e.cell, "namespace", e.namespace, "pod", e.name, "reason", err.Error())
		}
	}
}

// evictOne evicts a pod, if its node does not tolerate it any more.
func (n *nudger) evictOne(ctx context.Context, e evictee) (done bool, err error) {
	cell := n.reach(e.cell)
	if cell == nil {
		return false, fmt.Errorf("cell %s is not known", e.cell)
	}
	ctx, cancel := context.WithTimeout(ctx, nudgeTime)
	defer cancel()
	found, err := n.taintsOf(ctx, cell, node{e.cell, e.node})
	if err != nil || len(found) == 0 {
		return false, err
	}
	pod, err := cell.client.CoreV1().Pods(e.namespace).Get(ctx, e.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	case pod.UID != e.uid, pod.DeletionTimestamp != nil, !isExpelled(pod, found, time.Now()):
		return false, nil
	}
	err = cell.client.CoreV1().Pods(e.namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: e.namespace, Name: e.name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
	return err == nil, err
}

// taintsOf returns the taints of a node that expel pods.
func (n *nudger) taintsOf(ctx context.Context, cell *nudged, of node) ([]corev1.Taint, error) {
	if known := n.nodes[of]; time.Since(known.at) < nodeMemory {
		return known.all, nil
	}
	found, err := cell.client.CoreV1().Nodes().Get(ctx, of.name, metav1.GetOptions{})
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	expelling := slices.DeleteFunc(found.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectNoExecute })
	n.nodes[of] = taints{time.Now(), expelling}
	return expelling, nil
}

// isExpelled tells whether a taint expels a pod now: none of its tolerations is for it, or those that are have run out.
func isExpelled(pod *corev1.Pod, found []corev1.Taint, now time.Time) bool {
	return slices.ContainsFunc(found, func(taint corev1.Taint) bool {
		return !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			if !t.ToleratesTaint(klog.Background(), &taint, true) {
				return false
			}
			return t.TolerationSeconds == nil || taint.TimeAdded != nil &&
				now.Before(taint.TimeAdded.Add(time.Duration(*t.TolerationSeconds)*time.Second))
		})
	})
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
