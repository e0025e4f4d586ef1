package sharder

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// setPlacement puts labels of the ring on an object, as a user would.
func (l *fixture) setPlacement(o client.Object, placement ring.Placement) {
	l.Helper()
	before := o.DeepCopyObject().(client.Object)
	all := map[string]string{v1alpha1.LabelShard(l.ring.Name): placement.Shard}
	if placement.Draining {
		all[v1alpha1.LabelDrain(l.ring.Name)] = "true"
	}
	o.SetLabels(all)
	l.must(l.Patch(l.Context(), o, client.MergeFrom(before)))
}

func TestObjectsOfDeadShardAreReassigned(t *testing.T) {
	l := newFixture(t)
	objects, controlled := l.createObjects(20)
	leaving := l.createConfigMap("leaving", func(o *corev1.ConfigMap) { o.Finalizers = []string{"example.com/hold"} })
	s := l.start()
	b := l.startShard("b")
	l.waitUntilBalanced(21)
	b.hangs.Store(true)
	l.startShard("a")
	l.eventually("some objects drain", func() string {
		if where := l.countByShard(); where["drain"] == 0 {
			return fmt.Sprint("got objects at ", where)
		}
		return ""
	})
	l.must(l.Delete(t.Context(), leaving))
	b.kill()
	l.waitForStatus("the shard is late", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Shards != 2 || s.AvailableShards != 2 || s.Members[1].State == v1alpha1.ShardReady {
			return fmt.Sprintf("got shards %+v", s.Members)
		}
		return ""
	})
	if where := l.countByShard(); where["b"] == 0 {
		t.Errorf("late shard lost its objects: %v", where)
	}
	l.eventually("the other shard has all objects", func() string {
		if where := l.countByShard(); where["a"] != 21 || where["drain"] != 0 {
			return fmt.Sprint("got objects at ", where)
		}
		return ""
	})
	l.waitForControlled(objects, controlled)
	l.waitForPlacement(leaving, ring.Placement{Shard: "a"})
	l.waitForEvent("Normal ShardGone", "Shard b has stopped")
	l.waitForStatus("the status reports it", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Shards != 2 || s.AvailableShards != 1 || s.Members[0].Assigned != 21 || s.Members[1].State != v1alpha1.ShardDead {
			return fmt.Sprintf("got shards %+v", s.Members)
		}
		return hasCondition(v1alpha1.ConditionShardsAvailable, metav1.ConditionTrue, v1alpha1.ReasonShardsReady, "1 of 2")(s)
	})
	if n := s.metric(l, "breakwater_ring_assignments_total", causeGone); n == 0 {
		t.Error("metric does not report the dead shard")
	}
	if n := s.metric(l, "breakwater_ring_shards", string(v1alpha1.ShardDead)); n != 1 {
		t.Errorf("metric shows %v dead shards", n)
	}
	leaving.Finalizers = nil
	l.must(l.Update(t.Context(), leaving))
}

func TestNextPassAssignsObjectsMissedByWebhook(t *testing.T) {
	l := newFixture(t, func(s *v1alpha1.ClusterRingSpec) { s.ResyncPeriodSeconds = 10 })
	l.start()
	l.startShard("a")
	l.waitUntilBalanced(0)
	l.webhookFails.Store(true)
	missed := l.createConfigMap("missed")
	controlled := l.createSecret("controlled", missed)
	l.waitForPlacement(missed, ring.Placement{})
	l.waitUntilBalanced(1)
	l.waitForPlacement(missed, ring.Placement{Shard: "a"})
	l.waitForPlacement(controlled, ring.Placement{Shard: "a"})

	kicked := l.createConfigMap("kicked")
	l.passRequests <- l.ring.Name
	l.waitForPlacement(kicked, ring.Placement{Shard: "a"})
}

