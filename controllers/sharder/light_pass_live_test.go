package sharder

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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

// serveWidgets makes the API server serve widgets of a kind that no other test has, and returns a function that creates one.
func serveWidgets(t *testing.T, name string) (admin client.Client, gr v1alpha1.GroupResource, widget func(name string, labels map[string]string) *unstructured.Unstructured) {
	t.Helper()
	known := clusters.Scheme()
	if err := apiextensionsv1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(testplane.Config(t), client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	crd, gr := widgets(name)
	if err := admin.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Delete(newContext(), crd) })
	return admin, gr, func(object string, labels map[string]string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: gr.Group, Version: "v1", Kind: "Widget"})
		o.SetNamespace(name)
		o.SetName(object)
		o.SetLabels(labels)
		testplane.Eventually(t, func() string {
			if err := admin.Create(t.Context(), o); err != nil {
				return err.Error() // it is not served yet
			}
			return ""
		})
		return o
	}
}

func TestAPIServerSupportsLightPassLists(t *testing.T) {
	t.Parallel()
	namespace := testplane.Namespace(t)
	admin, gr, widget := serveWidgets(t, namespace)
	shard, drain := v1alpha1.LabelShard("r"), v1alpha1.LabelDrain("r")
	for name, labels := range map[string]map[string]string{
		"well":          {shard: "a"},
		"well-too":      {shard: "b", "other": "x"},
		"bare":          nil,
		"of-another":    {v1alpha1.LabelShard("s"): "a"},
		"dead":          {shard: "c"},
		"empty":         {shard: ""},
		"asked":         {shard: "a", drain: v1alpha1.DrainAsked},
		"let-go":        {drain: v1alpha1.DrainAnswered},
		"asked-of-dead": {shard: "c", drain: v1alpha1.DrainAsked},
	} {
		widget(name, labels)
	}
	for i := range 3 {
		o := &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("t-", i)}}
		o.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := metadata.NewForConfig(testplane.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	p, r := &reader{objects: cluster{objects}}, &resource{GroupResource: gr, version: "v1"}
	templates := &resource{GroupResource: v1alpha1.GroupResource{Resource: "podtemplates"}, version: "v1"} // no other test uses them
	for gr, want := range map[*resource]int64{r: 9, templates: 3} {
		if n, err := p.countObjects(t.Context(), gr); n != want || err != nil {
			t.Errorf("got %d %s, want %d: %v", n, gr, want, err)
		}
	}
	names := func(selector string) []string {
		list, err := p.objects.list(t.Context(), r, metav1.ListOptions{Limit: 100, LabelSelector: selector})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for i := range list.Items {
			all = append(all, list.Items[i].Name)
		}
		slices.Sort(all)
		return all
	}
	found := slices.Concat(names(misplacedSelectors("r", []string{"a", "b"})[0]), names(misplacedSelectors("r", []string{"a", "b"})[1]))
	want := []string{"asked-of-dead", "bare", "dead", "empty", "let-go", "of-another", "asked", "asked-of-dead", "let-go"}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("listed objects (-want +got):\n%s", diff)
	}

	// This is the longest selector that the sharder ever sends.
	n := 1
	for len(misplacedSelectors("r", manyNames(n+1, 63))) > 0 {
		n++
	}
	if found := names(misplacedSelectors("r", manyNames(n, 63))[0]); n < 10 || len(found) != 9 {
		t.Errorf("selector of %d nonexistent shards lists %q", n, found)
	}
}

// The next resync finds objects that admission or users have misplaced, even though it is light.
func TestLightPassOnAPIServer(t *testing.T) {
	l := newFixture(t, func(s *v1alpha1.ClusterRingSpec) { s.ResyncPeriodSeconds = 10 })
	admin, gr, widget := serveWidgets(t, l.namespace)
	l.rules = append(l.rules, resourceRules(gr)...)
	l.edit(func(s *v1alpha1.ClusterRingSpec) {
		s.Resources = []v1alpha1.RingResource{{GroupResource: gr, ControlledResources: []v1alpha1.GroupResource{secrets}}}
	})
	l.webhookFails.Store(true)
	var all []*unstructured.Unstructured
	for i := range 30 {
		all = append(all, widget(fmt.Sprint("w-", i), nil))
	}
	s := l.start()
	l.startShard("a")
	l.waitUntilBalanced(30)
	isLight := func() {
		t.Helper()
		lights := s.metric(l, "breakwater_ring_passes_total", passLight)
		l.eventually("a pass is light", func() string {
			if s.metric(l, "breakwater_ring_passes_total", passLight) == lights {
				return "none is"
			}
			return ""
		})
	}
	isLight() // until then, whole passes may follow each other
	counted := l.waitUntilBalanced(30).Status.LastCounted
	isLight()
	if again := l.waitUntilBalanced(30).Status.LastCounted; !again.Equal(counted) {
		t.Errorf("light pass changed lastCounted to %s, want %s", again, counted)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "controlled"}}
	secret.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: gr.Group + "/v1", Kind: "Widget", Name: all[0].GetName(), UID: all[0].GetUID(), Controller: ptr.To(true),
	}}
	for i, harm := range []func() client.Object{
		func() client.Object { l.must(l.Create(t.Context(), secret)); return secret },
		func() client.Object {
			before := all[1].DeepCopy()
			all[1].SetLabels(map[string]string{v1alpha1.LabelShard(l.ring.Name): "gone"})
			l.must(admin.Patch(t.Context(), all[1], client.MergeFrom(before)))
			return all[1]
		},
	} {
		o := harm()
		l.eventually("the object is with the shard", func() string {
			l.must(admin.Get(t.Context(), client.ObjectKeyFromObject(o), o))
			if at := ring.PlacementOf(l.ring.Name, o.GetLabels()); at != (ring.Placement{Shard: "a"}) {
				return fmt.Sprintf("%s has the placement %+v", o.GetName(), at)
			}
			return ""
		})
		if i == 0 {
			isLight()
		}
	}
}
