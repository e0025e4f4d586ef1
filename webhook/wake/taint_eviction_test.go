package wake

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// testCells are cells by name.
type testCells map[string]*rest.Config

func (c testCells) Config(cell string) (*rest.Config, error) { return c[cell], nil }

// testProtector is a protector with a budget of one.
type testProtector string

func (p testProtector) String() string { return string(p) }

func (testProtector) Budget(context.Context) int { return 1 }

func newRetries() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "retries"}, []string{"cell", "way", "result"})
}

// deniedTo returns a refused deletion of a pod of the ReplicaSet "web" by a user.
func deniedTo(user string) (removal.Request, Protector, *corev1.Pod) {
	yes := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "pod", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "set", Controller: &yes},
	}}}
	by := testProtector("core/shop/web")
	return removal.Request{User: user, Namespace: "shop", PodName: "web-1", Operation: v1alpha1.OperationDelete, Pod: removal.NewPod(pod)}, by, pod
}

// newTestRetrier returns a retrier for a cell with these objects. The metadata client serves the owners.
func newTestRetrier(pod *corev1.Pod, owners ...runtime.Object) (*Retrier, *fake.Clientset, *metadatafake.FakeMetadataClient) {
	scheme := metadatafake.NewTestScheme()
	_ = metav1.AddMetaToScheme(scheme)
	kinds := meta.NewDefaultRESTMapper(nil)
	kinds.Add(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
	kinds.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	kinds.Add(resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"), meta.RESTScopeNamespace)
	config := &rest.Config{}
	reached := testCells{"cell": config}
	n := New(reached, newRetries(), logr.Discard())
	cell := &cellClients{mapper: kinds, config: config}
	typed, objects := fake.NewClientset(pod, deletedNamespace()), metadatafake.NewSimpleMetadataClient(scheme, owners...)
	cell.client, cell.metadata = typed, objects
	n.clients["cell"] = cell
	return n, typed, objects
}

// deletedNamespace returns the namespace of the pods, which is being deleted.
func deletedNamespace() *corev1.Namespace {
	now := metav1.Now()
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "space", DeletionTimestamp: &now, Finalizers: []string{"kubernetes"}}}
}

func owned(change func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	set := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "set"},
	}
	change(set)
	return set
}

func TestDeniedGarbageCollectionIsEvictedLater(t *testing.T) {
	now := metav1.Now()
	alive := func(*metav1.PartialObjectMetadata) {}
	for claim, c := range map[string]struct {
		user  string
		owner func(*metav1.PartialObjectMetadata) // nil: it was deleted
		pod   func(*corev1.Pod)
		want  bool
	}{
		"when the owner was deleted":               {user: garbageCollector, want: true},
		"not when it is there":                     {user: garbageCollector, owner: alive},
		"when another object has the owner's name": {user: garbageCollector, owner: func(o *metav1.PartialObjectMetadata) { o.UID = "other" }, want: true},
		"when it waits for its pods": {user: garbageCollector, owner: func(o *metav1.PartialObjectMetadata) {
			o.DeletionTimestamp, o.Finalizers = &now, []string{metav1.FinalizerDeleteDependents}
		}, want: true},
		"not when the owner waits for other dependents": {user: garbageCollector, owner: func(o *metav1.PartialObjectMetadata) { o.DeletionTimestamp, o.Finalizers = &now, []string{"other"} }},
		"not when another controller adopted the pod": {
			user: garbageCollector, owner: func(o *metav1.PartialObjectMetadata) { o.UID = "other" }, pod: func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" },
		},
		"not when the pod has no owner any more": {user: garbageCollector, pod: func(p *corev1.Pod) { p.OwnerReferences = nil }},
		"not when the pod has another UID":       {user: garbageCollector, pod: func(p *corev1.Pod) { p.UID = "other" }},
		"not for other controllers":              {user: serviceAccounts + "kube-system:replicaset-controller"},
		"when all controllers are one user":      {user: controllerManager, want: true},
	} {
		t.Run(claim, func(t *testing.T) {
			request, by, pod := deniedTo(c.user)
			stored := pod.DeepCopy()
			if c.pod != nil {
				c.pod(stored)
			}
			var owners []runtime.Object
			if c.owner != nil {
				owners = append(owners, owned(c.owner))
			}
			n, typed, _ := newTestRetrier(stored, owners...)
			n.Enqueue("cell", request, "NoBudget", by)
			n.retryEvictions(t.Context(), by, 1)
			got := false
			for _, action := range typed.Actions() {
				got = got || action.GetVerb() == "create" && action.GetSubresource() == "eviction"
			}
			if got != c.want {
				t.Errorf("evicted %v, want %v: %v", got, c.want, typed.Actions())
			}
			if left := n.pods.pop(by, 9); len(left) > 0 {
				t.Errorf("waitlist %+v, want it empty", left)
			}
		})
	}
}