// Continuous kicks do not cause continuous passes.
func TestContinuousRequestsDoNotCauseContinuousPasses(t *testing.T) {
	l := newFixture(t)
	s := l.start()
	l.startShard("a")
	l.waitUntilBalanced(0)
	before := s.metric(l, "breakwater_ring_passes_total")
	for range 200 {
		l.passRequests <- l.ring.Name
	}
	l.passRequests <- l.ring.Name
	l.eventually("there is another pass", func() string {
		if s.metric(l, "breakwater_ring_passes_total") == before {
			return "there was no other pass"
		}
		return ""
	})
	if n := s.metric(l, "breakwater_ring_passes_total") - before; n > 10 {
		t.Errorf("got %v passes", n)
	}
}

func TestObjectsWaitForShard(t *testing.T) {
	l := newFixture(t)
	objects, controlled := l.createObjects(5)
	l.setPlacement(objects[0], ring.Placement{Shard: "long-gone", Draining: true})
	l.start()
	l.waitForStatus("no shard is available", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Unassigned != 5 || s.Assigned != 0 || s.Shards != 0 {
			return fmt.Sprintf("got %d assigned and %d unassigned objects", s.Assigned, s.Unassigned)
		}
		if problem := hasCondition(v1alpha1.ConditionBalanced, metav1.ConditionFalse, v1alpha1.ReasonNoShards, "No shard is available for 5 objects.")(s); problem != "" {
			return problem
		}
		if problem := hasCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonConfigured)(s); problem != "" {
			return problem
		}
		return hasCondition(v1alpha1.ConditionShardsAvailable, metav1.ConditionFalse, v1alpha1.ReasonNoShards, v1alpha1.LabelRing)(s)
	})
	l.waitForEvent("Warning NoShards")
	if at := l.placement(objects[0]); at.Shard != "long-gone" {
		t.Errorf("object has the placement %+v", at)
	}
	l.startShard("a")
	l.waitUntilBalanced(5)
	l.waitForControlled(objects, controlled)
}

func TestNamespaceLeavesAndRejoinsRing(t *testing.T) {
	l := newFixture(t)
	objects, controlled := l.createObjects(10)
	s := l.start()
	a := l.startShard("a")
	l.waitUntilBalanced(10)
	l.waitForControlled(objects, controlled)
	l.waitUntilIdle(s)
	a.hangs.Store(true)
	l.setInRing(l.namespace, false)
	l.eventually("the shard is asked to release its objects", func() string {
		if where := l.countByShard(); where["drain"] != 10 {
			return fmt.Sprint("got objects at ", where)
		}
		return ""
	})
	for name, o := range controlled {
		if at := l.placement(o); at != (ring.Placement{Shard: "a"}) {
			t.Errorf("dependent of %s has the placement %+v before its owner is released", name, at)
		}
	}
	a.hangs.Store(false)
	for _, o := range objects {
		l.waitForPlacement(o, ring.Placement{})
		l.waitForPlacement(controlled[o.Name], ring.Placement{})
	}
	l.waitUntilBalanced(0)
	if at := l.placement(l.createConfigMap("new")); at != (ring.Placement{}) {
		t.Errorf("new object has the placement %+v", at)
	}
	l.waitUntilIdle(s)
	l.setInRing(l.namespace, true)
	l.waitUntilBalanced(11)
	l.waitForControlled(objects, controlled)
}

func TestOrphanedDependentLeavesRing(t *testing.T) {
	l := newFixture(t)
	objects, controlled := l.createObjects(3)
	l.start()
	l.startShard("a")
	l.waitUntilBalanced(3)
	l.waitForControlled(objects, controlled)
	free := l.createSecret("free", nil)
	adopted := controlled[objects[0].Name]
	l.must(l.Get(t.Context(), client.ObjectKeyFromObject(adopted), adopted))
	adopted.OwnerReferences = nil
	l.must(l.Update(t.Context(), adopted))
	replaced := controlled[objects[1].Name]
	l.must(l.Delete(t.Context(), objects[1]))
	l.passRequests <- l.ring.Name
	l.waitForPlacement(adopted, ring.Placement{})
	// An object whose controller was deleted, or was recreated under the same name, is left to the garbage collector.
	l.createConfigMap(objects[1].Name)
	l.passRequests <- l.ring.Name
	l.waitUntilBalanced(3)
	for o, want := range map[*corev1.Secret]ring.Placement{free: {}, adopted: {}, replaced: {Shard: "a"}} {
		if at := l.placement(o); at != want {
			t.Errorf("%s has the placement %+v, want %+v", o.Name, at, want)
		}
	}
}

