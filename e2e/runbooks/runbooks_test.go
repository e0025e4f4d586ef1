package runbooks_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
	"github.com/breakwater-k8s/breakwater/e2e/prometheus"
)

func TestRunbooks(t *testing.T) {
	suite.Claim(t, "the alert fires after the fault, and its runbook ends it", func(l *fixture) {
		startApplication(l)
		t := l.TB.(*testing.T)
		// Run the slowest runbooks in parallel.
		t.Run("apart", func(t *testing.T) {
			for lane, faults := range map[string][]fault{"worker-1": worker1Faults(), "worker-2": worker2Faults(), "controllers": controllerFaults(), "stored": storedObjectFaults()} {
				t.Run(lane, func(t *testing.T) {
					t.Parallel()
					for _, f := range faults {
						f.runRunbook(t, l)
					}
				})
			}
		})
		for _, f := range commonFaults() {
			f.runRunbook(t, l)
		}
	})
}

// startApplication creates the environment of all runbooks: an application with six pods and a floor of four in the first worker, and
// Prometheus.
func startApplication(l *fixture) {
	l.Helper()
	<-plugin.built
	l.Must(plugin.err)
	for _, worker := range suite.Cells {
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"staleAfter": staleAfter.String()}})
		l.Must(err)
		l.Must(l.Core.Patch(l.Context(), &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: worker.Name}}, client.RawPatch(types.MergePatchType, patch)))
	}
	s, err := doctest.Begin(l.Context(), l.TempDir(), newSetting(l.TB.(*testing.T), "").Variables)
	l.Must(err)
	defer s.End()
	prelude, err := os.ReadFile("../operate/testdata/pages.sh")
	l.Must(err)
	if out, code, err := s.Do(string(prelude) + "\n(set -e; application shop web 6; protect shop web 4; counted shop web 6)"); err != nil || code != 0 {
		l.Fatalf("start the application: %v, exit code %d\n%s", err, code, out)
	}
	startSharder(l)
	setWebhookURL(l)
	createTestCA(l)
	// The thresholds are short enough for a test to wait until a reservation or a protector exceeds them.
	const thresholds = "metrics.prometheusRule.thresholds."
	alerts = alertMonitor{prometheus.Start(l, 500*time.Millisecond, thresholds+"reservationSeconds=3", thresholds+"budgetSeconds=3", "sharder.enabled=true")}
}

// namespace is the namespace of the application.
const namespace = "shop"

func (f fault) isSelected() bool {
	only := os.Getenv("RUNBOOK") // to run a single page
	return only == "" || only == f.page
}

// removeUntilAlert requests removals of the application's pods, which must be denied, until an alert is active.
func removeUntilAlert(l *fixture, alert string) {
	l.Helper()
	l.Eventually(func() string {
		pods, err := suite.Cells[0].Client.CoreV1().Pods(namespace).List(l.Context(), metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return err.Error()
		}
		for i := range pods.Items {
			err := suite.Cells[0].Client.CoreV1().Pods(namespace).Delete(l.Context(), pods.Items[i].Name, metav1.DeleteOptions{})
			if err == nil {
				l.Fatalf("%s was removed", pods.Items[i].Name)
			}
		}
		active, err := alerts.activeAlerts()
		if err != nil || !slices.Contains(active, alert) {
			return fmt.Sprintf("%s is not active: %q, %v", alert, active, err)
		}
		return ""
	})
}

// forceRemoval removes a pod of the application with break-glass.
func forceRemoval(l *fixture) {
	l.Helper()
	pods := suite.Cells[0].Client.CoreV1().Pods(namespace)
	list, err := pods.List(l.Context(), metav1.ListOptions{LabelSelector: "app=web", Limit: 1})
	l.Must(err)
	patch := []byte(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationForceDelete + `":"true"}}}`)
	_, err = pods.Patch(l.Context(), list.Items[0].Name, types.MergePatchType, patch, metav1.PatchOptions{})
	l.Must(err)
	l.Must(pods.Delete(l.Context(), list.Items[0].Name, metav1.DeleteOptions{}))
}
