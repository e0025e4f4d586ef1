package sharder

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// shard is a shard that a test plays: it renews its Lease and releases objects when asked, unless it hangs.
type shard struct {
	*fixture
	name        string
	incarnation int
	works       atomic.Bool
	hangs       atomic.Bool
	end         context.CancelFunc
	ended       chan struct{}
	// keeps has the UID of an object that it does not release.
	keeps atomic.Pointer[types.UID]
	// releasing has the UIDs of objects that it was about to release.
	releasing map[types.UID]bool
}

// startShard starts a shard, or another incarnation of it.
func (l *fixture) startShard(name string) *shard {
	l.Helper()
	l.mu.Lock()
	s := l.shards[name]
	if s == nil {
		s = &shard{fixture: l, name: name, releasing: map[types.UID]bool{}}
		l.shards[name] = s
	}
	l.mu.Unlock()
	s.incarnation++
	l.must(s.lease(l.Context(), fmt.Sprintf("%s_%d", name, s.incarnation)))
	ctx, cancel := context.WithCancel(context.Background())
	s.end, s.ended = cancel, make(chan struct{})
	s.works.Store(true)
	go s.run(ctx)
	l.Cleanup(s.kill)
	return s
}

// lease sets the holder of its Lease, or renews it.
func (s *shard) lease(ctx context.Context, holder string) error {
	lease := &coordinationv1.Lease{}
	err := s.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.name}, lease)
	lease.Namespace, lease.Name = s.namespace, s.name
	lease.Labels = map[string]string{v1alpha1.LabelRing: s.ring.Name}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(s.ring.Spec.LeaseDurationSeconds), RenewTime: ptr.To(metav1.NowMicro()),
	}
	if apierrors.IsNotFound(err) {
		return s.Create(ctx, lease)
	}
	if err != nil {
		return err
	}
	return s.Update(ctx, lease)
}

func (s *shard) run(ctx context.Context) {
	defer close(s.ended)
	holder := fmt.Sprintf("%s_%d", s.name, s.incarnation)
	renewed := time.Now()
	for ctx.Err() == nil {
		if time.Since(renewed) > 300*time.Millisecond {
			lease := &coordinationv1.Lease{}
			if s.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.name}, lease) == nil {
				if *lease.Spec.HolderIdentity != holder {
					s.works.Store(false) // it was put out, or is late
					return
				}
				lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
				if s.Update(ctx, lease) == nil {
					renewed = time.Now()
				}
			}
		}
		if !s.hangs.Load() {
			s.acknowledge(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Millisecond):
		}
	}
}

// acknowledge releases the objects that the shard is asked to release.
func (s *shard) acknowledge(ctx context.Context) {
	asked := client.MatchingLabels{v1alpha1.LabelShard(s.ring.Name): s.name, v1alpha1.LabelDrain(s.ring.Name): "true"}
	maps, classes := &corev1.ConfigMapList{}, &networkingv1.IngressClassList{}
	if s.List(ctx, maps, asked) != nil || s.List(ctx, classes, asked) != nil {
		return
	}
	for i := range maps.Items {
		s.release(ctx, &maps.Items[i], maps.Items[i].DeepCopy())
	}
	for i := range classes.Items {
		s.release(ctx, &classes.Items[i], classes.Items[i].DeepCopy())
	}
}

func (s *shard) release(ctx context.Context, o, before client.Object) {
	if keeps := s.keeps.Load(); keeps != nil && *keeps == o.GetUID() {
		return
	}
	labels := o.GetLabels()
	delete(labels, v1alpha1.LabelShard(s.ring.Name))
	labels[v1alpha1.LabelDrain(s.ring.Name)] = v1alpha1.DrainAnswered
	o.SetLabels(labels)
	s.mu.Lock()
	s.releasing[o.GetUID()] = true
	s.mu.Unlock()
	_ = s.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// kill ends the shard without releasing its Lease.
func (s *shard) kill() {
	s.end()
	<-s.ended
	s.works.Store(false)
}

// leave ends the shard, and releases its Lease.
func (s *shard) leave() {
	s.Helper()
	s.kill()
	s.must(s.lease(s.Context(), ""))
}

// watchTransitions checks for a violation: an object is taken from a shard that works and has not released it.
func (l *fixture) watchTransitions() {
	l.Helper()
	objects, err := metadata.NewForConfig(testplane.Config(l))
	l.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	l.Cleanup(cancel)
	for _, gr := range []v1alpha1.GroupResource{configMaps, classes} {
		r := &resource{GroupResource: gr, version: "v1"}
		events, err := objects.Resource(r.versioned()).Namespace("").Watch(ctx, metav1.ListOptions{})
		l.must(err)
		go func() {
			last := map[types.UID]ring.Placement{}
			for event := range events.ResultChan() {
				if o, ok := event.Object.(*object); ok {
					l.checkTransition(r, o, last[o.UID])
					last[o.UID] = ring.PlacementOf(l.ring.Name, o.Labels)
				}
			}
		}()
	}
}

func (l *fixture) checkTransition(res *resource, o *object, before ring.Placement) {
	now := ring.PlacementOf(l.ring.Name, o.Labels)
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.shards[before.Shard]
	if s == nil || now.Shard == before.Shard {
		return
	}
	if s.works.Load() && !s.releasing[o.UID] {
		l.violations = append(l.violations, fmt.Sprintf("%s was taken from the working shard %+v, and has the placement %+v", idOf(res, o), before, now))
	}
	delete(s.releasing, o.UID)
}

// createConfigMap creates an object of the ring's resource.
func (l *fixture) createConfigMap(name string, change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	l.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	for _, c := range change {
		c(o)
	}
	l.must(l.Create(l.Context(), o))
	return o
}

// createClass creates a cluster-scoped object.
func (l *fixture) createClass(name string) *networkingv1.IngressClass {
	l.Helper()
	o := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "-" + name, Labels: map[string]string{l.label(): "true"}}}
	o.Spec.Controller = "example.com/none"
	l.must(l.Create(l.Context(), o))
	return o
}