// An annotation assigns objects that belong together to one shard; their names would place them elsewhere.
func TestDependentsFollowOwnerPlacedByAnnotation(t *testing.T) {
	l := newFixture(t)
	l.start()
	for _, name := range []string{"a", "b", "c"} {
		l.startShard(name)
	}
	var objects []*corev1.ConfigMap
	controlled := map[string]*corev1.Secret{}
	for i := range 12 {
		o := l.createConfigMap(fmt.Sprint("c-", i), func(o *corev1.ConfigMap) {
			o.Annotations = map[string]string{v1alpha1.AnnotationShardingKey: "together"}
		})
		objects = append(objects, o)
		controlled[o.Name] = l.createSecret(fmt.Sprint("s-", i), o)
	}
	l.passRequests <- l.ring.Name
	l.waitUntilBalanced(12)
	l.waitForControlled(objects, controlled)
	want := l.placement(objects[0])
	for _, o := range objects {
		if at := l.placement(o); at != want {
			t.Errorf("%s has the placement %+v, but %s has %+v", o.Name, at, objects[0].Name, want)
		}
	}
	objects[0].Annotations[v1alpha1.AnnotationShardingKey] = "alone"
	for i := 0; ; i++ { // with another shard
		objects[0].Annotations[v1alpha1.AnnotationShardingKey] = fmt.Sprint("alone-", i)
		if shard, _ := l.roll.Load().Shards(l.ring).Owner(ring.KeyOf(l.ring.Spec.KeyPolicy, configMaps, objects[0])); shard != want.Shard {
			break
		}
	}
	l.must(l.Update(t.Context(), objects[0]))
	l.passRequests <- l.ring.Name
	l.eventually("the object moves", func() string {
		if at := l.placement(objects[0]); at.Shard == want.Shard || at.Draining {
			return fmt.Sprintf("object has the placement %+v", at)
		}
		return ""
	})
	l.waitForControlled(objects, controlled)
}

func TestObjectsAreReadInPages(t *testing.T) {
	l := newFixture(t)
	l.timing.page = 200
	const objects = 3000
	plans := make([]*corev1.ConfigMap, objects)
	for i := range plans {
		plans[i] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: fmt.Sprint("c-", i)}}
	}
	l.must(forEachParallel(t.Context(), 16, plans, func(ctx context.Context, o *corev1.ConfigMap) error { return l.Create(ctx, o) }))
	l.start()
	for _, name := range []string{"a", "b", "c"} {
		l.startShard(name)
	}
	now := l.waitUntilBalanced(objects)
	for _, member := range now.Status.Members {
		if member.Assigned < objects/5 {
			t.Errorf("shard %s has %d objects", member.Name, member.Assigned)
		}
	}
	if where := l.countByShard(); where["a"]+where["b"]+where["c"] != objects {
		t.Errorf("got objects at %v", where)
	}
}

func widgets(name string) (*apiextensionsv1.CustomResourceDefinition, v1alpha1.GroupResource) {
	gr := v1alpha1.GroupResource{Group: name + ".example.com", Resource: "widgets"}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: gr.Resource + "." + gr.Group}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: gr.Group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)},
		}}},
	}
	return crd, gr
}

