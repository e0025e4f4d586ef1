package topology

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// configureWebhook makes the worker call the webhook for a cell.
func (l *fixture) configureWebhook(cell string) (worker client.Client, hooks *admissionregistrationv1.ValidatingWebhookConfiguration) {
	l.Helper()
	worker, err := client.New(testplane.Second(l), client.Options{Scheme: clusters.Scheme()})
	l.must(err)
	url, none := "https://127.0.0.1:1"+webhookconfig.RemovalPath(cell), admissionregistrationv1.SideEffectClassNoneOnDryRun
	hooks = &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: cell}}
	hooks.Webhooks = []admissionregistrationv1.ValidatingWebhook{{
		Name: "pods.breakwater.dev", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}, SideEffects: &none,
		AdmissionReviewVersions: []string{"v1"},
		Rules: []admissionregistrationv1.RuleWithOperations{
			{Operations: []admissionregistrationv1.OperationType{"DELETE"}, Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}},
			{Operations: []admissionregistrationv1.OperationType{"CREATE"}, Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/eviction"}}},
			{Operations: []admissionregistrationv1.OperationType{"UPDATE"}, Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "pods/resize", "pods/status"}}},
		},
	}}
	l.must(worker.Create(l.Context(), hooks))
	l.Cleanup(func() { _ = worker.Delete(context.Background(), hooks) })
	return worker, hooks
}

func TestCellHasConnectedAndGuardedConditions(t *testing.T) {
	l := newFixture(t)
	cell := l.reconcile(l.createCell("a", func(s *v1alpha1.CellSpec) {
		s.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: l.namespace, Name: "a"}
	}))
	l.wantCondition(cell, v1alpha1.ConditionConnected, metav1.ConditionFalse, v1alpha1.ReasonSecretMissing, "has no Secret")
	l.wantCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionUnknown, v1alpha1.ReasonConfigurationUnread)
	l.wantEvent("Warning SecretMissing")
	if len(cell.Finalizers) != 1 || cell.Finalizers[0] != v1alpha1.FinalizerCell {
		t.Errorf("got finalizers %q, want only the finalizer of the topology controller", cell.Finalizers)
	}

	l.createKubeconfig("a")
	cell = l.reconcile(cell)
	l.wantCondition(cell, v1alpha1.ConditionConnected, metav1.ConditionTrue, v1alpha1.ReasonConnected)
	l.wantCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonWebhookMissing, webhookconfig.RemovalPath(cell.Name))

	worker, hooks := l.configureWebhook(cell.Name)
	cell = l.reconcile(cell)
	l.wantCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured)

	// Unchanged conditions are not written.
	if again := l.reconcile(cell); again.ResourceVersion != cell.ResourceVersion {
		t.Errorf("resourceVersion %s after a second reconciliation, want %s", again.ResourceVersion, cell.ResourceVersion)
	}
	l.drainEvents()

	ignore := admissionregistrationv1.Ignore
	hooks.Webhooks[0].FailurePolicy = &ignore
	l.must(worker.Update(t.Context(), hooks))
	cell = l.reconcile(cell)
	l.wantCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonWebhookWeakened, "failurePolicy Ignore")
	l.must(worker.Delete(t.Context(), hooks))
	cell = l.reconcile(cell)
	l.wantCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonWebhookMissing)
	l.wantEvent("Warning WebhookMissing")
}

