package rings_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// TestGeneratorsShardNamespaces checks that each workload gets a protector, and that the protector of a deleted workload is deleted, while
// generators start, die and freeze.
func TestGeneratorsShardNamespaces(t *testing.T) {
	l := newBareFixture(t)
	l.createLeaseNamespace()
	folder := t.TempDir()
	breakwater := l.buildProgram(folder, "breakwater", binaries.Breakwater)
	l.processes = install.NewProcesses(folder, 10*time.Second)
	t.Cleanup(l.processes.End)
	l.ring = &v1alpha1.ClusterRing{
		ObjectMeta: metav1.ObjectMeta{Name: "generators"}, Spec: v1alpha1.ClusterRingSpec{LeaseDurationSeconds: leaseSeconds},
	}
	if err := l.Create(t.Context(), l.ring); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Delete(context.Background(), l.ring) })
	start := func(name string) {
		if err := l.processes.Start(t.Context(), name, breakwater, "generator", "--kubeconfig="+testplane.Kubeconfig(t),
			"--ring="+l.ring.Name, "--shard="+name); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorkloads(l, 20)
	start("generator-a")
	w.createSome(100)
	w.waitForProtected()
	l.waitForSlots("generator-a")

	start("generator-b")
	start("generator-c")
	w.createSome(100)
	l.waitForSlots("generator-a", "generator-b", "generator-c")
	w.deleteSome(50)
	w.waitForProtected()

	if err := l.processes.Kill("generator-a"); err != nil { // it keeps its slots until it must have stopped
		t.Fatal(err)
	}
	ended, err := l.processes.ExpectExit("generator-b")
	if err == nil {
		err = l.processes.Freeze("generator-b")
	}
	if err != nil {
		t.Fatal(err)
	}
	w.createSome(100)
	w.deleteSome(50)
	l.waitForSlots("generator-c")
	w.waitForProtected()
	if err := l.processes.Thaw("generator-b"); err != nil {
		t.Fatal(err)
	}
	l.waitUntil("generator-b exited because it lost its Lease", func() (bool, string) {
		select {
		case <-ended:
			return true, ""
		default:
			return false, "it runs"
		}
	})
	l.loseProtector(w)
	w.waitForProtected()
}

// waitForSlots waits until exactly the given number of shards hold all slots, and each of them holds some.
func (l *fixture) waitForSlots(shards ...string) {
	l.Helper()
	l.waitUntil(fmt.Sprintf("%v hold all slots", shards), func() (bool, string) {
		var all slot.Set
		holdings := l.getRing().Status.Holdings
		for _, h := range holdings {
			slots, err := slot.Parse(h.Slots)
			if err != nil || slots.Empty() {
				return false, fmt.Sprintf("%+v", holdings)
			}
			all = all.Or(slots)
		}
		return all == slot.All() && len(holdings) == len(shards), fmt.Sprintf("%+v", holdings)
	})
}

// workloads are Deployments with the label that requests a protector.
type workloads struct {
	*fixture
	namespaces []string
	existing   map[client.ObjectKey]bool
	created    int
}

func newWorkloads(l *fixture, namespaces int) *workloads {
	w := &workloads{fixture: l, existing: map[client.ObjectKey]bool{}}
	// The test deletes many workloads at once, on purpose.
	confirmed := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: "true"}}}`, v1alpha1.AnnotationConfirmRelease)
	for range namespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: testplane.Namespace(l)}}
		if err := w.Patch(w.Context(), namespace, client.RawPatch(types.MergePatchType, confirmed)); err != nil {
			w.Fatal(err)
		}
		w.namespaces = append(w.namespaces, namespace.Name)
	}
	return w
}

func (w *workloads) createSome(n int) {
	w.Helper()
	for range n {
		d := w.newDeployment()
		if err := w.Create(w.Context(), d); err != nil {
			w.Fatal(err)
		}
	}
}

// createConcurrently creates n workloads from concurrent clients.
func (w *workloads) createConcurrently(n int) {
	w.Helper()
	running, ctx := errgroup.WithContext(w.Context())
	running.SetLimit(clients)
	for range n {
		d := w.newDeployment()
		running.Go(func() error { return w.Create(ctx, d) })
	}
	if err := running.Wait(); err != nil {
		w.Fatal(err)
	}
}

// newDeployment returns a Deployment for the caller to create, and adds it to the existing workloads.
func (w *workloads) newDeployment() *appsv1.Deployment {
	w.created++
	labels := map[string]string{"app": fmt.Sprintf("web-%d", w.created)}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespaces[w.created%len(w.namespaces)], Name: labels["app"], Labels: map[string]string{v1alpha1.LabelProtect: "true"},
	}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](4), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		},
	}}
	w.existing[client.ObjectKeyFromObject(d)] = true
	return d
}

func (w *workloads) deleteSome(n int) {
	w.Helper()
	for key := range w.existing {
		if n--; n < 0 {
			return
		}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		if err := w.Delete(w.Context(), d); err != nil {
			w.Fatal(err)
		}
		delete(w.existing, key)
	}
}

// waitForProtected waits until each existing workload has a protector, and no deleted workload or its protector exists.
func (w *workloads) waitForProtected() {
	w.Helper()
	w.waitUntil("exactly the existing workloads have protectors", func() (bool, string) {
		protectors, deployments := &v1alpha1.PodProtectorList{}, &appsv1.DeploymentList{}
		want, left := len(w.existing), 0
		for _, namespace := range w.namespaces {
			if err := w.List(w.Context(), protectors, client.InNamespace(namespace)); err != nil {
				w.Fatal(err)
			}
			for i := range protectors.Items {
				p := &protectors.Items[i]
				if !w.existing[client.ObjectKey{Namespace: namespace, Name: p.Annotations[v1alpha1.AnnotationSourceName]}] {
					left++
				} else if p.Spec.MinAvailable != nil || p.Spec.MaxUnavailable != nil {
					want--
				}
			}
			if err := w.List(w.Context(), deployments, client.InNamespace(namespace)); err != nil {
				w.Fatal(err)
			}
			for i := range deployments.Items {
				if !w.existing[client.ObjectKeyFromObject(&deployments.Items[i])] {
					left++
				}
			}
		}
		return want == 0 && left == 0, fmt.Sprintf("%d protectors are missing, and %d deleted workloads still have one", want, left)
	})
}

// loseProtector deletes an unreleased protector from etcd. The shard that holds its slot must recreate it.
func (l *fixture) loseProtector(w *workloads) {
	l.Helper()
	for key := range w.existing {
		testplane.Erase(l, "breakwater.dev", "podprotectors", key.Namespace, "deployment-"+key.Name)
		return
	}
}
