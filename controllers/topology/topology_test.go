package topology

import (
	"context"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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

// configure makes the worker call the webhook for a cell.
func (l *lab) configure(cell string) (worker client.Client, hooks *admissionregistrationv1.ValidatingWebhookConfiguration) {
	l.Helper()
	worker, err := client.New(testplane.Second(l), client.Options{Scheme: clusters.Scheme()})
	l.must(err)
	url, none := "https://127.0.0.1:1"+webhookconfig.Path(cell), admissionregistrationv1.SideEffectClassNoneOnDryRun
	hooks = &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: cell}}
	hooks.Webhooks = []admissionregistrationv1.ValidatingWebhook{{
		Name: "pods.breakwater.dev", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}, SideEffects: &none,
		AdmissionReviewVersions: []string{"v1"},
		Rules: []admissionregistrationv1.RuleWithOperations{
			{Operations: []admissionregistrationv1.OperationType{"DELETE"}, Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}},
			{Operations: []admissionregistrationv1.OperationType{"CREATE"}, Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/eviction"}}},
			{Operations: []admissionregistrationv1.OperationType{"UPDATE"}, Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "pods/resize"}}},
		},
	}}
	l.must(worker.Create(l.Context(), hooks))
	l.Cleanup(func() { _ = worker.Delete(context.Background(), hooks) })
	return worker, hooks
}

func TestACellIsConnectedAndGuardedOrIsToldWhyNot(t *testing.T) {
	l := newLab(t)
	cell := l.look(l.cell("a", func(s *v1alpha1.CellSpec) {
		s.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: l.namespace, Name: "a"}
	}))
	l.want(cell, v1alpha1.ConditionConnected, metav1.ConditionFalse, v1alpha1.ReasonSecretMissing, "has no Secret")
	l.want(cell, v1alpha1.ConditionGuarded, metav1.ConditionUnknown, v1alpha1.ReasonConfigurationUnread)
	l.wantEvent("Warning SecretMissing")
	if len(cell.Finalizers) != 1 || cell.Finalizers[0] != v1alpha1.FinalizerCell {
		t.Errorf("finalizers %q", cell.Finalizers)
	}

	l.worker("a")
	cell = l.look(cell)
	l.want(cell, v1alpha1.ConditionConnected, metav1.ConditionTrue, v1alpha1.ReasonConnected)
	l.want(cell, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonWebhookMissing, webhookconfig.Path(cell.Name))

	worker, hooks := l.configure(cell.Name)
	cell = l.look(cell)
	l.want(cell, v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured)

	// Unchanged conditions are not written.
	if again := l.look(cell); again.ResourceVersion != cell.ResourceVersion {
		t.Errorf("version %s after another look, want %s", again.ResourceVersion, cell.ResourceVersion)
	}
	l.announced()

	ignore := admissionregistrationv1.Ignore
	hooks.Webhooks[0].FailurePolicy = &ignore
	l.must(worker.Update(t.Context(), hooks))
	cell = l.look(cell)
	l.want(cell, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonWebhookWeakened, "failurePolicy Ignore")
	l.must(worker.Delete(t.Context(), hooks))
	cell = l.look(cell)
	l.want(cell, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonWebhookMissing)
	l.wantEvent("Warning WebhookMissing")
}

func TestACellWithoutAKubeconfigIsLookedAtAsTheControllerWasTold(t *testing.T) {
	l := newLab(t)
	cell := l.look(l.cell("a", func(*v1alpha1.CellSpec) {}))
	l.want(cell, v1alpha1.ConditionConnected, metav1.ConditionUnknown, v1alpha1.ReasonNoKubeconfig)

	l.Cells = map[string]*rest.Config{cell.Name: testplane.Second(t)}
	cell = l.look(cell)
	l.want(cell, v1alpha1.ConditionConnected, metav1.ConditionTrue, v1alpha1.ReasonConnected)
	l.want(cell, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonWebhookMissing, webhookconfig.Path(cell.Name))

	// The configured connection may also lead to the wrong cluster.
	cell.Status.Cluster = "another"
	l.must(l.Status().Update(t.Context(), cell))
	l.want(l.look(cell), v1alpha1.ConditionConnected, metav1.ConditionFalse, v1alpha1.ReasonAnotherCluster)

	// A Secret takes precedence.
	cell = l.now(cell)
	cell.Spec.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: l.namespace, Name: "none"}
	l.must(l.Update(t.Context(), cell))
	l.want(l.look(cell), v1alpha1.ConditionConnected, metav1.ConditionFalse, v1alpha1.ReasonSecretMissing)
}