func TestCellSaysWhetherAReplicaOfTheWebhookIsReady(t *testing.T) {
	l := newFixture(t)
	cell := l.createCell("a", l.createKubeconfig("a"))
	worker, hooks := l.configureWebhook(cell.Name)
	cell = l.reconcile(cell)
	if meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionWebhookAvailable) != nil {
		t.Errorf("conditions %+v, want none on the replicas of a webhook with a URL", cell.Status.Conditions)
	}

	path := webhookconfig.RemovalPath(cell.Name)
	hooks.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{
		Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: cell.Name, Path: &path},
	}
	l.must(worker.Update(t.Context(), hooks))
	if cell = l.reconcile(cell); meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionWebhookAvailable) != nil {
		t.Errorf("conditions %+v, want none on the replicas of a Service without EndpointSlices", cell.Status.Conditions)
	}

	isReady, isNotReady := true, false
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: cell.Name, Labels: map[string]string{discoveryv1.LabelServiceName: cell.Name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: &isNotReady}}},
	}
	l.must(worker.Create(t.Context(), slice))
	l.Cleanup(func() { _ = worker.Delete(context.Background(), slice) })
	l.drainEvents()
	cell = l.reconcile(cell)
	l.wantCondition(cell, v1alpha1.ConditionWebhookAvailable, metav1.ConditionFalse, v1alpha1.ReasonNoReplicaReady, "default/"+cell.Name)
	l.wantCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured)
	l.wantEvent("Warning NoReplicaReady")

	slice.Endpoints[0].Conditions.Ready = &isReady
	l.must(worker.Update(t.Context(), slice))
	cell = l.reconcile(cell)
	l.wantCondition(cell, v1alpha1.ConditionWebhookAvailable, metav1.ConditionTrue, v1alpha1.ReasonReplicasReady)
	slice.Endpoints = nil
	l.must(worker.Update(t.Context(), slice))
	cell = l.reconcile(cell)
	l.wantCondition(cell, v1alpha1.ConditionWebhookAvailable, metav1.ConditionFalse, v1alpha1.ReasonNoReplicaReady)

	// Without a way to ask, the controller does not repeat what it knew.
	cell.Spec.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: l.namespace, Name: "none"}
	l.must(l.Update(t.Context(), cell))
	l.wantCondition(l.reconcile(cell), v1alpha1.ConditionWebhookAvailable, metav1.ConditionUnknown, v1alpha1.ReasonEndpointsUnread)
}

func TestCellWithoutKubeconfigUsesConfiguredConnection(t *testing.T) {
	l := newFixture(t)
	cell := l.reconcile(l.createCell("a", func(*v1alpha1.CellSpec) {}))
	l.wantCondition(cell, v1alpha1.ConditionConnected, metav1.ConditionUnknown, v1alpha1.ReasonNoKubeconfig)

	l.Cells = map[string]*rest.Config{cell.Name: testplane.Second(t)}
	cell = l.reconcile(cell)
	l.wantCondition(cell, v1alpha1.ConditionConnected, metav1.ConditionTrue, v1alpha1.ReasonConnected)
	l.wantCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonWebhookMissing, webhookconfig.RemovalPath(cell.Name))

	// The configured connection may also lead to the wrong cluster.
	cell.Status.Cluster = "another"
	l.must(l.Status().Update(t.Context(), cell))
	l.wantCondition(l.reconcile(cell), v1alpha1.ConditionConnected, metav1.ConditionFalse, v1alpha1.ReasonAnotherCluster)

	// A Secret takes precedence.
	cell = l.get(cell)
	cell.Spec.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: l.namespace, Name: "none"}
	l.must(l.Update(t.Context(), cell))
	l.wantCondition(l.reconcile(cell), v1alpha1.ConditionConnected, metav1.ConditionFalse, v1alpha1.ReasonSecretMissing)
}

func TestCellWithPodSelectorNeedsLabelPolicy(t *testing.T) {
	l := newFixture(t)
	selector := &v1alpha1.PodSelector{MatchLabels: map[string]string{"cell": "a"}}
	refer := l.createKubeconfig("a")
	cell := l.createCell("a", func(s *v1alpha1.CellSpec) { refer(s); s.PodSelector = selector })
	worker, _ := l.configureWebhook(cell.Name)
	cell = l.reconcile(cell)
	l.wantCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonLabelsNotFixed, webhookconfig.LabelsName(cell.Name))
	policy, binding := webhookconfig.LabelPolicy(cell.Name, selector), webhookconfig.LabelBinding(cell.Name)
	l.must(worker.Create(t.Context(), policy))
	l.must(worker.Create(t.Context(), binding))
	t.Cleanup(func() {
		_ = worker.Delete(context.Background(), binding)
		_ = worker.Delete(context.Background(), policy)
	})
	l.wantCondition(l.reconcile(cell), v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured)
}

