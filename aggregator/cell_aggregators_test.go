package aggregator_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/breakwater-k8s/breakwater/aggregator"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// runAllCells starts a fleet.
func (l *fixture) runAllCells() *prometheus.Registry {
	l.Helper()
	mgr, err := ctrl.NewManager(testplane.Config(l.T), ctrl.Options{
		Scheme: l.scheme, Logger: testr.New(l.T), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		l.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	err = aggregator.SetupCellsWithManager(mgr, aggregator.Options{
		Identity: "fleet", LeaseNamespace: l.namespace, LeaseDuration: 2 * time.Second, Heartbeat: time.Second, Workers: 2, Metrics: registry,
	})
	if err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	l.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			l.Errorf("fleet: %v", err)
		}
	})
	return registry
}

// kubeconfig stores the kubeconfig of a new ServiceAccount in a Secret.
func (l *fixture) kubeconfig(secretName, account string) v1alpha1.KubeconfigSecretRef {
	l.Helper()
	config := testplane.AsServiceAccount(l, testplane.Config(l), l.namespace, account, "cluster-admin")
	return *testplane.StoreKubeconfig(l, l.client, l.namespace, secretName, testplane.KubeconfigOf(l, config))
}

func (l *fixture) cellNow() *v1alpha1.Cell {
	l.Helper()
	cell := &v1alpha1.Cell{}
	if err := l.client.Get(l.Context(), client.ObjectKey{Name: l.cell}, cell); err != nil {
		l.Fatal(err)
	}
	return cell
}

func TestCellAggregatorsFollowCells(t *testing.T) {
	l := newFixture(t)
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	l.createPodIn("web-0", "a")
	l.createPodIn("web-1", "b")
	registry := l.runAllCells()
	first, second := ofCell("a"), ofCell("b")
	ref := l.kubeconfig("first", "first")
	first.KubeconfigSecretRef = &ref
	a := l.withCell("a", first)
	l.wantCounts(map[string]int32{a.cell: 1})
	epoch := a.cellNow().Status.Aggregator.Epoch

	// Another Cell is created, and its Secret later.
	second.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: l.namespace, Name: "second"}
	b := l.withCell("b", second)
	l.kubeconfig("second", "second")
	l.wantCounts(map[string]int32{a.cell: 1, b.cell: 1})
	if a.cellNow().Status.Cluster == "" {
		t.Errorf("status.cluster is not set: %+v", a.cellNow().Status)
	}

	// A rotation does not end the leadership.
	l.kubeconfig("first", "rotated")
	accounts := kubernetes.NewForConfigOrDie(testplane.Config(t)).CoreV1().ServiceAccounts(l.namespace)
	if err := accounts.Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.createPodIn("web-2", "a")
	l.wantCounts(map[string]int32{a.cell: 2, b.cell: 1})
	if now := a.cellNow().Status.Aggregator.Epoch; now != epoch {
		t.Errorf("epoch %d after the rotation, want %d", now, epoch)
	}

	// A Cell that is deleted has neither an aggregator nor metrics.
	cell := b.cellNow()
	if err := l.client.Delete(t.Context(), cell); err != nil {
		t.Fatal(err)
	}
	l.eventually(func() string {
		if hasLeader(registry, b.cell) {
			return "the deleted cell has metrics"
		}
		return ""
	})
}

// hasLeader reports whether a cell has an aggregator that leads.
func hasLeader(registry *prometheus.Registry, cell string) bool {
	families, err := registry.Gather()
	if err != nil {
		return false
	}
	for _, family := range families {
		if family.GetName() != "breakwater_aggregator_leading" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "cell" && label.GetValue() == cell {
					return m.GetGauge().GetValue() == 1
				}
			}
		}
	}
	return false
}

// holdCell keeps a deleted Cell from being removed, as the topology controller does.
func holdCell(cell *v1alpha1.Cell) { cell.Finalizers = []string{v1alpha1.FinalizerCell} }

