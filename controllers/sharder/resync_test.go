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
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// mark puts labels of the ring on an object, as a user would.
func (l *lab) mark(o client.Object, at ring.Placement) {
	l.Helper()
	before := o.DeepCopyObject().(client.Object)
	all := map[string]string{v1alpha1.LabelShard(l.ring.Name): at.Shard}
	if at.Draining {
		all[v1alpha1.LabelDrain(l.ring.Name)] = "true"
	}
	o.SetLabels(all)
	l.must(l.Patch(l.Context(), o, client.MergeFrom(before)))
}

func TestObjectsOfADeadShardGoToOthersWhateverTheyAreAt(t *testing.T) {
	l := newLab(t)
	objects, controlled := l.spread(20)
	leaving := l.configMap("leaving", func(o *corev1.ConfigMap) { o.Finalizers = []string{"example.com/hold"} })
	s := l.start()
	b := l.shard("b")
	l.balanced(21)
	b.hangs.Store(true)
	l.shard("a")
	l.eventually("some are asked for", func() string {
		if where := l.where(); where["drain"] == 0 {
			return fmt.Sprint("objects are at ", where)
		}
		return ""
	})
	l.must(l.Delete(t.Context(), leaving))
	b.kill()
	l.ready("it is late", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Shards != 2 || s.AvailableShards != 2 || s.Members[1].State == v1alpha1.ShardReady {
			return fmt.Sprintf("shards %+v", s.Members)
		}
		return ""
	})
	if where := l.where(); where["b"] == 0 {
		t.Errorf("a shard that is late has lost its objects: %v", where)
	}
	l.eventually("all are with the other one", func() string {
		if where := l.where(); where["a"] != 21 || where["drain"] != 0 {
			return fmt.Sprint("objects are at ", where)
		}
		return ""
	})
	l.followed(objects, controlled)
	l.at(leaving, ring.Placement{Shard: "a"})
	l.announced("Normal ShardGone", "Shard b does not work any more")
	l.ready("the status says so", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Shards != 2 || s.AvailableShards != 1 || s.Members[0].Assigned != 21 || s.Members[1].State != v1alpha1.ShardDead {
			return fmt.Sprintf("shards %+v", s.Members)
		}
		return says(v1alpha1.ConditionShardsAvailable, metav1.ConditionTrue, v1alpha1.ReasonShardsReady, "1 of 2")(s)
	})
	if n := s.metric(l, "breakwater_ring_assignments_total", causeGone); n == 0 {
		t.Error("no metric tells of it")
	}
	if n := s.metric(l, "breakwater_ring_shards", string(v1alpha1.ShardDead)); n != 1 {
		t.Errorf("%v shards are dead, by the metric", n)
	}
	leaving.Finalizers = nil
	l.must(l.Update(t.Context(), leaving))
}

func TestAnObjectThatTheWebhookHasMissedIsAssignedByTheNextPass(t *testing.T) {
	l := newLab(t, func(s *v1alpha1.ClusterRingSpec) { s.ResyncPeriodSeconds = 10 })
	l.start()
	l.shard("a")
	l.balanced(0)
	l.isAway.Store(true)
	missed := l.configMap("missed")
	controlled := l.secret("controlled", missed)
	l.at(missed, ring.Placement{})
	l.balanced(1)
	l.at(missed, ring.Placement{Shard: "a"})
	l.at(controlled, ring.Placement{Shard: "a"})

	kicked := l.configMap("kicked")
	l.kicks <- l.ring.Name
	l.at(kicked, ring.Placement{Shard: "a"})
}

// Continuous kicks do not cause continuous passes.
func TestKicksDoNotMakePassesOfAllTheTime(t *testing.T) {
	l := newLab(t)
	s := l.start()
	l.shard("a")
	l.balanced(0)
	before := s.metric(l, "breakwater_ring_passes_total")
	for range 200 {
		l.kicks <- l.ring.Name
	}
	l.kicks <- l.ring.Name
	l.eventually("there is another pass", func() string {
		if s.metric(l, "breakwater_ring_passes_total") == before {
			return "there is none"
		}
		return ""
	})
	if n := s.metric(l, "breakwater_ring_passes_total") - before; n > 10 {
		t.Errorf("%v passes", n)
	}
}

func TestObjectsWaitForAShard(t *testing.T) {
	l := newLab(t)
	objects, controlled := l.spread(5)
	l.mark(objects[0], ring.Placement{Shard: "long-gone", Draining: true})
	l.start()
	l.ready("nobody is there", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Unassigned != 5 || s.Assigned != 0 || s.Shards != 0 {
			return fmt.Sprintf("%d assigned, %d not", s.Assigned, s.Unassigned)
		}
		if problem := says(v1alpha1.ConditionBalanced, metav1.ConditionFalse, v1alpha1.ReasonNoShards, "5 objects wait")(s); problem != "" {
			return problem
		}
		if problem := says(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonConfigured)(s); problem != "" {
			return problem
		}
		return says(v1alpha1.ConditionShardsAvailable, metav1.ConditionFalse, v1alpha1.ReasonNoShards, v1alpha1.LabelRing)(s)
	})
	l.announced("Warning NoShards")
	if at := l.placement(objects[0]); at.Shard != "long-gone" {
		t.Errorf("it is at %+v", at)
	}
	l.shard("a")
	l.balanced(5)
	l.followed(objects, controlled)
}

