package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/e2e-framework/pkg/envconf"
	"sigs.k8s.io/e2e-framework/pkg/features"

	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// DefaultTimeout bounds every wait for something that takes seconds, unless the suite sets Timeout.
const DefaultTimeout = 3 * time.Minute

// Fixture is the namespace of one test or of one run of a benchmark, with the same name in all clusters. Its methods use the protectors of
// Core.
type Fixture struct {
	testing.TB
	*Suite
	Core      Core
	Namespace string
}

// Claim runs a test of one claim as a feature of e2e-framework. The fixture uses the first core.
func (s *Suite) Claim(t *testing.T, name string, verify func(l *Fixture)) {
	t.Helper()
	assess := func(ctx context.Context, t *testing.T, _ *envconf.Config) context.Context {
		verify(s.NewFixture(t, nil))
		return ctx
	}
	s.testenv.Test(t, features.New(t.Name()).Assess(name, assess).Feature())
}

// NewFixture creates a fixture with its own namespaces, which get the labels. The fixture uses the first core.
func (s *Suite) NewFixture(tb testing.TB, labels map[string]string) *Fixture {
	tb.Helper()
	l := &Fixture{TB: tb, Suite: s, Core: s.Cores[0]}
	l.createNamespaces(labels)
	return l
}

// ForEachCore returns a fixture for each core. All of them use the same namespace.
func (l *Fixture) ForEachCore() []*Fixture {
	var fixtures []*Fixture
	for _, core := range l.Cores {
		other := *l
		other.Core = core
		fixtures = append(fixtures, &other)
	}
	return fixtures
}

func (l *Fixture) createNamespaces(labels map[string]string) {
	l.Helper()
	l.Namespace = "e2e-" + rand.String(8)
	for _, cluster := range l.Federation().Clusters() {
		c, err := install.Client(cluster)
		l.Must(err)
		l.Must(c.Create(l.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.Namespace, Labels: labels}}))
	}
}

// Must fails the test at once if err is not nil.
func (l *Fixture) Must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// Eventually waits until problem returns "". At the timeout it fails the test with the last problem.
func (l *Fixture) Eventually(problem func() string) {
	l.Helper()
	deadline := time.Now().Add(l.timeout())
	for message := problem(); message != ""; message = problem() {
		if time.Now().After(deadline) {
			l.Fatalf("waited %s: %s", l.timeout(), message)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// ErrorText returns the text of an error, or "" for nil, as Eventually expects it.
func ErrorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// ExpectDenial checks that an error is a denial by Breakwater without Retry-After, and that its message contains the fragments.
func (l *Fixture) ExpectDenial(err error, fragments ...string) {
	l.Helper()
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		l.Fatalf("got error %v, want a denial", err)
	}
	got := status.Status()
	if got.Code != 429 || got.Details != nil && got.Details.RetryAfterSeconds != 0 {
		l.Fatalf("denied with code %d and details %+v, want 429 without Retry-After: %v", got.Code, got.Details, err)
	}
	for _, fragment := range append(fragments, "Breakwater", l.Namespace+"/web") {
		if !strings.Contains(got.Message, fragment) {
			l.Errorf("denial does not contain %q: %s", fragment, got.Message)
		}
	}
}
