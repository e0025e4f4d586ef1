package rootguard_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	core "github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// workerFixture is the API server of a worker, whose cell has a share of 3 of its 4 pods. The protector, with a floor of 5, is in another API
// server.
type workerFixture struct {
	*fixture
	share *v1alpha1.PodProtector
	copy  *v1alpha1.Cell
}

func newWorkerFixture(t *testing.T, mode core.Mode) *workerFixture {
	t.Helper()
	w := &workerFixture{}
	w.fixture = newFixtureOf(t, func(mgr manager.Manager) map[string]cluster.Cluster {
		of, err := cluster.New(testplane.Second(t), func(o *cluster.Options) { o.Scheme, o.Cache = clusters.Scheme(), clusters.CacheOptions() })
		if err != nil {
			t.Fatal(err)
		}
		return map[string]cluster.Cluster{"core": of, "shares": mgr}
	}, mode)
	second, err := client.New(testplane.Second(t), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	web := w.protectorNamed("web", 5)
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, web} {
		if err := second.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	w.count(second, web)
	w.share = w.protectorNamed("web.share-1", 3)
	w.share.Spec.ShareOf = &v1alpha1.ShareOf{Name: "web", UID: string(web.UID), Cell: w.cell}
	w.copy = &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: w.cell}}
	w.create(w.share)
	w.create(w.copy)
	w.count(w.Client, w.share)
	w.configure(core.ClusterIdentity{Core: "shares", Cells: []string{w.cell}})
	return w
}

func (w *workerFixture) protectorNamed(name string, floor int32) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(floor)
	return p
}

func TestClientsOfAWorkerAreWarnedAboutShares(t *testing.T) {
	w := newWorkerFixture(t, core.Warn)
	head := func(what string) string {
		return "Breakwater: 1 share of 1 floor that keeps 3 pods available in this cluster (now 4) depends on " + what + ": "
	}
	const recreates = "removals of these pods are denied until Breakwater has recreated the shares, for which it needs their core clusters"
	for _, name := range []string{"podprotectors.breakwater.dev", "cells.breakwater.dev"} {
		w.wantWarned(definition(name), head(fmt.Sprintf("CustomResourceDefinition %q", name))+recreates)
	}
	w.wantWarned(w.share, head(fmt.Sprintf("PodProtector %q", w.namespace+"/web.share-1"))+recreates)
	w.wantWarned(w.copy, head(fmt.Sprintf("Cell %q", w.cell))+
		"Breakwater does not count their pods until it has recreated the Cell, for which it needs their core clusters")
	w.wantWarned(definition("podschedulingpolicies.breakwater.dev"))

	// The floor is counted once, although its share depends on them as well.
	const text = "Breakwater: 1 floor that keeps 5 pods available (now 4, 4 of them in this cluster) depends on %s %q: " +
		"it stays in force, and the webhook denies removals of pods beyond the budget"
	w.wantWarned(w.getNamespace(), fmt.Sprintf(text, "Namespace", w.namespace))
	w.wantWarned(w.deployment("web"), fmt.Sprintf(text, "Deployment", w.namespace+"/web"))
}

func TestDeletionOfSharesIsDeniedUntilConfirmed(t *testing.T) {
	w := newWorkerFixture(t, core.Deny)
	const shares = "1 share of 1 floor that keeps 3 pods available in this cluster (now 4) depends on it"
	crd := definition("podprotectors.breakwater.dev")
	for _, object := range []client.Object{crd, definition("cells.breakwater.dev"), w.copy, w.share} {
		w.wantDenied(w.dryRunDelete(object), "Breakwater denies the deletion of", object.GetName(), shares, "breakwater.dev/confirm-release=true")
	}
	w.wantDenied(w.Delete(t.Context(), w.copy), shares)
	w.wantDenied(w.DeleteAllOf(t.Context(), &v1alpha1.PodProtector{}, client.InNamespace(w.namespace)), shares)

	for _, object := range []client.Object{crd, w.copy, w.share} {
		w.annotate(object, "true")
		if p, ok := object.(*v1alpha1.PodProtector); ok {
			w.awaitCached(p)
		}
		if w.takeWarnings(); w.dryRunDelete(object) != nil || len(w.takeWarnings()) != 1 {
			t.Errorf("the dry run of the confirmed deletion of %s is denied, or gets no answer", object.GetName())
		}
		w.annotate(object, "no")
		if p, ok := object.(*v1alpha1.PodProtector); ok {
			w.awaitCached(p)
		}
		w.wantDenied(w.dryRunDelete(object), shares)
	}
}

// Aggregators delete the shares that a cell no longer has. A closed share decides nothing, so any client may delete it.
func TestSharesOfALeavingCellMayBeDeleted(t *testing.T) {
	w := newWorkerFixture(t, core.Deny)
	aggregator := w.impersonate(rest.ImpersonationConfig{
		UserName: "system:serviceaccount:breakwater-system:breakwater-aggregator", Groups: []string{"system:serviceaccounts:breakwater-system", "system:masters"},
	})
	w.wantDenied(w.dryRunDelete(w.share), "PodProtector")
	if err := aggregator.Delete(t.Context(), w.share, client.DryRunAll); err != nil {
		t.Errorf("deletion by the aggregator: %v, want it allowed", err)
	}
	w.share.Spec.ShareOf.Closed = true
	if err := w.Update(t.Context(), w.share); err != nil {
		t.Fatal(err)
	}
	w.awaitCached(w.share)
	w.wantWarned(w.share)
	w.wantWarned(w.copy)
}
