package sharder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// simulatedCluster is a simulated cluster with shards, in which other clients act at each step of the sharder. It is used by one goroutine.
type simulatedCluster struct {
	*rand.Rand
	clock time.Time
	ring  *v1alpha1.ClusterRing
	// onlyShardsAct means that only shards act.
	onlyShardsAct bool
	// linger is how long passes stay whole after an event.
	linger time.Duration

	widgets, nodes, parts *resource
	objects               map[id]*simulatedObject
	version               int
	members               map[string]*simulatedShard
	known                 struct {
		names  string
		shards *ring.Shards
	}
	chosen map[string]bool
	// rechosen is when chosen last changed.
	rechosen time.Time
	// hasWebhook is true if admission assigns objects.
	hasWebhook bool
	// beforeWrite is called before the sharder's next write; it may be nil.
	beforeWrite func()
	// rejectList makes the API server reject or change a list; it may be nil.
	rejectList func(*metav1.PartialObjectMetadataList, metav1.ListOptions) error
	// metrics are those of the last Passes.
	metrics *prometheus.Registry
	// read is how many objects lists have returned to the sharder.
	read int
	// peak is the maximum number of objects that were moving at once.
	peak       int
	violations []string
	log        []string
}

// simulatedObject is an object, with the shards that it was ever with.
type simulatedObject struct {
	object
	formerShards map[string]bool
	// drainedSince is since when its shard has been asked to release it.
	drainedSince time.Time
}

// simulatedShard is a shard: its real state, and the state that the roll shows, which lags.
type simulatedShard struct {
	works, hangs bool
	// joined is when the shard started to work. died is when the roll showed it as dead.
	joined, died time.Time
	holder       int
	state        v1alpha1.ShardState
	// until is when the roll shows the next state.
	until time.Time
}

const ringName = "r"

func newSimulatedCluster(seed uint64) *simulatedCluster {
	w := &simulatedCluster{
		Rand: rand.New(rand.NewPCG(seed, 1)), clock: time.Unix(1_000_000, 0), objects: map[id]*simulatedObject{}, members: map[string]*simulatedShard{},
		chosen: map[string]bool{"in": true, "also-in": true, "out": false}, hasWebhook: true,
		linger: time.Minute,
	}
	w.widgets = &resource{GroupResource: v1alpha1.GroupResource{Group: "x.io", Resource: "widgets"}, version: "v1", kind: "Widget", namespaced: true}
	w.nodes = &resource{GroupResource: v1alpha1.GroupResource{Group: "x.io", Resource: "nodes"}, version: "v1", kind: "Node"}
	w.parts = &resource{
		GroupResource: v1alpha1.GroupResource{Group: "x.io", Resource: "parts"}, version: "v1", kind: "Part", namespaced: true,
		mains: []*resource{w.widgets, w.nodes}, hasAllMains: true,
	}
	w.ring = &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: ringName, UID: "ring", Generation: 1}}
	w.ring.Spec = v1alpha1.ClusterRingSpec{
		Resources: []v1alpha1.RingResource{
			{GroupResource: w.widgets.GroupResource, ControlledResources: []v1alpha1.GroupResource{w.parts.GroupResource}},
			{GroupResource: w.nodes.GroupResource, ControlledResources: []v1alpha1.GroupResource{w.parts.GroupResource}},
		},
		NamespaceSelector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"in": "true"}}, TokensPerShard: 20,
		LeaseDurationSeconds: 10, DrainTimeoutSeconds: 30, ResyncPeriodSeconds: 60, MaxConcurrentMoves: 5,
	}
	return w
}

func (w *simulatedCluster) fail(format string, arguments ...any) {
	w.violations = append(w.violations, fmt.Sprintf(format, arguments...))
	w.logf("WRONG: "+format, arguments...)
}

func (w *simulatedCluster) logf(format string, arguments ...any) {
	w.log = append(w.log, fmt.Sprintf("%6.2fs ", w.clock.Sub(time.Unix(1_000_000, 0)).Seconds())+fmt.Sprintf(format, arguments...))
}

func (w *simulatedCluster) chance(percent int) bool { return w.IntN(100) < percent }

func (w *simulatedCluster) placement(t *simulatedObject) ring.Placement {
	return ring.PlacementOf(ringName, t.Labels)
}

