// Package nodeguard is a proxy between a kubelet and its API server that keeps containers alive when pods disappear without having been
// deleted. It forwards everything unchanged, with the kubelet's own certificate, and edits only the lists and watches of the node's pods as
// internal/core/podhold decides. Pods that disappeared are registered again.
package nodeguard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard/podwire"
)

// encoded is a pod as the kubelet saw it.
type encoded struct {
	format podwire.Format
	raw    []byte
}

// in returns the pod in a format.
func (e encoded) in(f podwire.Format) ([]byte, error) {
	if e.format == f {
		return e.raw, nil
	}
	pod, err := podwire.Decode(e.format, e.raw)
	if err != nil {
		return nil, err
	}
	return podwire.Encode(f, pod)
}

// cluster is what the guard asks the API server for, with its own account.
type cluster interface {
	// Admission reports whether the removal of a pod was admitted. uid is that by which the API server knew it.
	Admission(ctx context.Context, namespace string, uid types.UID) podhold.Admission
	// Protects reports whether a protector covers the pod.
	Protects(p *corev1.Pod) bool
}

// Guard holds and registers pods of a node. It is safe for concurrent use.
type Guard struct {
	node    string
	cluster cluster
	store   *store
	log     logr.Logger
	metrics *metrics
	clock   runningClock
	// lost has the held pods to register.
	lost workqueue.TypedDelayingInterface[types.NamespacedName]

	mu      sync.Mutex
	pods    knownPods
	watches kubeletWatches
	// attempts are why held pods are not registered, by UID.
	attempts map[types.UID]attempt
	// asked is the question to the aggregators.
	asked podhold.Asked
}

// knownPods are the pods that the guard knows.
type knownPods struct {
	view    *podhold.View
	objects map[types.UID]encoded
	// toKubelet translates the UIDs of registrations. It is replaced, never changed.
	toKubelet podwire.UIDs
}

// attempt is the last attempt to register a held pod.
type attempt struct {
	reason string
	// unregistrable reports that the pod cannot be registered, and failures how often that was found in a row, or the opposite.
	unregistrable bool
	failures      int
}

// newGuard returns a Guard with what an earlier one has stored.
func newGuard(node string, c cluster, s *store, now clock.PassiveClock, log logr.Logger) *Guard {
	stored := s.restore(node, log)
	ran, err := s.loadRunningTime()
	if err != nil {
		log.Error(err, "Counting again how long pods are held")
	}
	ran, pods := podhold.Resume(ran, stored.pods)
	g := &Guard{
		node: node, cluster: c, store: s, log: log, metrics: newMetrics(), clock: runningClock{now, now.Now(), ran},
		lost: workqueue.NewTypedDelayingQueue[types.NamespacedName](), pods: knownPods{view: podhold.NewView(pods...), objects: stored.objects},
		watches: newKubeletWatches(), attempts: map[types.UID]attempt{},
	}
	for why, n := range stored.rejected {
		g.metrics.rejected.WithLabelValues(string(why)).Set(float64(n))
	}
	g.translate()
	for _, e := range g.pods.view.Held() {
		g.lost.Add(e.Pod.NamespacedName)
	}
	return g
}

// translate computes the translation of UIDs from the view.
func (g *Guard) translate() {
	pairs := map[types.UID]types.UID{}
	for _, e := range g.pods.view.All() {
		if e.Registered != "" {
			pairs[e.Registered] = e.Pod.UID
		}
	}
	g.pods.toKubelet = podwire.NewUIDs(pairs)
}

// uids returns the translation of UIDs that the API server uses to those that the kubelet uses.
func (g *Guard) uids() podwire.UIDs {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pods.toKubelet
}

// decideLost decides on a pod that disappeared from the API server, and holds or drops it. It reports whether the kubelet still sees a pod of
// that name: this one, or another that has taken its place meanwhile.
func (g *Guard) decideLost(ctx context.Context, p podhold.Pod) (seen bool) {
	lost, ok := g.entry(p.NamespacedName)
	if !ok || lost.Pod.UID != p.UID {
		return ok
	}
	g.mu.Lock()
	object, known := g.pods.objects[p.UID]
	g.mu.Unlock()
	protected := false
	if pod, err := podwire.Decode(object.format, object.raw); known && err == nil {
		protected = g.cluster.Protects(pod)
	}
	admission := podhold.Unknown
	if podhold.NeedsAdmission(p, protected) {
		admission = g.cluster.Admission(ctx, p.Namespace, lost.APIUID())
	}
	verdict := podhold.Decide(p, protected, admission)
	if verdict == podhold.Held {
		return g.hold(lost)
	}
	g.log.V(1).Info("Pod ended", "pod", p.NamespacedName, "uid", p.UID, "verdict", verdict)
	return g.drop(lost)
}