func TestDeletedCellIsDrained(t *testing.T) {
	l := newFixture(t)
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.cell}}
	cell.Spec.AdmissionDeadline = &metav1.Duration{Duration: 5 * time.Second}
	holdCell(cell)
	l.create(cell)
	t.Cleanup(func() {
		now := &v1alpha1.Cell{}
		if l.client.Get(context.Background(), client.ObjectKeyFromObject(cell), now) == nil {
			now.Finalizers = nil
			_ = l.client.Update(context.Background(), now)
		}
	})
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	pod := l.createPod("web-0", true)
	l.createPod("web-1", true)
	l.createPod("web-2", true)
	l.run("a")
	l.wantCounts(map[string]int32{l.cell: 3})
	l.reserve(removalOf(l.cell, pod))
	if err := l.client.Delete(t.Context(), cell); err != nil {
		t.Fatal(err)
	}
	// While a removal may be under way the entry stays, but counts for no other cell. The webhook admits no further
	// removals.
	l.eventually(func() string {
		p := l.protector()
		c := quota.CellOf(p, l.cell)
		if c == nil {
			t.Fatal("the entry with its reservation was removed, want it kept")
		}
		if c.Discount != v1alpha1.DiscountDraining || quota.BudgetOf(p).Left() >= 0 {
			return fmt.Sprintf("%+v", c)
		}
		return ""
	})
	p := l.protector()
	if got := quota.Decide(p, []quota.Removal{{Cell: l.cell, PodUID: "another", At: time.Now()}})[0].Outcome; got != quota.DeniedDraining {
		t.Errorf("verdict of another removal is %s", got)
	}
	// The deadline passes: the removal can no longer succeed.
	l.wantCounts(map[string]int32{})
	l.eventually(func() string { // and no later event brings the entry back
		l.createPod(fmt.Sprint("late-", time.Now().UnixNano()), true)
		p := l.protector()
		if len(p.Status.Cells) != 0 {
			t.Fatalf("cells %+v, want no entry", p.Status.Cells)
		}
		if p.Status.Summary.Available != 0 {
			return "something is available"
		}
		return ""
	})

	// A Cell that is created again is counted again, by the same process.
	l.release(cell)
	l.create(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.cell}})
	pods := &corev1.PodList{}
	if err := l.client.List(t.Context(), pods, client.InNamespace(l.namespace)); err != nil {
		t.Fatal(err)
	}
	l.wantCounts(map[string]int32{l.cell: int32(len(pods.Items))})
}

// release removes the finalizer of a held Cell.
func (l *fixture) release(cell *v1alpha1.Cell) {
	l.Helper()
	l.eventually(func() string {
		now := &v1alpha1.Cell{}
		if err := l.client.Get(l.Context(), client.ObjectKeyFromObject(cell), now); err != nil {
			return text(client.IgnoreNotFound(err))
		}
		now.Finalizers = nil
		return text(l.client.Update(l.Context(), now))
	})
}

// The reservations are lost with the entry, so nothing is counted while their removals may still take effect.
func TestClearedCellIsRecountedAfterDeadline(t *testing.T) {
	l := newFixture(t)
	l.create(&v1alpha1.Cell{
		ObjectMeta: metav1.ObjectMeta{Name: l.cell}, Spec: v1alpha1.CellSpec{AdmissionDeadline: &metav1.Duration{Duration: 5 * time.Second}},
	})
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	pod := l.createPod("web-0", true)
	l.createPod("web-1", true)
	l.run("a")
	l.wantCounts(map[string]int32{l.cell: 2})
	l.reserve(removalOf(l.cell, pod))
	l.eventually(func() string {
		p := l.protector()
		c := quota.CellOf(p, l.cell)
		c.Discount, c.AdmissionHistory, c.Aggregation.CountedSpec, c.Aggregation.CountedReplicas = v1alpha1.DiscountCleared, v1alpha1.AdmissionHistory{}, "", 0
		return text(l.client.Status().Update(t.Context(), p))
	})
	cleared := time.Now()
	l.wantCounts(map[string]int32{l.cell: 2})
	if passed := time.Since(cleared); passed < 4900*time.Millisecond {
		t.Errorf("counted %s after it was cleared, want the admission deadline of 5 s to pass", passed)
	}
}