func TestDeletedNamespaceIsTouched(t *testing.T) {
	request, by, pod := deniedTo(namespaceController)
	space := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "space"}}
	n, _, objects := newTestRetrier(pod, space, owned(func(*metav1.PartialObjectMetadata) {}))
	n.Enqueue("cell", request, "NoBudget", by)
	n.wake(t.Context(), by, 9)
	var patched []string
	for _, action := range objects.Actions() {
		if p, ok := action.(interface {
			GetName() string
			GetPatch() []byte
		}); ok && action.GetVerb() == "patch" {
			patched = append(patched, action.GetResource().Resource+"/"+p.GetName())
			if patch := string(p.GetPatch()); !strings.Contains(patch, v1alpha1.AnnotationNudgedAt) || !strings.Contains(patch, `"uid":"space"`) {
				t.Errorf("patched with %s", patch)
			}
		}
	}
	if want := []string{"namespaces/shop"}; !slices.Equal(patched, want) {
		t.Errorf("touched %q, want %q", patched, want)
	}
	if time.Since(n.wokenAt[waitingController{cell: "cell", namespace: "shop"}]) > time.Minute {
		t.Error("the time of the wake-up is not recorded")
	}
}

// A user removes the taint while the pod waits: only the node as it is now is a reason to evict (rule 15).
func TestPodOfNodeWithoutTaintIsNotEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request, by, pod := deniedTo(serviceAccounts + "kube-system:taint-eviction-controller")
		pod.Spec.NodeName = "node"
		n, typed, _ := newTestRetrier(pod)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
		node.Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
		if err := typed.Tracker().Add(node); err != nil {
			t.Fatal(err)
		}
		asked := 0
		typed.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked++
			return true, nil, apierrors.NewTooManyRequestsError("no budget")
		})
		n.Enqueue("cell", request, "NoBudget", by)
		n.retryEvictions(t.Context(), by, 9)
		node.Spec.Taints = nil
		if _, err := typed.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		<-time.After(sweepInterval)
		n.requeuePaused(time.Now())
		n.retryEvictions(t.Context(), by, 9)
		if asked != 1 {
			t.Errorf("%d evictions, want 1: the node had a taint at the first one", asked)
		}
	})
}

// A loop without a pause would reserve the budget again and again, and each of its own writes would wake it.
func TestEvictionDeniedByPDBIsPaused(t *testing.T) {
	for claim, c := range map[string]struct {
		denial *apierrors.StatusError
		pause  time.Duration
	}{
		"by a PodDisruptionBudget": {violated(), pdbRetryInterval},
		"by Breakwater":            {apierrors.NewTooManyRequestsError("no budget"), sweepInterval},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				request, by, pod := deniedTo(garbageCollector)
				n, typed, _ := newTestRetrier(pod)
				asked := 0
				typed.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
					asked++
					return true, nil, c.denial
				})
				look := func() {
					n.requeuePaused(time.Now())
					n.retryEvictions(t.Context(), by, 9)
				}
				n.Enqueue("cell", request, "NoBudget", by)
				look()
				n.Enqueue("cell", request, "NoBudget", by) // the garbage collector retries
				look()
				<-time.After(c.pause - 1)
				look()
				if asked != 1 {
					t.Errorf("%d evictions before the pause is over, want 1", asked)
				}
				<-time.After(1)
				look()
				if asked != 2 {
					t.Errorf("%d evictions after the pause, want 2", asked)
				}
			})
		})
	}
}