func TestTheLabelsOfACellOfASelectorAreToBeHeld(t *testing.T) {
	l := newLab(t)
	selector := &v1alpha1.PodSelector{MatchLabels: map[string]string{"cell": "a"}}
	refer := l.worker("a")
	cell := l.cell("a", func(s *v1alpha1.CellSpec) { refer(s); s.PodSelector = selector })
	worker, _ := l.configure(cell.Name)
	cell = l.look(cell)
	l.want(cell, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonLabelsNotFixed, webhookconfig.LabelsName(cell.Name))
	policy, binding := webhookconfig.LabelPolicy(cell.Name, selector), webhookconfig.LabelBinding(cell.Name)
	l.must(worker.Create(t.Context(), policy))
	l.must(worker.Create(t.Context(), binding))
	t.Cleanup(func() {
		_ = worker.Delete(context.Background(), binding)
		_ = worker.Delete(context.Background(), policy)
	})
	l.want(l.look(cell), v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured)
}

func TestCellsOfTheSamePodsAreToldOfEachOther(t *testing.T) {
	l := newLab(t)
	refer := l.worker("a")
	some := func(namespaces ...string) func(*v1alpha1.CellSpec) {
		return func(s *v1alpha1.CellSpec) { refer(s); s.Namespaces = namespaces }
	}
	a, b, c := l.cell("a", some("x", "y")), l.cell("b", some("y", "z")), l.cell("c", some("v"))
	elsewhere := l.cell("elsewhere", func(s *v1alpha1.CellSpec) { s.Namespaces = []string{"y"} }) // its cluster is unknown
	for _, cell := range []*v1alpha1.Cell{a, b, c, elsewhere} {
		l.look(cell)
	}
	l.want(l.look(a), v1alpha1.ConditionOverlapping, metav1.ConditionTrue, v1alpha1.ReasonCellsOverlap, b.Name)
	l.want(l.look(b), v1alpha1.ConditionOverlapping, metav1.ConditionTrue, v1alpha1.ReasonCellsOverlap, a.Name)
	for _, cell := range []*v1alpha1.Cell{c, elsewhere} {
		for _, condition := range l.look(cell).Status.Conditions {
			if condition.Type == v1alpha1.ConditionOverlapping {
				t.Errorf("%s overlaps: %+v", cell.Name, condition)
			}
		}
	}
	l.must(l.Delete(t.Context(), l.now(b)))
	l.look(b)
	l.want(l.look(a), v1alpha1.ConditionOverlapping, metav1.ConditionFalse, v1alpha1.ReasonDisjoint)
}

func discounting(s *v1alpha1.CellSpec) {
	s.WhenStale, s.StaleAfter = v1alpha1.WhenStaleDiscount, &metav1.Duration{Duration: 30 * time.Second}
}

func TestASilentCellIsDiscountedIfItsCellWantsThat(t *testing.T) {
	l := newLab(t)
	quiet, trusted, other := l.cell("quiet", discounting), l.cell("trusted", func(*v1alpha1.CellSpec) {}), l.cell("other", discounting)
	p := l.protect(6, quiet, trusted, other)
	all := []*v1alpha1.Cell{quiet, trusted, other}
	look := func() {
		for _, cell := range all {
			l.look(cell)
		}
	}
	for _, cell := range all {
		l.beat(cell)
	}
	look()
	for range 2 { // the controller observes that heartbeats change
		l.clock = l.clock.Add(20 * time.Second)
		for _, cell := range all {
			l.beat(cell)
		}
		look()
	}
	l.want(l.now(quiet), v1alpha1.ConditionAggregationFresh, metav1.ConditionTrue, v1alpha1.ReasonHeartbeatSeen)
	if now := l.protector(p); quota.BudgetOf(now).Left() != 9 {
		t.Fatalf("budget %+v, want 9 left", quota.BudgetOf(now))
	}
	for range 4 {
		l.clock = l.clock.Add(20 * time.Second)
		l.beat(other)
		look()
	}
	l.want(l.now(quiet), v1alpha1.ConditionAggregationFresh, metav1.ConditionFalse, v1alpha1.ReasonNoHeartbeat, "count for nothing in other cells")
	l.want(l.now(trusted), v1alpha1.ConditionAggregationFresh, metav1.ConditionFalse, v1alpha1.ReasonNoHeartbeat, "as they were counted last")
	l.want(l.now(other), v1alpha1.ConditionAggregationFresh, metav1.ConditionTrue, v1alpha1.ReasonHeartbeatSeen)
	now := l.protector(p)
	for cell, want := range map[*v1alpha1.Cell]v1alpha1.Discount{quiet: v1alpha1.DiscountStale, trusted: "", other: ""} {
		if got := quota.CellOf(now, cell.Name).Discount; got != want {
			t.Errorf("cell %s has the discount %q, want %q", cell.Name, got, want)
		}
	}
	if now.Status.DisruptionsAllowed != 4 {
		t.Errorf("%d disruptions allowed, want 4", now.Status.DisruptionsAllowed)
	}
	// A change to Trust needs no aggregator.
	cell := l.now(quiet)
	cell.Spec.WhenStale = v1alpha1.WhenStaleTrust
	l.must(l.Update(t.Context(), cell))
	l.look(quiet)
	if got := quota.CellOf(l.protector(p), quiet.Name).Discount; got != "" {
		t.Errorf("a cell that is trusted again has the discount %q", got)
	}
}

