package webhook_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// onlyByCells makes the replica serve only cells that the core's Cells name.
func onlyByCells(s *replicaOptions) { s.cell, s.useCells = nil, true }

// withCells names the fixture's cell by a flag, and takes its pods from its Cell.
func withCells(s *replicaOptions) { s.useCells = true }

func (l *fixture) createCell(change func(*v1alpha1.CellSpec)) *v1alpha1.Cell {
	l.Helper()
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.cell}}
	change(&cell.Spec)
	l.create(cell)
	l.Cleanup(func() { _ = l.client.Delete(context.Background(), cell) })
	return cell
}

// kubeconfig stores the kubeconfig of a new ServiceAccount in the Secret of the fixture's cell.
func (l *fixture) kubeconfig(account string) {
	l.Helper()
	config := testplane.AsServiceAccount(l, l.config, l.namespace, account, "cluster-admin")
	testplane.StoreKubeconfig(l, l.client, l.namespace, "cell", testplane.KubeconfigOf(l, config))
}

func TestCellsChangeAtRunTime(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 1, 9)
	pods := l.pods(4)
	r := l.serve(onlyByCells)
	r.register(register.Endpoint{URL: "https://" + r.server.Address(), CABundle: r.authority.pem()})
	unknown := fmt.Sprintf("Breakwater does not know cell %q", l.cell)
	l.eventually(func() string {
		if err := l.client.Delete(t.Context(), pods[0].DeepCopy(), client.DryRunAll); err == nil || !strings.Contains(err.Error(), unknown) {
			return fmt.Sprintf("cell that does not exist: %v", err)
		}
		return ""
	})

	cell := l.createCell(func(s *v1alpha1.CellSpec) {
		s.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: l.namespace, Name: "cell"}
	})
	l.eventually(func() string { return errorText(deletion(l, pods[0])) }) // a deletion needs no kubeconfig
	wantDenied(t, eviction(l, pods[1]), "cannot be read from cell", "the core cluster has no Secret "+l.namespace+"/cell")
	l.kubeconfig("first")
	l.eventually(func() string { return errorText(eviction(l, pods[1])) })

	l.kubeconfig("second")
	accounts := kubernetes.NewForConfigOrDie(l.config).CoreV1().ServiceAccounts(l.namespace)
	if err := accounts.Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l.eventually(func() string { return errorText(eviction(l, pods[2])) })
	l.wantReserved("web", 3)

	if err := l.client.Delete(t.Context(), cell); err != nil {
		t.Fatal(err)
	}
	l.eventually(func() string {
		if err := l.client.Delete(t.Context(), pods[3].DeepCopy(), client.DryRunAll); err == nil || !strings.Contains(err.Error(), unknown) {
			return fmt.Sprintf("a cell that is gone: %v", err)
		}
		return ""
	})
}

func TestRemovalIsChargedToCellOfPod(t *testing.T) {
	for claim, spec := range map[string]func(l *fixture, s *v1alpha1.CellSpec){
		"of a selector": func(_ *fixture, s *v1alpha1.CellSpec) {
			s.PodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"cell": "a"}}
		},
		"of namespaces": func(l *fixture, s *v1alpha1.CellSpec) { s.Namespaces = []string{l.namespace + "-other"} },
	} {
		for name, remove := range removalMethods() {
			t.Run(claim+", "+name, func(t *testing.T) {
				l := newFixture(t)
				l.protect("web", 5, 5)
				l.createCell(func(s *v1alpha1.CellSpec) { spec(l, s) })
				own := l.pod("own", func(p *corev1.Pod) { p.Labels["cell"] = "a" })
				others := l.pod("others", func(p *corev1.Pod) { p.Labels["cell"] = "b" })
				r := l.serve(withCells).guard()
				if claim == "of a selector" {
					wantDenied(t, remove(l, own), "floor 5")
				}
				if err := remove(l, others); err != nil {
					t.Errorf("the removal of another cell's pod: %v", err)
				}
				l.wantReserved("web", 0)
				if got := r.count("breakwater_webhook_reviews_total", "verdict", "OtherCell"); got == 0 {
					t.Error("no review has the verdict OtherCell")
				}
			})
		}
	}
}