// setPlacement sets the labels of an object, as the API server does on a write.
func (w *simulatedCluster) setPlacement(t *simulatedObject, shard string, draining bool) {
	w.version++
	before := w.placement(t)
	t.ResourceVersion = fmt.Sprint(w.version)
	t.Labels = map[string]string{}
	if shard != "" {
		t.Labels[v1alpha1.LabelShard(ringName)] = shard
		t.formerShards[shard] = true
	}
	if draining {
		if !before.Draining || before.Shard != shard {
			t.drainedSince = w.clock
		}
		t.Labels[v1alpha1.LabelDrain(ringName)] = "true"
	}
}

func (w *simulatedCluster) isMember(namespace string) bool {
	return namespace == "" || w.chosen[namespace]
}

// actualShards returns the shards as a webhook replica sees them whose roll does not lag.
func (w *simulatedCluster) actualShards() *ring.Shards {
	states := map[string]v1alpha1.ShardState{}
	for name, m := range w.members {
		if m.works || ring.IsAvailable(m.state) {
			states[name] = v1alpha1.ShardReady
		}
	}
	return ring.NewShards(states, int(w.ring.Spec.TokensPerShard))
}

// load returns the load of shards, as the webhook counts it.
func (w *simulatedCluster) load(shards *ring.Shards) ring.Load {
	load, all := ring.Load{Of: map[string]int64{}}, int64(0)
	for key, t := range w.objects {
		if key.Resource == "parts" || !w.isMember(key.namespace) {
			continue
		}
		all++
		if at := w.placement(t).Shard; shards.IsAvailable(at) {
			load.Of[at]++
		}
	}
	load.Limit = ring.Limit(all, len(shards.Shards()), w.ring.Spec.MaxLoadPercent)
	return load
}

// admit plays the webhook, if there is one.
func (w *simulatedCluster) admit(key id, t *simulatedObject, had ring.Placement) {
	shard := ""
	if w.hasWebhook && !w.chance(5) && w.isMember(key.namespace) {
		shards := w.actualShards()
		if key.Resource != "parts" {
			main := w.resource(key.Resource)
			shard, _ = shards.Admit(had, ring.Placement{Released: had.Draining}, ring.KeyOf(w.ring.Spec.KeyPolicy, main.GroupResource, &t.object), w.load(shards))
		} else if owner := w.controller(t); owner != nil && shards.IsAvailable(w.placement(owner).Shard) {
			shard = w.placement(owner).Shard
		}
	}
	w.setPlacement(t, shard, false)
}

func (w *simulatedCluster) resource(name string) *resource {
	return map[string]*resource{"widgets": w.widgets, "nodes": w.nodes, "parts": w.parts}[name]
}

func (w *simulatedCluster) controller(t *simulatedObject) *simulatedObject {
	owner := metav1.GetControllerOfNoCopy(&t.object)
	if owner == nil {
		return nil
	}
	main, key := w.parts.controller(&t.object, owner)
	if c := w.objects[key]; main != nil && c != nil && c.UID == owner.UID {
		return c
	}
	return nil
}

// create creates an object. A part gets a random controller, none, or one that does not exist.
func (w *simulatedCluster) create(r *resource, namespace, name string) {
	w.version++
	t := &simulatedObject{formerShards: map[string]bool{}}
	t.Name, t.Namespace, t.UID = name, namespace, types.UID(fmt.Sprint(w.version))
	key := idOf(r, &t.object)
	if w.objects[key] != nil {
		return
	}
	if r != w.parts && w.chance(20) && w.ring.Spec.MaxLoadPercent == nil { // objects that belong together have no bound
		t.Annotations = map[string]string{v1alpha1.AnnotationShardingKey: fmt.Sprint("key-", w.IntN(20))}
	}
	if r == w.parts && !w.chance(10) {
		var owners []id
		for key := range w.objects {
			if key.Resource == "nodes" || key.Resource == "widgets" && key.namespace == namespace {
				owners = append(owners, key)
			}
		}
		slices.SortFunc(owners, compareIDs)
		owner := id{w.widgets.GroupResource, namespace, "none"}
		uid := types.UID("none")
		if len(owners) > 0 && !w.chance(5) {
			owner = owners[w.IntN(len(owners))]
			uid = w.objects[owner].UID
		}
		t.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "x.io/v2", Kind: w.resource(owner.Resource).kind, Name: owner.name, UID: uid, Controller: ptr.To(true),
		}}
	}
	w.objects[key] = t
	w.admit(key, t, ring.Placement{})
	w.logf("created %s with placement %+v", key, w.placement(t))
}

