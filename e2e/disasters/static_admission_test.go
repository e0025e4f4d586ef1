package disasters_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// staticWorker is the worker whose API server reads static manifests. There are none until a test writes them.
const staticWorker = "worker-1"

const staticAdmission = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    staticManifestsDir: %s
`

func staticManifestDir() string { return filepath.Join(suite.Dir(), "static") }

// staticArguments returns the additional flags of the API server of staticWorker, and nil for all other clusters.
func staticArguments(cluster federation.ClusterSpec) []string {
	if cluster.Name != staticWorker {
		return nil
	}
	file, manifests := filepath.Join(staticManifestDir(), "admission.yaml"), filepath.Join(staticManifestDir(), "validating-webhooks")
	if err := errors.Join(os.MkdirAll(manifests, 0o700), os.WriteFile(file, fmt.Appendf(nil, staticAdmission, manifests), 0o600)); err != nil {
		panic(err)
	}
	return []string{"--feature-gates=ManifestBasedAdmissionControlConfig=true", "--admission-control-config-file=" + file}
}

// writeStaticManifests writes static manifests for a worker. The API server loads them without a restart. The manifests are removed when
// the test ends.
func (l fixture) writeStaticManifests(worker federation.Cluster) {
	l.Helper()
	if worker.Name() != staticWorker {
		l.Fatalf("the API server of %s reads no static manifests, only that of %s does", worker.Name(), staticWorker)
	}
	l.Cleanup(func() {
		files, err := filepath.Glob(filepath.Join(staticManifestDir(), "validating-webhooks", "*"))
		for _, file := range files {
			err = errors.Join(err, os.Remove(file))
		}
		if err != nil {
			l.Error(err)
		}
	})
	l.Must(l.Breakwater.WriteStatic(l.Context(), worker, staticManifestDir()))
}

// countWebhookConfigurations returns the number of ValidatingWebhookConfigurations in the API of a cell.
func (l fixture) countWebhookConfigurations(cell int) int {
	l.Helper()
	list, err := l.Cells[cell].Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(l.Context(), metav1.ListOptions{})
	l.Must(err)
	return len(list.Items)
}

func TestAllWebhookConfigurationsDeletedFromEtcd(t *testing.T) {
	claim(t, "static manifests keep the floor without any configuration in etcd, and the whole budget is usable with both", func(l fixture) {
		l.createCountedProtector(8, 8)
		worker, cell := l.worker(0), &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.Cells[0].Name}}
		l.Cleanup(func() { _ = l.Breakwater.ConfigureWorker(context.WithoutCancel(l.Context()), worker) }) // the next tests need it
		l.expectDenial(l.dryRunRemoval(l.Cells[0]), "floor 8, available 8")
		l.deleteFromEtcd(worker, int64(l.countWebhookConfigurations(0)), "validatingwebhookconfigurations")
		l.Eventually(func() string { return e2e.ErrorText(l.dryRunRemoval(l.Cells[0])) }) // the API server has noticed the deletion and denies nothing

		l.writeStaticManifests(worker)
		l.Eventually(func() string { return denialProblem(l.dryRunRemoval(l.Cells[0]), "/web", "floor 8, available 8") })
		if got := l.countWebhookConfigurations(0); got != 0 {
			l.Fatalf("the API has %d webhook configurations, want 0: the denial proves nothing", got)
		}
		v := l.startPodWatch(8)
		l.expectDenialsInAllCells("/web", "floor 8, available 8")
		l.waitForCondition(cell, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonWebhookMissing) // the condition describes the API objects only

		// With both configurations the API server calls the webhook twice for each removal, and Breakwater charges the removal once.
		l.Must(l.Breakwater.ConfigureWorker(l.Context(), worker))
		again := l.Application(4)
		again.Instance = "again"
		l.Must(again.DeployBare(l.Context(), l.Cells))
		v.waitForAvailable(12)
		l.WaitForSummary(e2e.AllAvailable(12))
		v.waitForExhaustedBudget("/web")

		l.Must(l.Cells[0].Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(
			l.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
		l.expectDenialsInAllCells("/web", "floor 8, available 8")
	})
}