func TestANamespaceLeavesTheRingAndComesBack(t *testing.T) {
	l := newLab(t)
	objects, controlled := l.spread(10)
	s := l.start()
	a := l.shard("a")
	l.balanced(10)
	l.followed(objects, controlled)
	l.quiet(s)
	a.hangs.Store(true)
	l.choose(l.namespace, false)
	l.eventually("the shard is asked to let go", func() string {
		if where := l.where(); where["drain"] != 10 {
			return fmt.Sprint("objects are at ", where)
		}
		return ""
	})
	for name, o := range controlled {
		if at := l.placement(o); at != (ring.Placement{Shard: "a"}) {
			t.Errorf("what %s controls is at %+v, before that is let go of", name, at)
		}
	}
	a.hangs.Store(false)
	for _, o := range objects {
		l.at(o, ring.Placement{})
		l.at(controlled[o.Name], ring.Placement{})
	}
	l.balanced(0)
	if at := l.placement(l.configMap("new")); at != (ring.Placement{}) {
		t.Errorf("a new one is at %+v", at)
	}
	l.quiet(s)
	l.choose(l.namespace, true)
	l.balanced(11)
	l.followed(objects, controlled)
}

func TestAControlledObjectIsTakenOutOfTheRingWhenNothingControlsIt(t *testing.T) {
	l := newLab(t)
	objects, controlled := l.spread(3)
	l.start()
	l.shard("a")
	l.balanced(3)
	l.followed(objects, controlled)
	free := l.secret("free", nil)
	adopted := controlled[objects[0].Name]
	l.must(l.Get(t.Context(), client.ObjectKeyFromObject(adopted), adopted))
	adopted.OwnerReferences = nil
	l.must(l.Update(t.Context(), adopted))
	replaced := controlled[objects[1].Name]
	l.must(l.Delete(t.Context(), objects[1]))
	l.kicks <- l.ring.Name
	l.at(adopted, ring.Placement{})
	// An object whose controller was deleted, or was recreated under the same name, is left to the garbage collector.
	l.configMap(objects[1].Name)
	l.kicks <- l.ring.Name
	l.balanced(3)
	for o, want := range map[*corev1.Secret]ring.Placement{free: {}, adopted: {}, replaced: {Shard: "a"}} {
		if at := l.placement(o); at != want {
			t.Errorf("%s is at %+v, want %+v", o.Name, at, want)
		}
	}
}

// An annotation assigns objects that belong together to one shard; their names would place them elsewhere.
func TestWhatControlsOthersMayBeElsewhereThanItsNameWouldHaveIt(t *testing.T) {
	l := newLab(t)
	l.start()
	for _, name := range []string{"a", "b", "c"} {
		l.shard(name)
	}
	var objects []*corev1.ConfigMap
	controlled := map[string]*corev1.Secret{}
	for i := range 12 {
		o := l.configMap(fmt.Sprint("c-", i), func(o *corev1.ConfigMap) {
			o.Annotations = map[string]string{v1alpha1.AnnotationShardingKey: "together"}
		})
		objects = append(objects, o)
		controlled[o.Name] = l.secret(fmt.Sprint("s-", i), o)
	}
	l.kicks <- l.ring.Name
	l.balanced(12)
	l.followed(objects, controlled)
	want := l.placement(objects[0])
	for _, o := range objects {
		if at := l.placement(o); at != want {
			t.Errorf("%s is at %+v, and %s at %+v", o.Name, at, objects[0].Name, want)
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
	l.kicks <- l.ring.Name
	l.eventually("it moves", func() string {
		if at := l.placement(objects[0]); at.Shard == want.Shard || at.Draining {
			return fmt.Sprintf("it is at %+v", at)
		}
		return ""
	})
	l.followed(objects, controlled)
}

func TestManyObjectsAreReadInPages(t *testing.T) {
	l := newLab(t)
	l.tempo.page = 200
	const objects = 3000
	plans := make([]*corev1.ConfigMap, objects)
	for i := range plans {
		plans[i] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: fmt.Sprint("c-", i)}}
	}
	l.must(each(t.Context(), 16, plans, func(ctx context.Context, o *corev1.ConfigMap) error { return l.Create(ctx, o) }))
	l.start()
	for _, name := range []string{"a", "b", "c"} {
		l.shard(name)
	}
	now := l.balanced(objects)
	for _, member := range now.Status.Members {
		if member.Assigned < objects/5 {
			t.Errorf("shard %s has %d", member.Name, member.Assigned)
		}
	}
	if where := l.where(); where["a"]+where["b"]+where["c"] != objects {
		t.Errorf("objects are at %v", where)
	}
}

func widgets(name string) (*apiextensionsv1.CustomResourceDefinition, v1alpha1.GroupResource) {
	of := v1alpha1.GroupResource{Group: name + ".example.com", Resource: "widgets"}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: of.Resource + "." + of.Group}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: of.Group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)},
		}}},
	}
	return crd, of
}