// The API server does not call the webhook for the namespaces that a ring without a selector excludes, and no pass assigns their objects.
func TestRingWithoutSelectorExcludesSystemNamespaces(t *testing.T) {
	l := newFixture(t)
	crd, gr := widgets(l.namespace)
	l.rules = append(l.rules, resourceRules(gr)...)
	known := clusters.Scheme()
	l.must(apiextensionsv1.AddToScheme(known))
	admin, err := client.New(testplane.Config(t), client.Options{Scheme: known})
	l.must(err)
	l.must(admin.Create(t.Context(), crd))
	t.Cleanup(func() { _ = admin.Delete(newContext(), crd) })
	create := func(namespace, name string) *unstructured.Unstructured {
		widget := &unstructured.Unstructured{}
		widget.SetGroupVersionKind(schema.GroupVersionKind{Group: gr.Group, Version: "v1", Kind: "Widget"})
		widget.SetNamespace(namespace)
		widget.SetName(name)
		l.eventually("the object is created", func() string {
			if err := admin.Create(t.Context(), widget); err != nil {
				return err.Error()
			}
			return ""
		})
		return widget
	}
	of := func(widget *unstructured.Unstructured) ring.Placement {
		l.must(admin.Get(t.Context(), client.ObjectKeyFromObject(widget), widget))
		return ring.PlacementOf(l.ring.Name, widget.GetLabels())
	}
	before := create(metav1.NamespaceSystem, "before")
	l.edit(func(s *v1alpha1.ClusterRingSpec) {
		s.NamespaceSelector, s.Resources = nil, []v1alpha1.RingResource{{GroupResource: gr}}
	})
	l.start()
	l.startShard("a")
	create(l.namespace, "shared")
	l.waitUntilBalanced(1)
	after := create(metav1.NamespaceSystem, "after")
	l.passRequests <- l.ring.Name
	l.waitUntilBalanced(1)
	for _, widget := range []*unstructured.Unstructured{before, after} {
		if at := of(widget); at != (ring.Placement{}) {
			t.Errorf("object %s in kube-system has the placement %+v, want none", widget.GetName(), at)
		}
	}

	// The same ring includes them by an empty selector.
	l.edit(func(s *v1alpha1.ClusterRingSpec) { s.NamespaceSelector = &v1alpha1.PodSelector{} })
	l.waitUntilBalanced(3)
	if at := of(before); at != (ring.Placement{Shard: "a"}) {
		t.Errorf("object in kube-system has the placement %+v, want shard a", at)
	}

	// And excludes them again: it asks their shard to release them.
	l.edit(func(s *v1alpha1.ClusterRingSpec) { s.NamespaceSelector = nil })
	l.eventually("the shard is asked to release the objects in kube-system", func() string {
		if first, second, want := of(before), of(after), (ring.Placement{Shard: "a", Draining: true}); first != want || second != want {
			return fmt.Sprintf("placements %+v and %+v", first, second)
		}
		return ""
	})
}