func violated() *apierrors.StatusError {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause}}
	return err
}

// No event reports the end of a pause.
func TestControllerDeniedAgainIsWokenAfterPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request, by, pod := deniedTo(serviceAccounts + "kube-system:replicaset-controller")
		n, _, objects := newTestRetrier(pod, owned(func(*metav1.PartialObjectMetadata) {}))
		woken := func() (times int) {
			for _, action := range objects.Actions() {
				if action.GetVerb() == "patch" {
					times++
				}
			}
			return times
		}
		go n.retryUntilDone(t.Context())
		n.Enqueue("cell", request, "NoBudget", by)
		synctest.Wait()
		n.Enqueue("cell", request, "NoBudget", by)
		synctest.Wait()
		if got := woken(); got != 1 {
			t.Errorf("woken %d times within the pause, want 1", got)
		}
		<-time.After(minWakeInterval)
		synctest.Wait()
		if got := woken(); got != 2 {
			t.Errorf("woken %d times after the pause, want 2", got)
		}
	})
}

// A review is not evidence: any client that reaches the webhook can send one.
func TestForgedReviewCausesNoActions(t *testing.T) {
	tainted := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "tainted"}}
	tainted.Spec.Taints = []corev1.Taint{{Key: "down", Effect: corev1.TaintEffectNoExecute}}
	alive := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "space"}}
	for claim, c := range map[string]struct {
		user   string
		review func(*corev1.Pod)
		want   []string
	}{
		"of a pod on a node that it is not on":     {controllerManager, func(p *corev1.Pod) { p.Spec.NodeName = "tainted" }, []string{"replicasets/web"}},
		"of an owner that does not exist":          {garbageCollector, func(p *corev1.Pod) { p.OwnerReferences[0].Name = "ghost" }, []string{"replicasets/web"}},
		"of an owner of another kind":              {garbageCollector, func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Ghost" }, []string{"replicasets/web"}},
		"of a pod that does not exist":             {garbageCollector, func(p *corev1.Pod) { p.UID = "ghost" }, nil},
		"of a namespace that is not being deleted": {namespaceController, func(*corev1.Pod) {}, nil},
		"of an owner UID that does not exist":      {controllerManager, func(p *corev1.Pod) { p.OwnerReferences[0].UID = "ghost" }, []string{"replicasets/web"}},
	} {
		t.Run(claim, func(t *testing.T) {
			request, by, pod := deniedTo(c.user)
			stored := pod.DeepCopy()
			stored.Spec.NodeName = "healthy"
			c.review(pod)
			n, typed, objects := newTestRetrier(stored, owned(func(*metav1.PartialObjectMetadata) {}))
			for _, o := range []runtime.Object{tainted, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "healthy"}}} {
				if err := typed.Tracker().Add(o); err != nil {
					t.Fatal(err)
				}
			}
			if err := typed.Tracker().Update(corev1.SchemeGroupVersion.WithResource("namespaces"), alive, ""); err != nil {
				t.Fatal(err)
			}
			n.Enqueue("cell", request, "NoBudget", by)
			n.wake(t.Context(), by, 9)
			n.retryEvictions(t.Context(), by, 9)
			for _, action := range typed.Actions() {
				if action.GetVerb() != "get" {
					t.Errorf("unexpected %s of %s in the cell", action.GetVerb(), action.GetResource().Resource)
				}
			}
			var touched []string
			for _, action := range objects.Actions() {
				if p, ok := action.(clienttesting.PatchAction); ok {
					touched = append(touched, action.GetResource().Resource+"/"+p.GetName())
				}
			}
			if !slices.Equal(touched, c.want) { // the retrier may wake the real controller of a real pod
				t.Errorf("touched %q, want %q", touched, c.want)
			}
		})
	}
}
