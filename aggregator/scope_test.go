package aggregator_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// withCell returns the lab with another Cell of this spec.
func (l *fixture) withCell(cell string, spec v1alpha1.CellSpec) *fixture {
	l.Helper()
	other := *l
	other.cell = l.namespace + "-" + cell
	other.create(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: other.cell}, Spec: spec})
	return &other
}

func ofCell(label string) v1alpha1.CellSpec {
	return v1alpha1.CellSpec{PodSelector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"cell": label}}}
}

func (l *fixture) createPodIn(name, label string) *corev1.Pod {
	l.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: l.namespace, Name: name, Labels: map[string]string{"app": "web", "cell": label},
	}}
	p.Spec.NodeName = "node-1"
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	l.create(p)
	l.setReady(p, true)
	return p
}

// wantCounts waits until exactly these cells have counted that many pods of the protector.
func (l *fixture) wantCounts(want map[string]int32) *v1alpha1.PodProtector {
	l.Helper()
	var p *v1alpha1.PodProtector
	l.eventually(func() string {
		p = l.protector()
		if len(p.Status.Cells) != len(want) {
			return fmt.Sprintf("status %+v, want %v", p.Status, want)
		}
		for cell, counted := range want {
			if c := quota.CellOf(p, cell); c == nil || c.Aggregation.CountedReplicas != counted {
				return fmt.Sprintf("cell %s is %+v, want %d", cell, c, counted)
			}
		}
		return ""
	})
	return p
}

func TestCellsOfOneClusterPartitionPods(t *testing.T) {
	l := newFixture(t)
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	for i, label := range []string{"a", "a", "a", "b", "b", "c"} {
		l.createPodIn(fmt.Sprint("web-", i), label)
	}
	a, b := l.withCell("a", ofCell("a")), l.withCell("b", ofCell("b"))
	a.run("a")
	b.run("b")
	l.wantCounts(map[string]int32{a.cell: 3, b.cell: 2})
	// Pods that are created later count too.
	l.createPodIn("web-6", "b")
	p := l.wantCounts(map[string]int32{a.cell: 3, b.cell: 3})
	if p.Status.Summary.Available != 6 {
		t.Errorf("summary %+v, want 6 available", p.Status.Summary)
	}
}

func TestCellOfNamespacesHasOnlyTheirPods(t *testing.T) {
	l := newFixture(t)
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	l.createPod("web-0", true)
	here := l.withCell("here", v1alpha1.CellSpec{Namespaces: []string{l.namespace, "another"}})
	elsewhere := l.withCell("elsewhere", v1alpha1.CellSpec{Namespaces: []string{"another"}})
	here.run("here")
	elsewhere.run("elsewhere")
	// The other aggregator reports, and writes no entry for a protector whose pods its cell cannot have.
	l.eventually(func() string {
		cell := &v1alpha1.Cell{}
		if err := l.client.Get(t.Context(), client.ObjectKey{Name: elsewhere.cell}, cell); err != nil {
			return err.Error()
		}
		if cell.Status.Aggregator.LastHeartbeat == nil || cell.Status.Pods != 0 {
			return fmt.Sprintf("status %+v", cell.Status)
		}
		return ""
	})
	l.wantCounts(map[string]int32{here.cell: 1})
	l.createPod("web-1", true)
	l.wantCounts(map[string]int32{here.cell: 2})
}

// A change of its labels moves a pod to another cell, while its removal is under way in the first.
func TestPodThatChangesCellIsNeverCountedTwice(t *testing.T) {
	l := newFixture(t)
	l.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	stray := l.createPodIn("stray", "a")
	l.createPodIn("web-0", "a")
	l.createPodIn("web-1", "b")
	a, b := l.withCell("a", ofCell("a")), l.withCell("b", ofCell("b"))
	a.run("a")
	b.run("b")
	l.wantCounts(map[string]int32{a.cell: 2, b.cell: 1})
	l.reserve(removalOf(a.cell, stray))
	l.eventually(func() string {
		p := &corev1.Pod{}
		if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(stray), p); err != nil {
			return err.Error()
		}
		p.Labels["cell"] = "b"
		return fmt.Sprint(text(l.client.Update(t.Context(), p)))
	})
	l.createPodIn("web-2", "b") // the other cell has seen all events before this one
	p := l.wantCounts(map[string]int32{a.cell: 1, b.cell: 2})
	if reserved := quota.BudgetOf(p).Reserved; reserved != 1 {
		t.Errorf("%d removals are reserved, want that of the pod that has left: %+v", reserved, p.Status.Cells)
	}
	grace := int64(0)
	if err := l.client.Delete(t.Context(), stray, &client.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatal(err)
	}
	l.eventually(func() string {
		if b := quota.BudgetOf(l.protector()); b.Reserved != 0 || b.Available != 3 {
			return fmt.Sprintf("budget %+v, want 3 available and nothing reserved", b)
		}
		return ""
	})
}
