package webhook_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// TestMain lets more labs run in parallel than there are CPUs, unless -parallel is set: they mostly wait for
// connections to end and for deadlines to pass.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testplane.Main(m)
}

// fixture is a namespace of a real API server that is core cluster and cell at once. No aggregator runs: a test sets the
// counts, and reservations are never settled.
type fixture struct {
	testing.TB
	core      string // name as a core cluster
	config    *rest.Config
	client    client.Client
	scheme    *runtime.Scheme
	namespace string
	cell      string
}

func newFixture(t *testing.T) *fixture {
	t.Parallel()
	return newFixtureFor(t)
}

func newFixtureFor(t testing.TB) *fixture {
	namespace := testplane.Namespace(t)
	l := &fixture{TB: t, core: "core", config: testplane.Config(t), scheme: clusters.Scheme(), namespace: namespace, cell: namespace}
	l.connect()
	return l
}

// secondCore returns a second core cluster for the fixture's cell, on an API server of its own. The webhook asks it after the
// first one.
func (l *fixture) secondCore() *fixture {
	l.Helper()
	other := *l
	other.core, other.config = "second", testplane.Second(l)
	other.connect()
	other.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}})
	return &other
}

func (l *fixture) connect() {
	l.Helper()
	var err error
	if l.client, err = client.New(l.config, client.Options{Scheme: l.scheme}); err != nil {
		l.Fatal(err)
	}
}

func (l *fixture) asCore(s *replicaOptions) { s.cores[l.core] = l.config }

func (l *fixture) create(object client.Object) {
	l.Helper()
	if err := l.client.Create(l.Context(), object); err != nil {
		l.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

// protect creates a protector of the pods with app=web, of which available were counted as available. Call it before
// serve, so that the webhook reads it at the start.
func (l *fixture) protect(name string, floor, available int32, change ...func(*v1alpha1.PodProtectorSpec)) {
	l.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(floor)
	for _, c := range change {
		c(&p.Spec)
	}
	l.create(p)
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: l.cell, Aggregation: v1alpha1.Aggregation{
		TotalReplicas: available, AvailableReplicas: available, CountedReplicas: available, ReadyReplicas: available,
		CountedSpec: quota.CountedSpec(&p.Spec), SnapshotVersion: "1", Epoch: 1, LastEventTime: metav1.NowMicro(),
	}}}
	quota.Summarize(p)
	if err := l.client.Status().Update(l.Context(), p); err != nil {
		l.Fatalf("aggregate protector %s: %v", name, err)
	}
}

func (l *fixture) protector(name string) *v1alpha1.PodProtector {
	l.Helper()
	p := &v1alpha1.PodProtector{}
	if err := l.client.Get(l.Context(), client.ObjectKey{Namespace: l.namespace, Name: name}, p); err != nil {
		l.Fatalf("read protector %s: %v", name, err)
	}
	return p
}

// reservations returns the number of open reservations of a protector.
func (l *fixture) reservations(name string) int {
	l.Helper()
	return quota.BudgetOf(l.protector(name)).Reserved
}

func (l *fixture) wantReserved(name string, want int) {
	l.Helper()
	if got := l.reservations(name); got != want {
		l.Errorf("%d open reservations of protector %s in %s, want %d: %+v", got, name, l.core, want, l.protector(name).Status.Cells)
	}
}

// awaitReserved waits until reservations have been given back.
func (l *fixture) awaitReserved(name string, want int) {
	l.Helper()
	l.eventually(func() string {
		if got := l.reservations(name); got != want {
			return fmt.Sprintf("%d open reservations of protector %s in %s, want %d: %+v",
				got, name, l.core, want, l.protector(name).Status.Cells)
		}
		return ""
	})
}

// pods creates available pods with app=web.
func (l *fixture) pods(number int, change ...func(*corev1.Pod)) []*corev1.Pod {
	l.Helper()
	pods := make([]*corev1.Pod, number)
	for i := range pods {
		pods[i] = l.pod(fmt.Sprint("web-", i), change...)
	}
	return pods
}

func (l *fixture) pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	l.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: l.namespace, Name: name, Labels: map[string]string{"app": "web"},
	}}
	p.Spec.NodeName = "node-1"
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
	}}
	for _, c := range change {
		c(p)
	}
	status := p.Status.DeepCopy()
	l.create(p)
	p.Status = *status
	if err := l.client.Status().Update(l.Context(), p); err != nil {
		l.Fatalf("set the status of pod %s: %v", name, err)
	}
	return p
}

func unready(p *corev1.Pod)     { p.Status.Conditions[0].Status = corev1.ConditionFalse }
func finished(p *corev1.Pod)    { p.Status.Phase = corev1.PodSucceeded }
func unscheduled(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending }
func unprotected(p *corev1.Pod) { p.Labels["app"] = "other" }
func finalized(p *corev1.Pod)   { p.Finalizers = []string{"example.com/hold"} }

// remaining returns the number of pods with app=web that are not being deleted.
func (l *fixture) remaining() int {
	l.Helper()
	pods := &corev1.PodList{}
	if err := l.client.List(l.Context(), pods, client.InNamespace(l.namespace), client.MatchingLabels{"app": "web"}); err != nil {
		l.Fatal(err)
	}
	left := 0
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			left++
		}
	}
	return left
}

// eventually waits until look returns "", and otherwise fails with its last result.
func (l *fixture) eventually(check func() string) { l.Helper(); testplane.Eventually(l, check) }

// errorText returns the text of an error for eventually; "" for nil.
func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// wantDenied checks that an error is a refusal that may pass later, with a message that contains the parts.
func wantDenied(t testing.TB, err error, parts ...string) {
	t.Helper()
	status := apierrors.APIStatus(nil)
	if !apierrors.IsTooManyRequests(err) || !asStatus(err, &status) {
		t.Fatalf("error %v, want a refusal with 429", err)
	}
	if s := status.Status(); s.Code != 429 || s.Reason != metav1.StatusReasonTooManyRequests ||
		s.Details != nil && s.Details.RetryAfterSeconds != 0 {
		t.Errorf("refusal %+v, want code 429, reason TooManyRequests and no time to retry after", s)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("message %q, want it to say %q", err, part)
		}
	}
	if message := err.Error(); !strings.HasSuffix(message, ".") || strings.Contains(message, ". ") {
		t.Errorf("message %q, want one sentence", message)
	}
}
