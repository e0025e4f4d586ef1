package wake

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/breakwater-k8s/breakwater/internal/clusters/successor"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// newTestReleaser returns a releaser for a cell with a pod and owners.
func newTestReleaser(pod *corev1.Pod, owners ...runtime.Object) (*orphanReleaser, *fake.Clientset, *dynamicfake.FakeDynamicClient) {
	kinds := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion})
	kinds.Add(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
	config := &rest.Config{}
	reached := testCells{"cell": config}
	o := newOrphanReleaser(reached, newRetries(), logr.Discard())
	typed, objects := fake.NewClientset(pod), dynamicfake.NewSimpleDynamicClient(scheme.Scheme, owners...)
	o.clusters["cell"] = orphanCluster{config, &successor.Cluster{Client: typed, Dynamic: objects, Mapper: kinds}}
	return o, typed, objects
}

func replicaSet(uid types.UID) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	return set
}

// A review is not evidence: only the pod and the owner in the cell are (rule 15).
func TestForgedReviewReleasesNoPod(t *testing.T) {
	for claim, c := range map[string]struct {
		user   string
		review func(*corev1.Pod)
		owner  *appsv1.ReplicaSet
		want   bool
	}{
		"a refused pod of a recreated owner is released":              {garbageCollector, func(*corev1.Pod) {}, replicaSet("new"), true},
		"also when all controllers are one user":                      {controllerManager, func(*corev1.Pod) {}, replicaSet("new"), true},
		"a review with another owner UID releases nothing":            {garbageCollector, func(p *corev1.Pod) { p.OwnerReferences[0].UID = "ghost" }, replicaSet("set"), false},
		"a review with other labels releases nothing":                 {garbageCollector, func(p *corev1.Pod) { p.Labels = nil }, replicaSet("set"), false},
		"a review of a pod with another UID releases nothing":         {garbageCollector, func(p *corev1.Pod) { p.UID = "ghost" }, replicaSet("new"), false},
		"a review of a pod that does not exist releases nothing":      {garbageCollector, func(p *corev1.Pod) { p.UID = "" }, replicaSet("new"), false},
		"a request of another controller starts no check of the pods": {serviceAccounts + "kube-system:replicaset-controller", func(*corev1.Pod) {}, replicaSet("new"), false},
	} {
		t.Run(claim, func(t *testing.T) {
			request, _, pod := deniedTo(c.user)
			pod.ResourceVersion, pod.Labels = "1", map[string]string{"app": "web"}
			stored := pod.DeepCopy()
			c.review(pod)
			request.Pod = removal.NewPod(pod)
			o, typed, _ := newTestReleaser(stored, c.owner)
			o.enqueue("cell", request)
			due, _ := o.due()
			for _, c := range due {
				o.check(t.Context(), c)
			}
			released := slices.ContainsFunc(typed.Actions(), func(a clienttesting.Action) bool { return a.GetVerb() == "patch" })
			if released != c.want {
				t.Errorf("released %v, want %v: %v", released, c.want, typed.Actions())
			}
			if len(o.waiting) != 0 {
				t.Errorf("%d controllers are still checked, want none: %v", len(o.waiting), o.waiting)
			}
		})
	}
}

// No event reports that an owner is created again, so it is looked for with growing pauses, and sooner when the garbage collector retries.
func TestOwnerIsLookedForWithPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request, _, pod := deniedTo(garbageCollector)
		o, typed, objects := newTestReleaser(pod)
		looks := func() int { return len(objects.Actions()) }
		go o.releaseUntilDone(t.Context())
		o.enqueue("cell", request)
		synctest.Wait()
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{0, 1}, {minOrphanPause - 1, 1}, {1, 2}, {2 * minOrphanPause, 3}, {4 * minOrphanPause, 4}} {
			<-time.After(step.after)
			synctest.Wait()
			if got := looks(); got != step.want {
				t.Errorf("%d looks for the owner %s later, want %d", got, step.after, step.want)
			}
		}
		<-time.After(minOrphanPause)
		o.enqueue("cell", request) // the garbage collector retries
		synctest.Wait()
		if got := looks(); got != 5 {
			t.Errorf("%d looks for the owner after a further refusal, want 5", got)
		}
		if err := typed.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "shop", pod.Name); err != nil {
			t.Fatal(err)
		}
		<-time.After(maxOrphanPause)
		synctest.Wait()
		if len(o.waiting) != 0 || looks() != 5 {
			t.Errorf("%d controllers are still checked after %d looks, want none after 5", len(o.waiting), looks())
		}
	})
}