func compareIDs(a, b id) int {
	return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

func (w *simulatedCluster) ids() []id { return slices.SortedFunc(maps.Keys(w.objects), compareIDs) }

func (w *simulatedCluster) shardNames() []string { return slices.Sorted(maps.Keys(w.members)) }

// join starts a shard; the roll shows it a little later.
func (w *simulatedCluster) join(name string) {
	m := w.members[name]
	if m == nil {
		m = &simulatedShard{}
		w.members[name] = m
	}
	if m.works || ring.IsAvailable(m.state) {
		return
	}
	*m = simulatedShard{works: true, joined: w.clock, hangs: w.chance(10), holder: m.holder + 1, state: m.state, died: m.died, until: w.clock.Add(time.Duration(w.IntN(500)) * time.Millisecond)}
	w.logf("shard %s joins, and hangs: %t", name, m.hangs)
}

// stop ends a shard, which releases its Lease or only stops renewing it.
func (w *simulatedCluster) stop(name string) {
	m := w.members[name]
	if m == nil || !m.works || m.state == "" {
		return
	}
	m.works = false
	if w.chance(50) {
		m.state, m.died = v1alpha1.ShardDead, w.clock
	} else {
		m.state, m.until = v1alpha1.ShardExpired, w.clock.Add(10*time.Second)
	}
	w.logf("shard %s stops: %s", name, m.state)
}

// tick lets other clients act.
func (w *simulatedCluster) tick() {
	for _, name := range w.shardNames() {
		w.roll(name, w.members[name])
		w.acknowledge(name)
	}
	if w.onlyShardsAct {
		return
	}
	ids := w.ids()
	namespace := []string{"in", "also-in", "out"}[w.IntN(3)]
	switch w.IntN(40) {
	case 0:
		w.create(w.widgets, namespace, fmt.Sprint("w-", w.IntN(40)))
	case 1:
		w.create(w.nodes, "", fmt.Sprint("n-", w.IntN(10)))
	case 2:
		w.create(w.parts, namespace, fmt.Sprint("p-", w.IntN(40)))
	case 3:
		if len(ids) > 0 {
			delete(w.objects, ids[w.IntN(len(ids))])
		}
	case 4: // a client writes another field
		if len(ids) > 0 {
			t := w.objects[ids[w.IntN(len(ids))]]
			at := w.placement(t)
			w.setPlacement(t, at.Shard, at.Draining)
		}
	case 5: // a client requests a drain that the sharder does not want
		if len(ids) > 0 {
			if t := w.objects[ids[w.IntN(len(ids))]]; w.chance(20) {
				w.setPlacement(t, w.placement(t).Shard, true)
			}
		}
	case 6:
		if w.chance(20) {
			w.join(fmt.Sprint("s-", w.IntN(5)))
		}
	case 7:
		if w.chance(20) {
			w.stop(fmt.Sprint("s-", w.IntN(5)))
		}
	case 8:
		if w.chance(10) {
			w.chosen[namespace], w.rechosen = !w.chosen[namespace], w.clock
			w.logf("namespace %s is in the ring: %t", namespace, w.chosen[namespace])
		}
	case 9:
		if w.chance(10) {
			w.ring = w.ring.DeepCopy()
			w.ring.Generation++
			w.ring.Spec.TokensPerShard = int32(10 + w.IntN(3))
			w.logf("the ring changes")
		}
	case 10:
		w.hasWebhook = !w.chance(30)
	}
}

// roll makes the roll show the next state of a shard.
func (w *simulatedCluster) roll(name string, m *simulatedShard) {
	if w.clock.Before(m.until) {
		return
	}
	switch {
	case m.works && (m.state == "" || m.state == v1alpha1.ShardDead):
		m.state = v1alpha1.ShardReady
		w.logf("the registry shows shard %s", name)
	case m.state == v1alpha1.ShardExpired:
		m.state, m.until = v1alpha1.ShardUncertain, w.clock.Add(10*time.Second)
	case m.state == v1alpha1.ShardUncertain:
		m.state, m.works, m.died = v1alpha1.ShardDead, false, w.clock
		w.logf("shard %s is dead", name)
	}
}

// acknowledge makes a shard release the objects that it was asked to release.
func (w *simulatedCluster) acknowledge(name string) {
	m := w.members[name]
	if !m.works || m.hangs || w.draining() == 0 {
		return
	}
	for _, key := range w.ids() {
		t := w.objects[key]
		if had := w.placement(t); had == (ring.Placement{Shard: name, Draining: true}) && key.Resource != "parts" && w.chance(30) {
			w.admit(key, t, had)
			w.logf("%s releases %s, now with placement %+v", name, key, w.placement(t))
		}
	}
}

// The following methods implement the world that Passes uses.

func (w *simulatedCluster) now() time.Time { return w.clock }

func (w *simulatedCluster) wait(ctx context.Context, duration time.Duration) error {
	w.clock = w.clock.Add(duration)
	w.tick()
	return ctx.Err()
}

func (w *simulatedCluster) list(_ context.Context, res *resource, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	w.clock = w.clock.Add(5 * time.Millisecond)
	w.tick()
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, err
	}
	if options.Continue != "" && !w.onlyShardsAct && w.chance(5) {
		expired := apierrors.NewResourceExpired("too old")
		if w.chance(50) {
			expired.ErrStatus.Continue = options.Continue
		}
		return nil, expired
	}
	if !w.onlyShardsAct && w.chance(1) {
		return nil, apierrors.NewServiceUnavailable("not now")
	}
	list := &metav1.PartialObjectMetadataList{}
	for _, i := range w.ids() {
		t := w.objects[i]
		if i.GroupResource != res.GroupResource || !selector.Matches(labels.Set(t.Labels)) || i.namespace+"/"+i.name <= options.Continue {
			continue
		}
		if int64(len(list.Items)) == options.Limit {
			last := list.Items[len(list.Items)-1]
			list.Continue = last.Namespace + "/" + last.Name
			if selector.Empty() {
				list.RemainingItemCount = ptr.To(w.after(res, list.Continue))
			}
			break
		}
		w.read++
		list.Items = append(list.Items, *t.DeepCopy())
	}
	if w.rejectList != nil {
		err = w.rejectList(list, options)
	}
	return list, err
}