func TestAResourceThatIsServedLaterIsAssignedThen(t *testing.T) {
	l := newLab(t)
	crd, of := widgets(l.namespace)
	l.rules = append(l.rules, ResourceRules(of)...)
	l.edit(func(s *v1alpha1.ClusterRingSpec) {
		s.Resources = append(s.Resources, v1alpha1.RingResource{GroupResource: of, ControlledResources: []v1alpha1.GroupResource{secrets}})
	})
	objects, controlled := l.spread(5)
	orphan := l.secret("orphan", nil)
	l.mark(orphan, ring.Placement{Shard: "a"})
	l.start()
	l.shard("a")
	l.ready("the rest goes on", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Assigned != 5 {
			return fmt.Sprint(s.Assigned)
		}
		return says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonResourceNotServed, "widgets."+of.Group, "install")(s)
	})
	l.followed(objects, controlled)
	l.announced("Warning ResourceNotServed", "widgets."+of.Group)
	// It may be controlled by a widget, which the sharder cannot read.
	if at := l.placement(orphan); at.Shard != "a" {
		t.Errorf("what may be controlled by what is not served is at %+v", at)
	}

	known := clusters.Scheme()
	l.must(apiextensionsv1.AddToScheme(known))
	admin, err := client.New(testplane.Config(t), client.Options{Scheme: known})
	l.must(err)
	l.isAway.Store(true)
	l.must(admin.Create(t.Context(), crd))
	t.Cleanup(func() { _ = admin.Delete(newContext(), crd) })
	widget := &unstructured.Unstructured{}
	widget.SetGroupVersionKind(schema.GroupVersionKind{Group: of.Group, Version: "v1", Kind: "Widget"})
	widget.SetNamespace(l.namespace)
	widget.SetName("first")
	l.eventually("it is served", func() string {
		if err := admin.Create(t.Context(), widget); err != nil {
			return err.Error()
		}
		return ""
	})
	l.ready("it is known", says(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonConfigured))
	l.kicks <- l.ring.Name // the last pass may have preceded the object
	l.balanced(6)
	l.must(admin.Get(t.Context(), client.ObjectKeyFromObject(widget), widget))
	if at := ring.PlacementOf(l.ring.Name, widget.GetLabels()); at != (ring.Placement{Shard: "a"}) {
		t.Errorf("it is at %+v", at)
	}
	l.at(orphan, ring.Placement{})

	// The CRD is deleted again.
	l.must(admin.Delete(t.Context(), crd))
	l.kicks <- l.ring.Name
	l.ready("it is not served any more", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Assigned != 5 {
			return fmt.Sprint(s.Assigned)
		}
		return says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonResourceNotServed)(s)
	})
}

func TestWhatMayNotBeAssignedIsToldWithTheRuleThatIsMissing(t *testing.T) {
	l := newLab(t)
	l.rules = slices.Concat(ClusterRules(), members.Rules(), ResourceRules(configMaps))
	objects, controlled := l.spread(5)
	l.start()
	l.shard("a")
	l.ready("the rest goes on", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Assigned != 5 {
			return fmt.Sprint(s.Assigned)
		}
		return says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonResourceForbidden,
			"may not get nor list nor patch secrets", `{apiGroups: [""], resources: ["secrets"], verbs: [get, list, patch]}`)(s)
	})
	l.balanced(5)
	if at := l.placement(controlled[objects[0].Name]); at != (ring.Placement{}) {
		t.Errorf("it is at %+v", at)
	}
	l.grant(ResourceRules(secrets))
	l.ready("it is granted", says(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonConfigured))
	l.followed(objects, controlled)
}

// An object is written in the version that was read, or not at all.
func TestAnObjectThatHasChangedIsNotWritten(t *testing.T) {
	l := newLab(t)
	o := l.configMap("c")
	objects, err := metadata.NewForConfig(testplane.Config(t))
	l.must(err)
	c, of := cluster{objects}, &resource{GroupResource: configMaps, version: "v1"}
	read, err := c.get(t.Context(), of, o.Namespace, o.Name)
	l.must(err)
	o.Data = map[string]string{"a": "b"}
	l.must(l.Update(t.Context(), o))
	if _, err := c.label(t.Context(), of, read, map[string]any{"a": "b"}); !apierrors.IsConflict(err) {
		t.Errorf("by what it was: %v, want a conflict", err)
	}
	l.must(l.Delete(t.Context(), o))
	again := l.configMap("c")
	if _, err := c.label(t.Context(), of, read, map[string]any{"a": "b"}); !apierrors.IsConflict(err) {
		t.Errorf("by what another one of its name was: %v, want a conflict", err)
	}
	read, err = c.get(t.Context(), of, again.Namespace, again.Name)
	l.must(err)
	now, err := c.label(t.Context(), of, read, map[string]any{"a": "b", "c": nil})
	if err != nil || now.Labels["a"] != "b" || now.ResourceVersion == read.ResourceVersion {
		t.Errorf("by what it is: %v, %+v", err, now)
	}
}
