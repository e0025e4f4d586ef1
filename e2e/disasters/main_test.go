// Package disasters_test damages real clusters and asserts that the floor holds. It deletes objects from etcd, restores backups, makes
// clusters unreachable, and deletes or replaces configurations. No other package uses its federation. docs/concepts/disasters.md describes
// each disaster for operators.
package disasters_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

var suite = e2e.NewSuite("federated", nil)

func TestMain(m *testing.M) {
	suite.APIServerArguments = staticArguments
	os.Exit(suite.Main(m))
}

// fixture is the fixture of one disaster.
type fixture struct{ *e2e.Fixture }

func claim(t *testing.T, name string, verify func(l fixture)) {
	t.Helper()
	suite.Claim(t, name, func(l *e2e.Fixture) { verify(fixture{l}) })
}

// expectDenial checks that an error is a denial by Breakwater and that its message contains the fragments.
func (l fixture) expectDenial(err error, fragments ...string) {
	l.Helper()
	if fragment := denialProblem(err, fragments...); fragment != "" {
		l.Fatal(fragment)
	}
	l.Logf("the caller gets: %v", err)
}

// denialProblem returns why an error is not a denial by Breakwater that contains the fragments, or "" if it is one.
func denialProblem(err error, fragments ...string) string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Code != 429 {
		return "want a denial with 429, got " + errorText(err)
	}
	for _, fragment := range append(fragments, "Breakwater refuses") {
		if !strings.Contains(status.Status().Message, fragment) {
			return "want a denial that contains " + fragment + ", got " + err.Error()
		}
	}
	return ""
}

func errorText(err error) string {
	if err == nil {
		return "an admission"
	}
	return err.Error()
}

// removeAnyPod deletes or evicts a pod of a cell. If the cell has no pod left, it takes one of another cell, because a floor counts the
// pods of all cells.
func (l fixture) removeAnyPod(cell int, evict bool) error {
	l.Helper()
	for i := range l.Cells {
		from := l.Cells[(cell+i)%len(l.Cells)]
		pods := l.ExistingPods(from)
		if len(pods) == 0 {
			continue
		}
		if evict {
			return l.EvictPod(from, pods[0].Name)
		}
		return l.DeletePod(from, pods[0].Name)
	}
	l.Fatal("no pod lives")
	return nil
}

// expectDenialsInAllCells checks that deletions and evictions are denied in all cells.
func (l fixture) expectDenialsInAllCells(fragments ...string) {
	l.Helper()
	for cell := range l.Cells {
		l.expectDenial(l.removeAnyPod(cell, false), fragments...)
		l.expectDenial(l.removeAnyPod(cell, true), fragments...)
	}
}

// waitForDenials waits until each kind of removal is denied in every cell with a message that contains the fragments. A podWatch judges the
// removals that are admitted meanwhile.
func (l fixture) waitForDenials(fragments ...string) {
	l.Helper()
	for cell := range l.Cells {
		for _, evict := range []bool{false, true} {
			l.waitForDenial(cell, evict, fragments...)
		}
	}
}

// waitForDenial waits until a kind of removal is denied in a cell with a message that contains the fragments.
func (l fixture) waitForDenial(cell int, evict bool, fragments ...string) {
	l.Helper()
	var last error
	l.Eventually(func() string {
		last = l.removeAnyPod(cell, evict)
		return denialProblem(last, fragments...)
	})
	l.Logf("the caller finally gets: %v", last)
}

// getProtector reads a protector from the fixture's core.
func (l fixture) getProtector(name string) *v1alpha1.PodProtector {
	l.Helper()
	p := &v1alpha1.PodProtector{}
	l.Must(l.Core.Get(l.Context(), client.ObjectKey{Namespace: l.Namespace, Name: name}, p))
	return p
}

// waitForCondition waits until an object of the core has the condition with the status and the reason.
func (l fixture) waitForCondition(object client.Object, kind string, status metav1.ConditionStatus, reason string) {
	l.Helper()
	key := client.ObjectKeyFromObject(object)
	l.Eventually(func() string {
		if err := l.Core.Get(l.Context(), key, object); err != nil {
			return err.Error()
		}
		have := meta.FindStatusCondition(conditionsOf(object), kind)
		if have == nil || have.Status != status || have.Reason != reason {
			return "condition " + kind + " of " + key.String() + " is not " + string(status) + " for " + reason + " yet"
		}
		l.Logf("condition %s=%s/%s: %s", kind, status, reason, have.Message)
		return ""
	})
}

func conditionsOf(object client.Object) []metav1.Condition {
	switch object := object.(type) {
	case *v1alpha1.PodProtector:
		return object.Status.Conditions
	case *v1alpha1.Cell:
		return object.Status.Conditions
	}
	return nil
}

// waitForEvent waits for an event with the reason on an object of the core.
func (l fixture) waitForEvent(name, reason string) {
	l.Helper()
	l.Eventually(func() string {
		events := &corev1.EventList{}
		if err := l.Core.List(l.Context(), events); err != nil {
			return err.Error()
		}
		for _, event := range events.Items {
			inLab := event.InvolvedObject.Namespace == l.Namespace || event.InvolvedObject.Namespace == ""
			if event.Reason == reason && event.InvolvedObject.Name == name && inLab {
				l.Logf("event %s %s: %s", event.Type, event.Reason, event.Message)
				return ""
			}
		}
		return "no event " + reason + " on " + name
	})
}

// faults returns the interface that injects faults into a cluster. It skips the test if the backend has none.
func (l fixture) faults(cluster federation.Cluster) federation.Faults {
	l.Helper()
	faults, ok := cluster.(federation.Faults)
	if !ok {
		l.Skipf("the backend of cluster %s cannot inject faults", cluster.Name())
	}
	return faults
}

func (l fixture) core() federation.Cluster { return l.Federation().Cores()[0] }

func (l fixture) worker(i int) federation.Cluster { return l.Federation().Workers()[i] }

// freezeComponents pauses components until resume is called, at the latest until the test ends.
func (l fixture) freezeComponents(components ...string) (resume func()) {
	l.Helper()
	for _, component := range components {
		l.Must(l.Breakwater.Freeze(component))
	}
	resume = func() {
		for _, component := range components {
			l.Must(l.Breakwater.Thaw(component))
		}
	}
	l.Cleanup(resume)
	return resume
}

func (l fixture) aggregators() []string {
	var all []string
	for _, cell := range l.Cells {
		all = append(all, install.AggregatorName(l.Core.Name, cell.Name))
	}
	return all
}