func TestScopeProtectedNeedsNamespacePolicy(t *testing.T) {
	l := newFixture(t)
	cell := l.createCell("a", l.createKubeconfig("a"))
	worker, hooks := l.configureWebhook(cell.Name)
	selector := &hooks.Webhooks[0].NamespaceSelector
	if *selector == nil {
		*selector = &metav1.LabelSelector{}
	}
	(*selector).MatchExpressions = append((*selector).MatchExpressions, webhookconfig.ProtectedRequirement())
	l.must(worker.Update(t.Context(), hooks))
	cell = l.reconcile(cell)
	l.wantCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonLabelsNotFixed, webhookconfig.ProtectedName(cell.Name))
	policy, binding := webhookconfig.ProtectedPolicy(cell.Name, []string{"aggregator"}), webhookconfig.ProtectedBinding(cell.Name)
	l.must(worker.Create(t.Context(), policy))
	l.must(worker.Create(t.Context(), binding))
	t.Cleanup(func() {
		_ = worker.Delete(context.Background(), binding)
		_ = worker.Delete(context.Background(), policy)
	})
	l.wantCondition(l.reconcile(cell), v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured, "in namespaces with the label")
}

func TestOverlappingCellsHaveCondition(t *testing.T) {
	l := newFixture(t)
	refer := l.createKubeconfig("a")
	some := func(namespaces ...string) func(*v1alpha1.CellSpec) {
		return func(s *v1alpha1.CellSpec) { refer(s); s.Namespaces = namespaces }
	}
	a, b, c := l.createCell("a", some("x", "y")), l.createCell("b", some("y", "z")), l.createCell("c", some("v"))
	elsewhere := l.createCell("elsewhere", func(s *v1alpha1.CellSpec) { s.Namespaces = []string{"y"} }) // its cluster is unknown
	for _, cell := range []*v1alpha1.Cell{a, b, c, elsewhere} {
		l.reconcile(cell)
	}
	l.wantCondition(l.reconcile(a), v1alpha1.ConditionOverlapping, metav1.ConditionTrue, v1alpha1.ReasonCellsOverlap, b.Name)
	l.wantCondition(l.reconcile(b), v1alpha1.ConditionOverlapping, metav1.ConditionTrue, v1alpha1.ReasonCellsOverlap, a.Name)
	for _, cell := range []*v1alpha1.Cell{c, elsewhere} {
		for _, condition := range l.reconcile(cell).Status.Conditions {
			if condition.Type == v1alpha1.ConditionOverlapping {
				t.Errorf("%s has the condition Overlapping, want none: %+v", cell.Name, condition)
			}
		}
	}
	l.must(l.Delete(t.Context(), l.get(b)))
	l.reconcile(b)
	l.clock = l.clock.Add(lastEntries)
	l.reconcile(b)
	l.wantCondition(l.reconcile(a), v1alpha1.ConditionOverlapping, metav1.ConditionFalse, v1alpha1.ReasonDisjoint)
}

func withDiscount(s *v1alpha1.CellSpec) {
	s.WhenStale, s.StaleAfter = v1alpha1.WhenStaleDiscount, &metav1.Duration{Duration: 30 * time.Second}
}

