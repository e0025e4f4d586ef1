package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/federation"
	"github.com/breakwater-k8s/breakwater/internal/storm"
)

// patience bounds every wait for something that takes seconds.
const patience = time.Minute

// lab is one test's namespace, of the same name in all clusters.
type lab struct {
	*testing.T
	*suite
	ctx       context.Context
	namespace string
}

// claim runs a test of one claim as a feature of e2e-framework.
func claim(t *testing.T, name string, prove func(l *lab)) {
	t.Helper()
	assess := func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
		l := &lab{T: t, suite: &loop, ctx: ctx}
		l.makeNamespaces()
		prove(l)
		return ctx
	}
	loop.testenv.Test(t, features.New(t.Name()).Assess(name, assess).Feature())
}

func (l *lab) makeNamespaces() {
	l.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	l.must(l.core.Create(l.ctx, namespace))
	l.namespace = namespace.Name
	for _, cell := range l.cells {
		_, err := cell.Client.CoreV1().Namespaces().Create(l.ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}, metav1.CreateOptions{})
		l.must(err)
	}
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// eventually waits until look says "" and fails with its last word otherwise.
func (l *lab) eventually(look func() string) {
	l.Helper()
	deadline := time.Now().Add(patience)
	for word := look(); word != ""; word = look() {
		if time.Now().After(deadline) {
			l.Fatalf("waited %s: %s", patience, word)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (l *lab) app(pods int) storm.Application {
	return storm.Application{Namespace: l.namespace, Name: "web", Pods: pods}
}

// protect makes a protector of the pods labelled app=web.
func (l *lab) protect(floor int, change ...func(*v1alpha1.PodProtectorSpec)) {
	l.Helper()
	rate := int32(200)
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "web"}}
	p.Spec.Selector.MatchLabels = map[string]string{"app": "web"}
	p.Spec.MinAvailable = int32(floor)
	p.Spec.AdmissionHistory.AggregationRateMillis = &rate
	for _, c := range change {
		c(&p.Spec)
	}
	l.must(l.core.Create(l.ctx, p))
}

func (l *lab) protector() *v1alpha1.PodProtector {
	l.Helper()
	p := &v1alpha1.PodProtector{}
	l.must(l.core.Get(l.ctx, client.ObjectKey{Namespace: l.namespace, Name: "web"}, p))
	return p
}

// awaitSummary waits until all cells are counted and add up to want.
func (l *lab) awaitSummary(want v1alpha1.Summary) *v1alpha1.PodProtector {
	l.Helper()
	var p *v1alpha1.PodProtector
	l.eventually(func() string {
		p = l.protector()
		if diff := cmp.Diff(want, p.Status.Summary); diff != "" || len(p.Status.Cells) != len(l.cells) {
			return fmt.Sprintf("summary of %d cells (-want +got):\n%s", len(p.Status.Cells), diff)
		}
		return ""
	})
	return p
}

// allAvailable is the summary of n available pods and no reservation.
func allAvailable(n int) v1alpha1.Summary {
	count := int32(n)
	return v1alpha1.Summary{
		Total: count, Available: count, EstimatedAvailable: count, Ready: count, Running: count, Scheduled: count,
	}
}

// deployBare makes pods without controllers and waits until they are counted.
func (l *lab) deployBare(app storm.Application) {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	l.must(app.DeployBare(ctx, l.cells))
	l.awaitSummary(allAvailable(app.Pods))
}

// pods lists the living pods of a cell.
func (l *lab) pods(cell storm.Cell) []corev1.Pod {
	l.Helper()
	list, err := cell.Client.CoreV1().Pods(l.namespace).List(l.ctx, metav1.ListOptions{LabelSelector: "app=web"})
	l.must(err)
	var living []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			living = append(living, pod)
		}
	}
	return living
}

func (l *lab) living() int {
	l.Helper()
	n := 0
	for _, cell := range l.cells {
		n += len(l.pods(cell))
	}
	return n
}

func (l *lab) remove(cell storm.Cell, pod string) error {
	return cell.Client.CoreV1().Pods(l.namespace).Delete(l.ctx, pod, metav1.DeleteOptions{})
}

func (l *lab) evict(cell storm.Cell, pod string) error {
	return cell.Client.CoreV1().Pods(l.namespace).EvictV1(l.ctx,
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: pod}})
}

// wantRefusal checks that an error is Breakwater's refusal for now, and says what is expected.
func (l *lab) wantRefusal(err error, words ...string) {
	l.Helper()
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		l.Fatalf("got %v, want a refusal", err)
	}
	got := status.Status()
	if got.Code != 429 || got.Details != nil && got.Details.RetryAfterSeconds != 0 {
		l.Fatalf("refused with code %d and details %+v, want 429 without Retry-After: %v", got.Code, got.Details, err)
	}
	for _, word := range append(words, "Breakwater", l.namespace+"/web") {
		if !strings.Contains(got.Message, word) {
			l.Errorf("refusal does not say %q: %s", word, got.Message)
		}
	}
}

// setReady makes kwok turn the readiness of a pod.
func (l *lab) setReady(cell storm.Cell, pod string, ready bool) {
	l.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%v"}}}`, federation.ReadyAnnotation, ready)
	_, err := cell.Client.CoreV1().Pods(l.namespace).Patch(l.ctx, pod,
		"application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	l.must(err)
}