// hold holds a pod, unless it is no longer as it was decided on. It reports whether the kubelet still sees a pod of that name.
func (g *Guard) hold(lost podhold.Entry) (seen bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e, ok := g.pods.view.Get(lost.Pod.NamespacedName)
	if !ok || e.IsHeld() || !isSame(e, lost) {
		return ok
	}
	g.pods.view.Hold(e.Pod.NamespacedName, g.clock.Now(), g.running())
	delete(g.attempts, e.Pod.UID)
	g.metrics.held.Inc()
	g.translate()
	g.persist(e.Pod.NamespacedName)
	g.log.Info("Holding pod: the API server lost it", "pod", e.Pod.NamespacedName, "uid", e.Pod.UID)
	g.lost.Add(e.Pod.NamespacedName)
	return true
}

// drop removes a pod, unless it is no longer as it was decided on. It reports whether the kubelet still sees a pod of that name.
func (g *Guard) drop(lost podhold.Entry) (seen bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e, ok := g.pods.view.Get(lost.Pod.NamespacedName)
	if !ok || !isSame(e, lost) {
		return ok
	}
	g.remove(e.Pod)
	return false
}

// isSame reports whether a name still has the pod that was decided on. It does not if another pod has the name, or if the pod was registered again:
// a decision on its earlier UID says nothing about it.
func isSame(now, decided podhold.Entry) bool {
	return now.Pod.UID == decided.Pod.UID && now.APIUID() == decided.APIUID()
}

// remove removes a pod from what the guard knows. The caller holds the lock, and knows that the view has this pod by its name.
func (g *Guard) remove(p podhold.Pod) {
	g.pods.view.Drop(p.NamespacedName)
	delete(g.pods.objects, p.UID)
	delete(g.attempts, p.UID)
	g.translate()
	if err := g.store.drop(p.UID); err != nil {
		g.log.Error(err, "Failed to remove stored pod", "pod", p.NamespacedName)
	}
}

func (g *Guard) entry(name types.NamespacedName) (podhold.Entry, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pods.view.Get(name)
}

// persist stores a pod of the view. The caller holds the lock.
func (g *Guard) persist(name types.NamespacedName) {
	e, ok := g.pods.view.Get(name)
	if !ok {
		return
	}
	if err := g.store.save(e, g.pods.objects[e.Pod.UID]); err != nil {
		g.log.Error(err, "Failed to store pod: a restart of the guard would forget it", "pod", name)
	}
}

// observe records a pod that the API server has. It returns how the kubelet sees it, and whether it does.
func (g *Guard) observe(ctx context.Context, p podhold.Pod, object encoded) (seen encoded, change podhold.Change, err error) {
	if p.Node != g.node { // rule N9
		g.log.Error(nil, "Hiding a pod of another node from the kubelet", "pod", p.NamespacedName, "podNode", p.Node, "node", g.node)
		return encoded{}, podhold.Hide, nil
	}
	for range 2 {
		g.mu.Lock()
		change = g.pods.view.Observe(p)
		if change != podhold.Lose {
			defer g.mu.Unlock()
			g.recordHidden(p, change)
			return g.show(p, object, change), change, nil
		}
		earlier, _ := g.pods.view.Get(p.NamespacedName)
		g.mu.Unlock()
		g.decideLost(ctx, earlier.Pod)
	}
	return encoded{}, podhold.Hide, fmt.Errorf("pod %s changed while it was decided on", p.NamespacedName)
}

// show returns a pod as the kubelet sees it after a change of the view, and stores that. The caller holds the lock.
func (g *Guard) show(p podhold.Pod, object encoded, change podhold.Change) encoded {
	e, ok := g.pods.view.Get(p.NamespacedName)
	if !ok || change == podhold.Hide {
		return encoded{}
	}
	if change == podhold.Register {
		g.translate()
		g.persist(p.NamespacedName)
		g.lost.Add(p.NamespacedName)
		return encoded{}
	}
	if e.Registered != "" {
		object.raw = g.pods.toKubelet.Replace(object.raw)
	}
	if p.Started || !e.Pod.Started { // a registration whose status was not reported yet is not what to register the next time
		g.pods.objects[e.Pod.UID] = object
		g.persist(p.NamespacedName)
	}
	return object
}

// decideList decides on the pods that the kubelet sees and a list of the node's pods does not have. It returns the list and its pods.
func (g *Guard) decideList(ctx context.Context, f podwire.Format, body []byte) (*podwire.List, []podhold.Pod, error) {
	list, err := podwire.ParseList(f, body)
	if err != nil {
		return nil, nil, err
	}
	var pods []podhold.Pod
	listed := map[types.UID]bool{}
	for _, item := range list.Items() {
		pod, err := podwire.Decode(f, item)
		if err != nil {
			return nil, nil, err
		}
		pods, listed[pod.UID] = append(pods, podhold.PodOf(pod)), true
	}
	g.decideMissing(ctx, listed)
	return list, pods, nil
}

