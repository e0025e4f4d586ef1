package aggregator_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/aggregator"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// scopedCell is a cell whose own cluster calls a webhook that does not answer, for namespaces with protectors only.
type scopedCell struct {
	*fixture
	admin client.Client
	// account is that of the aggregator there.
	account *rest.Config
}

func newScopedCell(t *testing.T) *scopedCell {
	l := newFixture(t)
	l.createCell()
	config := testplane.Second(t)
	admin, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	c := &scopedCell{fixture: l, admin: admin, account: rest.CopyConfig(config)}
	c.account.Impersonate.UserName = l.cell
	guarding, fail := l.guarding(), admissionregistrationv1.Fail
	hook := &guarding.Webhooks[0]
	hook.FailurePolicy = &fail
	hook.NamespaceSelector.MatchExpressions[0] = webhookconfig.ProtectedRequirement()
	about := metav1.ObjectMeta{Name: l.cell}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: about, Rules: aggregator.CellRules()},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: about, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: l.cell},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: l.cell}},
		},
		guarding, webhookconfig.ProtectedPolicy(l.cell, []string{l.cell}), webhookconfig.ProtectedBinding(l.cell),
	} {
		c.createThere(object)
	}
	for _, namespace := range []string{l.namespace, c.other()} {
		c.createNamespace(namespace)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-0", Labels: map[string]string{"app": "web"}}}
		pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
		c.createThere(pod)
	}
	return c
}

// other returns a namespace that never has a protector.
func (c *scopedCell) other() string { return c.namespace + "-other" }

func (c *scopedCell) createThere(object client.Object) {
	c.Helper()
	c.eventually(func() string { // a namespace may not be in the cache of the admission plugins yet
		if err := c.admin.Create(c.Context(), object); err != nil {
			return fmt.Sprintf("create %T %s: %v", object, object.GetName(), err)
		}
		return ""
	})
	c.Cleanup(func() { _ = c.admin.Delete(context.Background(), object) })
}

func (c *scopedCell) createNamespace(name string) {
	c.Helper()
	c.createThere(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// start starts the aggregator of the cell.
func (c *scopedCell) start() {
	c.Helper()
	core := c.coreUser()
	testplane.StartManager(c, core, func(ctx context.Context, mgr manager.Manager) error {
		return aggregator.SetupWithManager(ctx, mgr, aggregator.Options{
			Cell: c.cell, CellConfig: c.account, Identity: "aggregator", LeaseNamespace: c.namespace, LeaseDuration: 2 * time.Second,
			Heartbeat: time.Second, Workers: 2, Metrics: prometheus.NewRegistry(), ReportGaps: true, LabelReleaseDelay: time.Second,
		})
	})
}

func (c *scopedCell) stored() *corev1.Namespace {
	c.Helper()
	namespace := &corev1.Namespace{}
	if err := c.admin.Get(c.Context(), client.ObjectKey{Name: c.namespace}, namespace); err != nil {
		c.Fatal(err)
	}
	return namespace
}

func (c *scopedCell) wantLabel(want string) {
	c.Helper()
	c.eventually(func() string {
		if got := c.stored(); got.Labels[v1alpha1.LabelProtected] != want {
			return fmt.Sprintf("labels of the namespace = %v, want %s=%q", got.Labels, v1alpha1.LabelProtected, want)
		}
		return ""
	})
}

// remove returns the answer of the API server to a dry run of a removal.
func (c *scopedCell) remove(namespace string) error {
	return c.admin.Delete(c.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-0"}}, client.DryRunAll)
}

func (c *scopedCell) wantRefused(namespace string) {
	c.Helper()
	c.eventually(func() string {
		if err := c.remove(namespace); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return fmt.Sprintf("a removal without an answer of the webhook: %v, want a refusal", err)
		}
		return ""
	})
}

func (c *scopedCell) wantAllowed(namespace string) {
	c.Helper()
	c.eventually(func() string {
		if err := c.remove(namespace); err != nil {
			return fmt.Sprintf("a removal in namespace %s without an answer of the webhook: %v, want it allowed", namespace, err)
		}
		return ""
	})
}

// webhookCalls returns how often the API server has called the webhook of the cell, or has tried to.
func (c *scopedCell) webhookCalls() (calls int) {
	c.Helper()
	text, err := kubernetes.NewForConfigOrDie(testplane.Second(c)).RESTClient().Get().AbsPath("/metrics").DoRaw(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "apiserver_admission_webhook_admission_duration_seconds_count{") && strings.Contains(line, `name="`+hookName+`"`) {
			count, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndex(line, " "):]))
			if err != nil {
				c.Fatal(err)
			}
			calls += count
		}
	}
	return calls
}

