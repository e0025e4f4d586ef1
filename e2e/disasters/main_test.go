// Package disasters_test breaks what Breakwater rests on, for real, and asserts that the floor holds: objects erased from
// etcd, backups restored, clusters that are away, configurations that are gone or wrong. Its federation is nobody else's.
// docs/disasters.md tells each as an operator meets it.
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

// lab is one disaster's.
type lab struct{ *e2e.Lab }

func claim(t *testing.T, name string, prove func(l lab)) {
	t.Helper()
	suite.Claim(t, name, func(l *e2e.Lab) { prove(lab{l}) })
}

// wantRefusal checks that an error is Breakwater's refusal for now, and that it says what happened.
func (l lab) wantRefusal(err error, words ...string) {
	l.Helper()
	if word := refused(err, words...); word != "" {
		l.Fatal(word)
	}
	l.Logf("the caller sees: %v", err)
}

// refused says why an error is not Breakwater's refusal with these words.
func refused(err error, words ...string) string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Code != 429 {
		return "want a refusal by 429, got " + errorText(err)
	}
	for _, word := range append(words, "Breakwater refuses") {
		if !strings.Contains(status.Status().Message, word) {
			return "want a refusal that says " + word + ", got " + err.Error()
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

// removeAny asks for the removal of a living pod of a cell, by a deletion or an eviction; of another cell when none is left there,
// for a floor counts the pods of all.
func (l lab) removeAny(cell int, evict bool) error {
	l.Helper()
	for i := range l.Cells {
		from := l.Cells[(cell+i)%len(l.Cells)]
		pods := l.Pods(from)
		if len(pods) == 0 {
			continue
		}
		if evict {
			return l.Evict(from, pods[0].Name)
		}
		return l.Remove(from, pods[0].Name)
	}
	l.Fatal("no pod lives")
	return nil
}

// wantRefusalsEverywhere asks for deletions and evictions in all cells.
func (l lab) wantRefusalsEverywhere(words ...string) {
	l.Helper()
	for cell := range l.Cells {
		l.wantRefusal(l.removeAny(cell, false), words...)
		l.wantRefusal(l.removeAny(cell, true), words...)
	}
}

// awaitRefusals waits until each kind of removal is refused in these words in every cell. What is admitted meanwhile is judged.
func (l lab) awaitRefusals(words ...string) {
	l.Helper()
	for cell := range l.Cells {
		for _, evict := range []bool{false, true} {
			l.awaitRefusal(cell, evict, words...)
		}
	}
}

// awaitRefusal waits until a kind of removal is refused in these words in a cell.
func (l lab) awaitRefusal(cell int, evict bool, words ...string) {
	l.Helper()
	var last error
	l.Eventually(func() string {
		last = l.removeAny(cell, evict)
		return refused(last, words...)
	})
	l.Logf("the caller sees at last: %v", last)
}

// protector reads a protector of the lab's core.
func (l lab) protector(name string) *v1alpha1.PodProtector {
	l.Helper()
	p := &v1alpha1.PodProtector{}
	l.Must(l.Core.Get(l.Context(), client.ObjectKey{Namespace: l.Namespace, Name: name}, p))
	return p
}

// awaitCondition waits until an object of the core says so.
func (l lab) awaitCondition(object client.Object, kind string, status metav1.ConditionStatus, reason string) {
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

// awaitEvent waits for an event of that reason on an object of the core.
func (l lab) awaitEvent(name, reason string) {
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

// faults breaks a cluster.
func (l lab) faults(cluster federation.Cluster) federation.Faults {
	l.Helper()
	faults, ok := cluster.(federation.Faults)
	if !ok {
		l.Skipf("cluster %s cannot be broken", cluster.Name())
	}
	return faults
}

func (l lab) core() federation.Cluster { return l.Federation().Cores()[0] }

func (l lab) worker(i int) federation.Cluster { return l.Federation().Workers()[i] }

// freeze stops components in the middle of what they do until thaw is called, at the latest when the test ends.
func (l lab) freeze(components ...string) (thaw func()) {
	l.Helper()
	for _, component := range components {
		l.Must(l.Breakwater.Freeze(component))
	}
	thaw = func() {
		for _, component := range components {
			l.Must(l.Breakwater.Thaw(component))
		}
	}
	l.Cleanup(thaw)
	return thaw
}

func (l lab) aggregators() []string {
	var all []string
	for _, cell := range l.Cells {
		all = append(all, install.AggregatorName(l.Core.Name, cell.Name))
	}
	return all
}