// after returns how many objects of a resource follow a given one in a list.
func (w *simulatedCluster) after(res *resource, last string) (n int64) {
	for i := range w.objects {
		if i.GroupResource == res.GroupResource && i.namespace+"/"+i.name > last {
			n++
		}
	}
	return n
}

func (w *simulatedCluster) get(_ context.Context, res *resource, namespace, name string) (*object, error) {
	w.tick()
	t := w.objects[id{res.GroupResource, namespace, name}]
	if t == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, name)
	}
	return t.DeepCopy(), nil
}

func (w *simulatedCluster) label(_ context.Context, res *resource, o *object, changes map[string]any) (*object, error) {
	w.clock = w.clock.Add(time.Millisecond)
	w.tick()
	if w.beforeWrite != nil {
		w.beforeWrite()
	}
	t := w.objects[idOf(res, o)]
	switch {
	case t == nil:
		return nil, apierrors.NewNotFound(schema.GroupResource{}, o.Name)
	case t.ResourceVersion != o.ResourceVersion:
		return nil, apierrors.NewConflict(schema.GroupResource{}, o.Name, errors.New("changed"))
	case !w.onlyShardsAct && w.chance(2):
		return nil, apierrors.NewInvalid(schema.GroupKind{}, o.Name, nil)
	}
	before := w.placement(t)
	after := maps.Clone(t.Labels)
	if after == nil {
		after = map[string]string{}
	}
	for key, value := range changes {
		if value == nil {
			delete(after, key)
		} else {
			after[key] = value.(string)
		}
	}
	now := ring.PlacementOf(ringName, after)
	w.checkInvariants(idOf(res, o), t, before, now)
	w.setPlacement(t, now.Shard, now.Draining)
	w.logf("the sharder moves %s from %+v to %+v", idOf(res, o), before, now)
	w.peak = max(w.peak, w.draining())
	return t.DeepCopy(), nil
}