func TestResourceServedLaterIsAssigned(t *testing.T) {
	l := newFixture(t)
	crd, gr := widgets(l.namespace)
	l.rules = append(l.rules, resourceRules(gr)...)
	l.edit(func(s *v1alpha1.ClusterRingSpec) {
		s.Resources = append(s.Resources, v1alpha1.RingResource{GroupResource: gr, ControlledResources: []v1alpha1.GroupResource{secrets}})
	})
	objects, controlled := l.createObjects(5)
	orphan := l.createSecret("orphan", nil)
	l.setPlacement(orphan, ring.Placement{Shard: "a"})
	l.start()
	l.startShard("a")
	l.waitForStatus("other resources are still assigned", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Assigned != 5 {
			return fmt.Sprint(s.Assigned)
		}
		return hasCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonResourceNotServed, "widgets."+gr.Group, "install")(s)
	})
	l.waitForControlled(objects, controlled)
	l.waitForEvent("Warning ResourceNotServed", "widgets."+gr.Group)
	// It may be controlled by a widget, which the sharder cannot read.
	if at := l.placement(orphan); at.Shard != "a" {
		t.Errorf("object whose controller may be of the unserved resource has the placement %+v", at)
	}

	known := clusters.Scheme()
	l.must(apiextensionsv1.AddToScheme(known))
	admin, err := client.New(testplane.Config(t), client.Options{Scheme: known})
	l.must(err)
	l.webhookFails.Store(true)
	l.must(admin.Create(t.Context(), crd))
	t.Cleanup(func() { _ = admin.Delete(newContext(), crd) })
	widget := &unstructured.Unstructured{}
	widget.SetGroupVersionKind(schema.GroupVersionKind{Group: gr.Group, Version: "v1", Kind: "Widget"})
	widget.SetNamespace(l.namespace)
	widget.SetName("first")
	l.eventually("the resource is served", func() string {
		if err := admin.Create(t.Context(), widget); err != nil {
			return err.Error()
		}
		return ""
	})
	l.waitForStatus("the sharder observes the resource", hasCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonConfigured))
	l.passRequests <- l.ring.Name // the last pass may have preceded the object
	l.waitUntilBalanced(6)
	l.must(admin.Get(t.Context(), client.ObjectKeyFromObject(widget), widget))
	if at := ring.PlacementOf(l.ring.Name, widget.GetLabels()); at != (ring.Placement{Shard: "a"}) {
		t.Errorf("object has the placement %+v", at)
	}
	l.waitForPlacement(orphan, ring.Placement{})

	// The CRD is deleted again.
	l.must(admin.Delete(t.Context(), crd))
	l.passRequests <- l.ring.Name
	l.waitForStatus("the resource is no longer served", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Assigned != 5 {
			return fmt.Sprint(s.Assigned)
		}
		return hasCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonResourceNotServed)(s)
	})
}

func TestMissingPermissionIsReportedWithRule(t *testing.T) {
	l := newFixture(t)
	l.rules = slices.Concat(l.rulesOfChart(), resourceRules(configMaps))
	objects, controlled := l.createObjects(5)
	l.start()
	l.startShard("a")
	l.waitForStatus("other resources are still assigned", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Assigned != 5 {
			return fmt.Sprint(s.Assigned)
		}
		return hasCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonResourceForbidden,
			"may not get nor list nor patch secrets", `{apiGroups: [""], resources: ["secrets"], verbs: [get, list, patch]}`)(s)
	})
	l.waitUntilBalanced(5)
	if at := l.placement(controlled[objects[0].Name]); at != (ring.Placement{}) {
		t.Errorf("object has the placement %+v", at)
	}
	l.grant(resourceRules(secrets))
	l.waitForStatus("the permission is granted", hasCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonConfigured))
	l.waitForControlled(objects, controlled)
}

// An object is written in the version that was read, or not at all.
func TestChangedObjectIsNotWritten(t *testing.T) {
	l := newFixture(t)
	o := l.createConfigMap("c")
	objects, err := metadata.NewForConfig(testplane.Config(t))
	l.must(err)
	c, res := cluster{objects}, &resource{GroupResource: configMaps, version: "v1"}
	read, err := c.get(t.Context(), res, o.Namespace, o.Name)
	l.must(err)
	o.Data = map[string]string{"a": "b"}
	l.must(l.Update(t.Context(), o))
	if _, err := c.label(t.Context(), res, read, map[string]any{"a": "b"}); !apierrors.IsConflict(err) {
		t.Errorf("label() of an outdated version = %v, want a conflict", err)
	}
	l.must(l.Delete(t.Context(), o))
	again := l.createConfigMap("c")
	if _, err := c.label(t.Context(), res, read, map[string]any{"a": "b"}); !apierrors.IsConflict(err) {
		t.Errorf("label() of an earlier object of the name = %v, want a conflict", err)
	}
	read, err = c.get(t.Context(), res, again.Namespace, again.Name)
	l.must(err)
	now, err := c.label(t.Context(), res, read, map[string]any{"a": "b", "c": nil})
	if err != nil || now.Labels["a"] != "b" || now.ResourceVersion == read.ResourceVersion {
		t.Errorf("label() of the current version = %v, %+v", err, now)
	}
}