// observeList edits a list of the node's pods.
func (g *Guard) observeList(ctx context.Context, f podwire.Format, body []byte) ([]byte, error) {
	ends := g.endsSoFar()
	list, pods, err := g.decideList(ctx, f, body)
	if err != nil {
		return nil, err
	}
	var items [][]byte
	for i, item := range list.Items() {
		seen, change, err := g.observe(ctx, pods[i], encoded{f, item})
		if err != nil {
			return nil, err
		}
		if change == podhold.Show {
			items = append(items, seen.raw)
		}
	}
	held, err := g.heldObjects(f)
	if err != nil {
		return nil, err
	}
	g.recordListed(ends)
	return list.WithItems(append(items, held...))
}

// decideMissing decides on the pods that the kubelet sees and a complete list does not have.
func (g *Guard) decideMissing(ctx context.Context, listed map[types.UID]bool) {
	g.mu.Lock()
	missing := g.pods.view.Missing(listed)
	g.mu.Unlock()
	var deciding sync.WaitGroup
	slots := make(chan struct{}, parallelRequests)
	for _, p := range missing {
		slots <- struct{}{}
		deciding.Go(func() {
			defer func() { <-slots }()
			g.decideLost(ctx, p)
		})
	}
	deciding.Wait()
}

// heldObjects returns the held pods, encoded.
func (g *Guard) heldObjects(f podwire.Format) ([][]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.encodeHeld(f)
}

// encodeHeld is heldObjects of a caller who holds the lock.
func (g *Guard) encodeHeld(f podwire.Format) ([][]byte, error) {
	var all [][]byte
	for _, e := range g.pods.view.Held() {
		raw, err := g.pods.objects[e.Pod.UID].in(f)
		if err != nil {
			return nil, err
		}
		all = append(all, raw)
	}
	return all, nil
}

// parallelRequests limits the requests that the guard itself makes at a time.
const parallelRequests = 8

// admissionTimeout limits how long a watch waits for the decision on a pod. After it the pod is held, and asked about again later.
const admissionTimeout = 5 * time.Second

// begin records that a held pod is being registered under a UID, so that the kubelet's requests for it are translated from now on. It reports
// whether the pod is still held.
func (g *Guard) begin(held podhold.Pod, uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.holds(held) {
		return false
	}
	g.pods.view.Begin(held.NamespacedName, uid)
	if last, ok := g.attempts[held.UID]; ok {
		last.unregistrable = false
		g.attempts[held.UID] = last
	}
	g.translate()
	g.persist(held.NamespacedName)
	return true
}

// holds reports whether a pod is held. The caller holds the lock.
func (g *Guard) holds(p podhold.Pod) bool {
	e, ok := g.pods.view.Get(p.NamespacedName)
	return ok && e.IsHeld() && e.Pod.UID == p.UID
}

// explain records why a held pod is not registered, and returns when to try again.
func (g *Guard) explain(held podhold.Pod, err error) (retryAfter time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.holds(held) {
		return 0 // also if the name has another held pod: that one was not tried
	}
	last, now := g.attempts[held.UID], attempt{reason: err.Error(), unregistrable: errors.Is(err, errNotSound), failures: 1}
	if last.unregistrable == now.unregistrable {
		now.failures += last.failures
	}
	g.attempts[held.UID] = now
	if last.reason != now.reason {
		g.log.Info("Failed to register pod again, retrying", "pod", held.NamespacedName, "reason", now.reason)
	}
	return podhold.RetryAfter(now.failures, now.unregistrable)
}

// complete records that the registration of a held pod is complete. It reports whether the pod still had that registration.
func (g *Guard) complete(name types.NamespacedName, uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.pods.view.Complete(name, uid) {
		return false
	}
	e, _ := g.pods.view.Get(name)
	delete(g.attempts, e.Pod.UID)
	g.translate()
	g.persist(name)
	g.metrics.registered.Inc()
	g.log.Info("Registered pod again", "pod", name, "registeredUID", uid)
	return true
}

// present records that the API server has a held pod itself, under a UID.
func (g *Guard) present(held podhold.Pod, uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.holds(held) {
		return
	}
	g.pods.view.Begin(held.NamespacedName, uid)
	g.pods.view.Complete(held.NamespacedName, uid)
	delete(g.attempts, held.UID)
	g.translate()
	g.persist(held.NamespacedName)
	g.log.Info("Found held pod in the API server", "pod", held.NamespacedName, "uid", uid)
}

// lastState returns the last state of a pod that the kubelet saw.
func (g *Guard) lastState(uid types.UID) (*corev1.Pod, error) {
	g.mu.Lock()
	object, ok := g.pods.objects[uid]
	g.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("the last state of the pod with UID %s is not known", uid)
	}
	return podwire.Decode(object.format, object.raw)
}