// createSecret creates a controlled object.
func (l *fixture) createSecret(name string, owner *corev1.ConfigMap) *corev1.Secret {
	l.Helper()
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	if owner != nil {
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}}
	}
	l.must(l.Create(l.Context(), o))
	return o
}

// placement returns the current placement of an object.
func (l *fixture) placement(o client.Object) ring.Placement {
	l.Helper()
	l.must(l.Get(l.Context(), client.ObjectKeyFromObject(o), o))
	return ring.PlacementOf(l.ring.Name, o.GetLabels())
}

// waitForPlacement waits until an object has a placement.
func (l *fixture) waitForPlacement(o client.Object, want ring.Placement) {
	l.Helper()
	l.eventually(fmt.Sprintf("%T %s has the expected placement %+v", o, o.GetName(), want), func() string {
		if at := l.placement(o); at != want {
			return fmt.Sprintf("object has the placement %+v", at)
		}
		return ""
	})
}

// countByShard counts the ConfigMaps and IngressClasses of the lab by shard; draining objects are counted under "drain".
func (l *fixture) countByShard() map[string]int {
	l.Helper()
	all := map[string]int{}
	maps, classes := &corev1.ConfigMapList{}, &networkingv1.IngressClassList{}
	l.must(l.List(l.Context(), maps, client.InNamespace(l.namespace)))
	l.must(l.List(l.Context(), classes, client.MatchingLabels{l.label(): "true"}))
	count := func(labels map[string]string) {
		at := ring.PlacementOf(l.ring.Name, labels)
		all[at.Shard]++
		if at.Draining {
			all["drain"]++
		}
	}
	for i := range maps.Items {
		count(maps.Items[i].Labels)
	}
	for i := range classes.Items {
		count(classes.Items[i].Labels)
	}
	return all
}

// createObjects creates ConfigMaps, and for each a Secret that it controls.
func (l *fixture) createObjects(n int) (objects []*corev1.ConfigMap, controlled map[string]*corev1.Secret) {
	l.Helper()
	controlled = map[string]*corev1.Secret{}
	for i := range n {
		o := l.createConfigMap(fmt.Sprint("c-", i))
		objects = append(objects, o)
		controlled[o.Name] = l.createSecret(fmt.Sprint("s-", i), o)
	}
	return objects, controlled
}

// waitForControlled waits until each Secret is with the shard of its ConfigMap.
func (l *fixture) waitForControlled(objects []*corev1.ConfigMap, controlled map[string]*corev1.Secret) {
	l.Helper()
	l.eventually("dependents follow their owners", func() string {
		for _, o := range objects {
			if is, want := l.placement(controlled[o.Name]), l.placement(o); is.Shard != want.Shard || is.Draining {
				return fmt.Sprintf("dependent of %s (placement %+v) has the placement %+v", o.Name, want, is)
			}
		}
		return ""
	})
}

// waitUntilIdle waits until passes find nothing more to do.
func (l *fixture) waitUntilIdle(s *sharder) {
	l.Helper()
	last, same := -1.0, 0
	l.eventually("no more passes are due", func() string {
		now := s.metric(l, "breakwater_ring_passes_total")
		if same++; now != last {
			last, same = now, 0
		}
		if same < 40 {
			return fmt.Sprintf("got %v passes", now)
		}
		return ""
	})
}

// classes returns the lab's cluster-scoped objects.
func (l *fixture) classes() []*networkingv1.IngressClass {
	l.Helper()
	list := &networkingv1.IngressClassList{}
	l.must(l.List(l.Context(), list, client.MatchingLabels{l.label(): "true"}))
	all := make([]*networkingv1.IngressClass, 0, len(list.Items))
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

// newContext returns a context that outlives the test, for the cleanup.
func newContext() context.Context { return context.Background() }