// hookName is the name of the webhook in the configuration of guarding.
const hookName = "removals.breakwater.dev"

// isReady reports whether the protector looks effective.
func (c *scopedCell) isReady() bool {
	return meta.IsStatusConditionTrue(c.protector().Status.Conditions, v1alpha1.ConditionReady)
}

// While no webhook answers, only namespaces with protectors depend on it, and a protector is not Ready before its namespace is one of them.
func TestOnlyProtectedNamespacesDependOnWebhook(t *testing.T) {
	c := newScopedCell(t)
	c.start()
	c.wantAllowed(c.namespace)
	c.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	c.wantLabel("true")
	labeled := time.Now()
	c.eventually(func() string {
		guarded := meta.FindStatusCondition(c.protector().Status.Conditions, v1alpha1.ConditionGuarded)
		if guarded == nil || guarded.Status != metav1.ConditionFalse || !strings.Contains(guarded.Message, v1alpha1.LabelProtected) {
			return fmt.Sprintf("condition Guarded = %+v, want False with the label", guarded)
		}
		return ""
	})
	c.wantRefused(c.namespace)
	calls := c.webhookCalls()
	for range 20 {
		if err := c.remove(c.other()); err != nil {
			t.Errorf("a removal in a namespace without protectors: %v", err)
		}
	}
	if now := c.webhookCalls(); now != calls || calls == 0 {
		t.Errorf("the API server called the webhook %d times before and %d times after removals in a namespace without protectors, want as often, and not 0", calls, now)
	}
	c.eventually(func() string {
		if !c.isReady() {
			return fmt.Sprintf("conditions %+v, want Ready", c.protector().Status.Conditions)
		}
		return ""
	})
	if took := time.Since(labeled); took < 4*time.Second {
		t.Errorf("the protector was Ready %s after the label, want at least 5s: an API server may learn of the label late", took)
	}
	if got := c.stored().Labels[v1alpha1.LabelProtected]; got != "true" {
		t.Errorf("the namespace of a Ready protector has the label %q", got)
	}
}

// The label stays while a protector of any core needs it.
func TestLabelStaysWhileProtectorExists(t *testing.T) {
	c := newScopedCell(t)
	c.start()
	protector := c.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	c.wantLabel("true")
	c.wantRefused(c.namespace)
	takeOff := func(n *corev1.Namespace) { delete(n.Labels, v1alpha1.LabelProtected) }
	c.eventually(func() string { // the API server loads policies late
		if err := c.updateAll(takeOff)["namespaces"]; err == nil {
			return "an administrator can take the label off"
		}
		return ""
	})
	for claim, change := range map[string]func(*corev1.Namespace){
		"without the label":  takeOff,
		"with another value": func(n *corev1.Namespace) { n.Labels[v1alpha1.LabelProtected] = "false" },
	} {
		for path, err := range c.updateAll(change) {
			if err == nil || !strings.Contains(err.Error(), v1alpha1.LabelExempt+"=true") {
				t.Errorf("an administrator's update of %s %s: %v, want a refusal that names %s", path, claim, err, v1alpha1.LabelExempt)
			}
		}
	}
	for path, err := range c.updateAll(func(n *corev1.Namespace) { n.Labels["team"] = "a" }) {
		if err != nil {
			t.Errorf("an update of %s that keeps the label: %v", path, err)
		}
	}

	c.claimAsOther(map[string]string{v1alpha1.LabelProtected: "true"})
	if err := c.client.Delete(t.Context(), protector); err != nil {
		t.Fatal(err)
	}
	own := "breakwater-aggregator." + c.cell + "."
	c.eventually(func() string {
		if slices.ContainsFunc(c.stored().ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return strings.HasPrefix(e.Manager, own) && e.Manager != c.otherManager()
		}) {
			return fmt.Sprintf("managed fields %+v, want none of the aggregator without protectors", c.stored().ManagedFields)
		}
		return ""
	})
	c.wantLabel("true")
	c.wantRefused(c.namespace)
	c.claimAsOther(nil)
	c.wantLabel("")
	c.wantAllowed(c.namespace)
}