// checkInvariants checks the invariants.
func (w *simulatedCluster) checkInvariants(key id, t *simulatedObject, before, now ring.Placement) {
	if m := w.members[now.Shard]; now.Shard != before.Shard && m != nil && m.state == v1alpha1.ShardDead && w.clock.Sub(m.died) > time.Second {
		w.fail("%s is assigned to the dead shard %s", key, now.Shard)
	}
	settled := w.clock.Sub(w.rechosen) > time.Second
	if key.Resource == "parts" {
		if c := w.controller(t); settled && c != nil && w.placement(c).Shard == before.Shard && now.Shard != before.Shard &&
			w.members[before.Shard] != nil && w.members[before.Shard].works && (c.Namespace != "" || w.isMember(key.namespace)) {
			w.fail("%s is taken from shard %s of its owner", key, before.Shard)
		}
		if now.Draining {
			w.fail("dependent %s is drained", key)
		}
		if c := w.controller(t); now.Shard != "" && c != nil && !c.formerShards[now.Shard] {
			w.fail("%s is assigned to %s, which never had its owner", key, now.Shard)
		}
		return
	}
	if (now == ring.Placement{}) && w.isMember(key.namespace) && settled {
		w.fail("%s is removed from the ring, to which it belongs", key)
	}
	// A shard that comes back does not start to work on objects that it was asked to release before.
	if m := w.members[before.Shard]; m != nil && m.works && now.Shard != before.Shard && (!before.Draining || !t.drainedSince.Before(m.joined)) {
		w.fail("%s is taken from the working shard %s and assigned to %q", key, before.Shard, now.Shard)
	}
}

func (w *simulatedCluster) draining() int {
	n := 0
	for _, t := range w.objects {
		if at := w.placement(t); at.Draining && at.Shard != "" {
			n++
		}
	}
	return n
}

func (w *simulatedCluster) namespaceLabels(namespace string) labels.Set {
	return labels.Set{"in": fmt.Sprint(w.chosen[namespace])}
}

// simulatedRegistry is the roll of a world.
type simulatedRegistry struct{ *simulatedCluster }

func (r simulatedRegistry) HasSynced() bool { return true }

func (r simulatedRegistry) Of(*v1alpha1.ClusterRing) []v1alpha1.RingMember {
	var all []v1alpha1.RingMember
	for _, name := range r.shardNames() {
		if m := r.members[name]; m.state != "" {
			all = append(all, v1alpha1.RingMember{Name: name, State: m.state})
		}
	}
	return all
}

func (r simulatedRegistry) Shards(clusterRing *v1alpha1.ClusterRing) *ring.Shards {
	states, names := map[string]v1alpha1.ShardState{}, []string{fmt.Sprint(clusterRing.Spec.TokensPerShard)}
	for _, m := range r.Of(clusterRing) {
		if ring.IsAvailable(m.State) {
			states[m.Name] = m.State
			names = append(names, m.Name)
		}
	}
	if all := strings.Join(names, " "); r.known.shards == nil || r.known.names != all {
		r.known.names, r.known.shards = all, ring.NewShards(states, int(clusterRing.Spec.TokensPerShard))
	}
	return r.known.shards
}

func (r simulatedRegistry) Holder(_ *v1alpha1.ClusterRing, shard string) string {
	if m := r.members[shard]; m != nil {
		return fmt.Sprint(shard, "_", m.holder)
	}
	return ""
}

func (r simulatedRegistry) IsGone(_ context.Context, _ *v1alpha1.ClusterRing, shard string) (bool, error) {
	m := r.members[shard]
	return m == nil || !m.works && !ring.IsAvailable(m.state), nil
}

func (r simulatedRegistry) Revoke(_ context.Context, _ *v1alpha1.ClusterRing, shard string) error {
	m := r.members[shard]
	if m.state != v1alpha1.ShardReady {
		r.fail("shard %s is revoked in state %s", shard, m.state)
	}
	m.state, m.until = v1alpha1.ShardUncertain, r.clock.Add(20*time.Second)
	r.logf("shard %s is revoked", shard)
	return nil
}

// simulatedNamespaces is the namespaces of a world; its cached labels may be wrong.
type simulatedNamespaces struct{ *simulatedCluster }

func (a simulatedNamespaces) labels(_ context.Context, namespace string, certain bool) (labels.Set, bool, error) {
	if !certain && !a.onlyShardsAct && a.chance(5) {
		return nil, false, nil
	}
	return a.namespaceLabels(namespace), true, nil
}

func (r simulatedRegistry) Forget(string) {}