// clear requests that a cell is cleared, and returns the result of the request.
func (l *lab) clear(p *v1alpha1.PodProtector, cell string) (reconcile.Result, *v1alpha1.PodProtector) {
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

func TestOnlyADeadCellIsCleared(t *testing.T) {
	l := newLab(t)
	cell := l.cell("a", discounting)
	gone := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "-gone"}}
	p := l.protect(6, cell, gone)
	reserved := l.protector(p)
	quota.Decide(reserved, []quota.Removal{{Cell: cell.Name, PodUID: uuid.NewUUID(), At: time.Now()}, {Cell: gone.Name, PodUID: uuid.NewUUID(), At: time.Now()}})
	l.must(l.Client.Status().Update(t.Context(), reserved))

	l.beat(cell)
	result, now := l.clear(p, cell.Name)
	if result.RequeueAfter == 0 || quota.CellOf(now, cell.Name).Discount != "" {
		t.Fatalf("of a cell whose pulse is not known yet: %+v, %+v", result, now.Status.Cells)
	}
	l.clock = l.clock.Add(10 * time.Second)
	l.beat(cell)
	if _, now = l.clear(p, cell.Name); quota.CellOf(now, cell.Name).Discount != "" || now.Annotations[v1alpha1.AnnotationRemoveCell] != "" {
		t.Fatalf("of a cell that is alive: %+v %+v", now.Annotations, now.Status.Cells)
	}
	l.wantEvent("Warning CellAlive")

	l.clock = l.clock.Add(time.Minute)
	_, now = l.clear(p, cell.Name)
	entry := quota.CellOf(now, cell.Name)
	if entry == nil || entry.Discount != v1alpha1.DiscountCleared || quota.Open(&entry.AdmissionHistory) != 0 || entry.Aggregation.CountedReplicas != 0 ||
		entry.Aggregation.Epoch != 3 || now.Annotations[v1alpha1.AnnotationRemoveCell] != "" {
		t.Fatalf("of a cell that is dead: %+v %+v", now.Annotations, now.Status.Cells)
	}
	l.wantEvent("Warning CellCleared")
	if b := quota.BudgetOf(now); b.Available != 5 || b.Reserved != 1 {
		t.Errorf("budget %+v, want the five of the other cell and its reservation", b)
	}

	if _, now = l.clear(p, gone.Name); quota.CellOf(now, gone.Name) != nil {
		t.Errorf("of a cell that does not exist: %+v", now.Status.Cells)
	}
	l.clear(p, "nothing")
	l.wantEvent("NothingToRemove")
}

func TestADeletedCellIsHeldUntilNothingOfItIsLeft(t *testing.T) {
	l := newLab(t)
	cell := l.look(l.cell("a", discounting))
	p, q := l.protect(6, cell), l.protect(7, cell)
	l.must(l.Delete(t.Context(), cell))
	if l.look(cell) == nil {
		t.Fatal("the Cell is gone, and protectors count it")
	}
	drained := l.protector(p)
	quota.DropCell(drained, cell.Name)
	l.must(l.Client.Status().Update(t.Context(), drained))
	if l.look(cell) == nil {
		t.Fatal("the Cell is gone, and a protector counts it")
	}
	// The aggregator is dead, and an operator clears the other protector.
	l.clear(q, cell.Name)
	l.clock = l.clock.Add(time.Minute)
	l.clear(q, cell.Name)
	if now := l.look(cell); now != nil {
		t.Errorf("the Cell is still there: %+v", now.ObjectMeta)
	}
	if left := l.protector(q).Status.Cells; len(left) != 0 {
		t.Errorf("what was cleared is still there: %+v", left)
	}
}
