package guard_test

import (
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/guard"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// With the permissions that the chart grants, a workload whose label has no effect gets one event, and no other workload gets any.
func TestLabelWithoutEffectIsAnEventOnItsWorkload(t *testing.T) {
	admin, namespace := testplane.Client(t), testplane.Namespace(t)
	create := func(name string, change func(*appsv1.ReplicaSet)) {
		t.Helper()
		labels := map[string]string{"app": name}
		r := &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelProtect: "true"}},
			Spec: appsv1.ReplicaSetSpec{
				Replicas: ptr.To(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
				},
			},
		}
		change(r)
		if err := admin.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	create("ignored", func(*appsv1.ReplicaSet) {})
	create("protected", func(*appsv1.ReplicaSet) {})
	create("opted-out", func(r *appsv1.ReplicaSet) { r.Labels[v1alpha1.LabelProtect] = "false" })
	create("owned", func(r *appsv1.ReplicaSet) { // the controller copied its labels
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Shop", Name: "shop", UID: "1", Controller: ptr.To(true)}}
	})

	user := testplane.User(t, namespace+"-cell", roles.Rules(t, "aggregator.cell"))
	objects, clientset := metadata.NewForConfigOrDie(user), kubernetes.NewForConfigOrDie(user)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clientset.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	protectors := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	if err := protectors.Add(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "replicaset-protected"}}); err != nil {
		t.Fatal(err)
	}
	ignored := &guard.IgnoredLabels{
		Objects: objects, Protectors: protectors, Recorder: broadcaster.NewRecorder(clusters.Scheme(), "breakwater-aggregator"),
		Has: func(n string) bool { return n == namespace }, Log: logr.Discard(),
	}
	found := func() (all []string) {
		t.Helper()
		var list eventsv1.EventList
		if err := admin.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			e := &list.Items[i]
			all = append(all, fmt.Sprintf("%s/%s %s %s %s", e.Regarding.Kind, e.Regarding.Name, e.Type, e.Reason, e.Note))
		}
		return all
	}
	if got := ignored.Check(t.Context()); got != 1 { // the generator may not have seen it yet
		t.Fatalf("the first check found %d workloads, want 1", got)
	}
	ignored.Check(t.Context())
	testplane.Eventually(t, func() string {
		if len(found()) == 0 {
			return "there is no event"
		}
		return ""
	})
	ignored.Check(t.Context())
	broadcaster.Shutdown()
	want := "ReplicaSet/ignored Warning IgnoredLabel The label breakwater.dev/protect=true has no effect here: generators read it in the core cluster, " +
		"where no PodProtector is for this ReplicaSet. Create the ReplicaSet with the label there, too, or create a PodProtector there."
	if got := found(); len(got) != 1 || got[0] != want {
		t.Errorf("got events %q, want one: %q", got, want)
	}
}