// updateAll sends a dry run of a change to all paths by which labels of a namespace can change, and returns the answers.
func (c *scopedCell) updateAll(change func(*corev1.Namespace)) map[string]error {
	c.Helper()
	clientset := kubernetes.NewForConfigOrDie(testplane.Second(c))
	api, dry, answers := clientset.CoreV1().Namespaces(), metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}, map[string]error{}
	for path, update := range map[string]func(context.Context, *corev1.Namespace, metav1.UpdateOptions) (*corev1.Namespace, error){
		"namespaces": api.Update, "namespaces/status": api.UpdateStatus, "namespaces/finalize": api.Finalize,
	} {
		namespace := c.stored()
		change(namespace)
		_, answers[path] = update(c.Context(), namespace, dry)
	}
	return answers
}

func (c *scopedCell) otherManager() string { return webhookconfig.ClaimManager(c.cell, "other-core") }

// claimAsOther owns labels of the namespace as the aggregator of another core does.
func (c *scopedCell) claimAsOther(labels map[string]string) {
	c.Helper()
	api := kubernetes.NewForConfigOrDie(c.account).CoreV1().Namespaces()
	_, err := api.Apply(c.Context(), corev1ac.Namespace(c.namespace).WithLabels(labels), metav1.ApplyOptions{FieldManager: c.otherManager(), Force: true})
	if err != nil {
		c.Fatal(err)
	}
}

// A namespace that is deleted and created again has no label: the protector is not Ready until it has one again.
func TestLabelComesBackWithNamespace(t *testing.T) {
	c := newScopedCell(t)
	c.createProtector(func(*v1alpha1.PodProtectorSpec) {})
	c.start()
	c.wantLabel("true")
	c.wantCondition(v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonNamespaceGuarded)
	former := c.stored().UID
	if err := c.admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}); err != nil {
		t.Fatal(err)
	}
	c.eventually(func() string { return c.finalize(former) })
	c.createNamespace(c.namespace)
	c.wantCondition(v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonNamespaceExempt)
	c.wantLabel("true")
	c.wantCondition(v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonNamespaceGuarded)
	if c.stored().UID == former {
		t.Error("the namespace was not created again")
	}
}

// finalize removes a namespace that is being deleted. No controller deletes its pods.
func (c *scopedCell) finalize(uid types.UID) string {
	namespace := &corev1.Namespace{}
	err := c.admin.Get(c.Context(), client.ObjectKey{Name: c.namespace}, namespace)
	if client.IgnoreNotFound(err) != nil || err == nil && namespace.UID == uid {
		namespace.Spec.Finalizers = nil
		api := kubernetes.NewForConfigOrDie(testplane.Second(c)).CoreV1().Namespaces()
		_, finalizeErr := api.Finalize(c.Context(), namespace, metav1.UpdateOptions{})
		return fmt.Sprintf("the namespace still exists: %v, %v", err, finalizeErr)
	}
	return ""
}
