package runbooks_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

func coreFaults(l *fixture) federation.Faults {
	l.Helper()
	core, ok := suite.Federation().Cores()[0].(federation.Faults)
	if !ok {
		l.Fatal("the backend cannot inject faults into the core")
	}
	return core
}

// commonFaults returns the faults of components that all cells need. None of them has lasting effects.
func commonFaults() []fault {
	topology := []string{install.TopologyName("core")}
	pending := fault{page: "pending-charges", breakHook: "remove a pod by force", hooks: hookMap{
		"remove a pod by force": forceRemoval, "start the apiserver of the core": func(l *fixture) { l.Must(coreFaults(l).Restart(l.Context(), federation.APIServer)) },
	}}
	return []fault{
		{page: "decreases-held", breakHook: "delete the workloads of store and the namespace preview", hooks: hookMap{
			"delete the workloads of store and the namespace preview": func(l *fixture) {
				l.Must(l.Core.DeleteAllOf(l.Context(), &appsv1.Deployment{}, client.InNamespace("store")))
				l.Must(l.Core.Delete(l.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "preview"}}))
			},
		}},
		{page: "protectors-vanished", breakHook: "stop the generator, and erase the protector from etcd", hooks: hookMap{
			"stop the generator, and erase the protector from etcd": func(l *fixture) {
				stopComponents(l, generator())
				deleteFromEtcd(l, "breakwater.dev/podprotectors/"+namespace+"/web")
			},
			"start the generator": func(l *fixture) { startComponents(l, generator()) },
		}},
		{page: "spread-unsatisfied", breakHook: waitHook, hooks: hookMap{waitHook: noFault}},
		{page: "expectation-below-pods", breakHook: "let 20 minutes pass", hooks: hookMap{
			"let 20 minutes pass": func(l *fixture) { backdateExcess(l, "shards", 20*time.Minute) },
		}},
		{page: "topology-down", breakHook: "stop the topology controller", hooks: hookMap{
			"stop the topology controller":  func(l *fixture) { stopComponents(l, topology) },
			"start the topology controller": func(l *fixture) { startComponents(l, topology) },
		}},
		{page: "webhook-down", breakHook: "stop all replicas of the webhook", hooks: hookMap{
			"stop all replicas of the webhook": func(l *fixture) { stopComponents(l, webhooks()) },
			"start the webhook":                func(l *fixture) { startComponents(l, webhooks()) },
		}},
		{page: "certificate-expired", breakHook: "serve a certificate that has expired", hooks: hookMap{
			// Open connections continue to work.
			"serve a certificate that has expired": func(l *fixture) {
				stopComponents(l, webhooks())
				serveCertificate(l, -2*time.Hour)
				startComponents(l, webhooks())
			},
			"renew the certificate": func(l *fixture) { serveCertificate(l, 365*day) },
		}},
		{page: "core-down", breakHook: "stop the apiserver of the core", hooks: hookMap{
			"stop the apiserver of the core": func(l *fixture) { l.Must(coreFaults(l).Kill(federation.APIServer)) },
			// The break-glass removals of this time have their own runbook, which starts the API server again. The removal that core-down
			// describes may have activated its alert already.
			"start the apiserver of the core": func(l *fixture) { pending.breakAndFix(l.TB.(*testing.T), l) },
		}},
	}
}

// controllerFaults returns the faults of the controllers in the core, of the sources of protectors, of certificates and of clocks.
func controllerFaults() []fault {
	return []fault{
		{page: "clock-skew", breakHook: "set the clock of the core wrong", hooks: hookMap{
			"set the clock of the core wrong": func(*fixture) { coreProxy.skew.Store(int64(2 * time.Minute)) },
			"set the clock of the core right": func(*fixture) { coreProxy.skew.Store(0) },
		}},
		{page: "certificate-expiring", breakHook: "serve a certificate of three more days", hooks: hookMap{
			"serve a certificate of three more days": func(l *fixture) { serveCertificate(l, 3*day) },
			"renew the certificate":                  func(l *fixture) { serveCertificate(l, 365*day) },
		}},
		{page: "generator-down", breakHook: "stop the generator", hooks: hookMap{
			"stop the generator":  func(l *fixture) { stopComponents(l, generator()) },
			"start the generator": func(l *fixture) { startComponents(l, generator()) },
		}},
		{page: "sources-vanished", breakHook: "erase a Deployment from etcd", hooks: hookMap{
			"erase a Deployment from etcd": func(l *fixture) { deleteFromEtcd(l, "deployments/"+namespace+"/api") },
		}},
		{page: "sources-unprotected", breakHook: waitHook, hooks: hookMap{waitHook: noFault}},
	}
}

func noFault(*fixture) {}

func generator() []string { return []string{install.GeneratorName("core")} }

// waitHook is the hook of pages whose own commands cause the fault.
const waitHook = "wait for the alert"

func webhooks() []string { return []string{install.WebhookName(0), install.WebhookName(1)} }

func stopComponents(l *fixture, components []string) {
	l.Helper()
	for _, component := range components {
		l.Must(suite.Breakwater.Terminate(component))
	}
}

func startComponents(l *fixture, components []string) {
	l.Helper()
	for _, component := range components {
		l.Must(suite.Breakwater.Restart(l.Context(), component))
	}
}

var webhookURL string

// setWebhookURL reads the URL of the webhook from a webhook configuration.
func setWebhookURL(l *fixture) {
	l.Helper()
	all, err := suite.Cells[0].Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(l.Context(), metav1.ListOptions{})
	l.Must(err)
	webhookURL, _, _ = strings.Cut(*all.Items[0].Webhooks[0].ClientConfig.URL, "/cells/")
}