func TestSilentCellIsDiscountedWhenRequested(t *testing.T) {
	l := newFixture(t)
	silent, trusted, other := l.createCell("quiet", withDiscount), l.createCell("trusted", func(*v1alpha1.CellSpec) {}), l.createCell("other", withDiscount)
	p := l.protect(6, silent, trusted, other)
	all := []*v1alpha1.Cell{silent, trusted, other}
	reconcileAll := func() {
		for _, cell := range all {
			l.reconcile(cell)
		}
	}
	for _, cell := range all {
		l.writeHeartbeat(cell)
	}
	reconcileAll()
	for range 2 { // the controller observes that heartbeats change
		l.clock = l.clock.Add(20 * time.Second)
		for _, cell := range all {
			l.writeHeartbeat(cell)
		}
		reconcileAll()
	}
	l.wantCondition(l.get(silent), v1alpha1.ConditionAggregationFresh, metav1.ConditionTrue, v1alpha1.ReasonHeartbeatSeen)
	if now := l.protector(p); quota.BudgetOf(now).Left() != 9 {
		t.Fatalf("got budget %+v, want 9 remaining", quota.BudgetOf(now))
	}
	for range 4 {
		l.clock = l.clock.Add(20 * time.Second)
		l.writeHeartbeat(other)
		reconcileAll()
	}
	l.wantCondition(l.get(silent), v1alpha1.ConditionAggregationFresh, metav1.ConditionFalse, v1alpha1.ReasonNoHeartbeat, "do not count for removals in other cells")
	l.wantCondition(l.get(trusted), v1alpha1.ConditionAggregationFresh, metav1.ConditionFalse, v1alpha1.ReasonNoHeartbeat, "as in the last report")
	l.wantCondition(l.get(other), v1alpha1.ConditionAggregationFresh, metav1.ConditionTrue, v1alpha1.ReasonHeartbeatSeen)
	now := l.protector(p)
	for cell, want := range map[*v1alpha1.Cell]v1alpha1.Discount{silent: v1alpha1.DiscountStale, trusted: "", other: ""} {
		if got := quota.CellOf(now, cell.Name).Discount; got != want {
			t.Errorf("cell %s has the discount %q, want %q", cell.Name, got, want)
		}
	}
	if now.Status.DisruptionsAllowed != 4 {
		t.Errorf("got %d allowed disruptions, want 4", now.Status.DisruptionsAllowed)
	}
	// A change to Trust needs no aggregator.
	cell := l.get(silent)
	cell.Spec.WhenStale = v1alpha1.WhenStaleTrust
	l.must(l.Update(t.Context(), cell))
	l.reconcile(silent)
	if got := quota.CellOf(l.protector(p), silent.Name).Discount; got != "" {
		t.Errorf("cell that is trusted again has the discount %q, want none", got)
	}
}

// Each process that takes a cell removes the heartbeat of its predecessor. One that starts again and again without reaching the cell must not keep it fresh.
func TestTakingACellIsNoSignOfLife(t *testing.T) {
	l := newFixture(t)
	cell := l.createCell("restarting", withDiscount)
	for range 3 {
		l.clock = l.clock.Add(20 * time.Second)
		l.writeHeartbeat(cell)
		l.reconcile(cell)
	}
	l.wantCondition(l.get(cell), v1alpha1.ConditionAggregationFresh, metav1.ConditionTrue, v1alpha1.ReasonHeartbeatSeen)
	for epoch := range 3 {
		l.clock = l.clock.Add(10 * time.Second)
		now := l.get(cell)
		now.Status.Aggregator = v1alpha1.CellAggregator{Holder: fmt.Sprint("b", epoch), Epoch: int64(epoch + 2)}
		l.must(l.Client.Status().Update(t.Context(), now))
		l.reconcile(cell)
	}
	l.wantCondition(l.get(cell), v1alpha1.ConditionAggregationFresh, metav1.ConditionFalse, v1alpha1.ReasonNoHeartbeat)
}

// clearCell requests that a cell is cleared, and returns the result of the request.
func (l *fixture) clearCell(p *v1alpha1.PodProtector, cell string) (reconcile.Result, *v1alpha1.PodProtector) {
	l.Helper()
	now := l.protector(p)
	if now.Annotations[v1alpha1.AnnotationRemoveCell] == "" {
		metav1.SetMetaDataAnnotation(&now.ObjectMeta, v1alpha1.AnnotationRemoveCell, cell)
		l.must(l.Update(l.Context(), now))
	}
	result, err := Clearer{l.Reconciler}.Reconcile(l.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)})
	l.must(err)
	return result, l.protector(p)
}

func TestOnlyDeadCellIsCleared(t *testing.T) {
	l := newFixture(t)
	cell := l.createCell("a", withDiscount)
	missing := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "-gone"}}
	p := l.protect(6, cell, missing)
	reserved := l.protector(p)
	quota.Decide(reserved, []quota.Removal{{Cell: cell.Name, PodUID: uuid.NewUUID(), At: time.Now()}, {Cell: missing.Name, PodUID: uuid.NewUUID(), At: time.Now()}})
	quota.SetEscrow(&quota.CellOf(reserved, cell.Name).AdmissionHistory, "stopped", 2, 1)
	l.must(l.Client.Status().Update(t.Context(), reserved))

	l.writeHeartbeat(cell)
	result, now := l.clearCell(p, cell.Name)
	if result.RequeueAfter == 0 || quota.CellOf(now, cell.Name).Discount != "" {
		t.Fatalf("cell with unknown heartbeat was cleared: %+v, %+v", result, now.Status.Cells)
	}
	l.clock = l.clock.Add(10 * time.Second)
	l.writeHeartbeat(cell)
	if _, now = l.clearCell(p, cell.Name); quota.CellOf(now, cell.Name).Discount != "" || now.Annotations[v1alpha1.AnnotationRemoveCell] != "" {
		t.Fatalf("live cell was cleared: %+v %+v", now.Annotations, now.Status.Cells)
	}
	l.wantEvent("Warning CellAlive")

	l.clock = l.clock.Add(time.Minute)
	_, now = l.clearCell(p, cell.Name)
	entry := quota.CellOf(now, cell.Name)
	if entry == nil || entry.Discount != v1alpha1.DiscountCleared || quota.Open(&entry.AdmissionHistory) != 0 || entry.Aggregation.CountedReplicas != 0 ||
		entry.Aggregation.Epoch != 3 || now.Annotations[v1alpha1.AnnotationRemoveCell] != "" {
		t.Fatalf("dead cell was not cleared: %+v %+v", now.Annotations, now.Status.Cells)
	}
	l.wantEvent("Warning CellCleared")
	if b := quota.BudgetOf(now); b.Available != 5 || b.Reserved != 1 {
		t.Errorf("got budget %+v, want 5 pods and 1 reservation, of the other cell", b)
	}

	if _, now = l.clearCell(p, missing.Name); quota.CellOf(now, missing.Name) != nil {
		t.Errorf("entry of a deleted Cell was not removed: %+v", now.Status.Cells)
	}
	l.clearCell(p, "nothing")
	l.wantEvent("NothingToRemove")
}

// The cell may be dead for the core alone, and other cells decide on their shares without the core.
func TestDeadCellIsClearedWhenOtherSharesKeepTheFloor(t *testing.T) {
	l := newFixture(t)
	other := l.createCell("a", withDiscount)
	dead := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "-gone"}}
	p := l.protect(6, other, dead)
	share := func(cell string, floor int32) {
		t.Helper()
		now := l.protector(p)
		entry, latest := quota.CellOf(now, cell), strconv.Itoa(math.MaxInt)
		entry.Aggregation.TermVersion, entry.Share = latest, &v1alpha1.CellShare{Floor: floor, TermVersion: latest}
		l.must(l.Client.Status().Update(t.Context(), now))
	}
	share(other.Name, 3)
	share(dead.Name, 3)
	for range 2 {
		result, now := l.clearCell(p, dead.Name)
		if entry := quota.CellOf(now, dead.Name); entry == nil || entry.Discount != v1alpha1.DiscountDraining || result.RequeueAfter == 0 {
			t.Fatalf("result %+v, entries %+v, want that of the dead cell, which is draining", result, now.Status.Cells)
		}
	}
	l.wantEvent("Normal WaitingForShares")
	share(other.Name, 6)
	if _, now := l.clearCell(p, dead.Name); quota.CellOf(now, dead.Name) != nil || now.Annotations[v1alpha1.AnnotationRemoveCell] != "" {
		t.Errorf("the entry of the dead cell stays: %+v %+v", now.Annotations, now.Status.Cells)
	}
}

func TestDeletedCellIsHeldUntilNoProtectorHasItsEntry(t *testing.T) {
	l := newFixture(t)
	cell := l.reconcile(l.createCell("a", withDiscount))
	p, q := l.protect(6, cell), l.protect(7, cell)
	l.must(l.Delete(t.Context(), cell))
	if l.reconcile(cell) == nil {
		t.Fatal("Cell was deleted while protectors have its entry")
	}
	drained := l.protector(p)
	quota.DropCell(drained, cell.Name)
	l.must(l.Client.Status().Update(t.Context(), drained))
	if l.reconcile(cell) == nil {
		t.Fatal("Cell was deleted while a protector has its entry")
	}
	// The aggregator is dead, and an operator clears the other protector.
	l.clearCell(q, cell.Name)
	l.clock = l.clock.Add(time.Minute)
	l.clearCell(q, cell.Name)
	if now := l.reconcile(cell); now != nil {
		t.Errorf("Cell exists, want it deleted: %+v", now.ObjectMeta)
	}
	if left := l.protector(q).Status.Cells; len(left) != 0 {
		t.Errorf("cleared entry exists: %+v", left)
	}
}
