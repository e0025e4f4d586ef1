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

func coreFaults(l *lab) federation.Faults {
	l.Helper()
	core, ok := suite.Federation().Cores()[0].(federation.Faults)
	if !ok {
		l.Fatal("the core cannot be broken")
	}
	return core
}

// everywhere are faults of what all cells need. None of them leaves anything behind.
func everywhere() []fault {
	topology := []string{install.TopologyName("core")}
	owed := fault{page: "removals-owed", breaks: "remove a pod by force", do: do{
		"remove a pod by force": force, "start the apiserver of the core": func(l *lab) { l.Must(coreFaults(l).Restart(l.Context(), federation.APIServer)) },
	}}
	return []fault{
		{page: "decreases-held", breaks: "delete the workloads of store and the namespace preview", do: do{
			"delete the workloads of store and the namespace preview": func(l *lab) {
				l.Must(l.Core.DeleteAllOf(l.Context(), &appsv1.Deployment{}, client.InNamespace("store")))
				l.Must(l.Core.Delete(l.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "preview"}}))
			},
		}},
		{page: "protectors-vanished", breaks: "stop the generator, and erase the protector from etcd", do: do{
			"stop the generator, and erase the protector from etcd": func(l *lab) {
				stopAll(l, generator())
				erase(l, "breakwater.dev/podprotectors/"+namespace+"/web")
			},
			"start the generator": func(l *lab) { startAll(l, generator()) },
		}},
		{page: "spread-unsatisfied", breaks: waits, do: do{waits: nothing}},
		{page: "topology-down", breaks: "stop the topology controller", do: do{
			"stop the topology controller":  func(l *lab) { stopAll(l, topology) },
			"start the topology controller": func(l *lab) { startAll(l, topology) },
		}},
		{page: "webhook-down", breaks: "stop all replicas of the webhook", do: do{
			"stop all replicas of the webhook": func(l *lab) { stopAll(l, webhooks()) },
			"start the webhook":                func(l *lab) { startAll(l, webhooks()) },
		}},
		{page: "certificate-expired", breaks: "serve a certificate that has expired", do: do{
			// Connections that are open go on.
			"serve a certificate that has expired": func(l *lab) { stopAll(l, webhooks()); serve(l, -2*time.Hour); startAll(l, webhooks()) },
			"renew the certificate":                func(l *lab) { serve(l, 365*day) },
		}},
		{page: "core-down", breaks: "stop the apiserver of the core", do: do{
			"stop the apiserver of the core": func(l *lab) { l.Must(coreFaults(l).Kill(federation.APIServer)) },
			// What was forced meanwhile has a runbook of its own, which starts it again.
			"start the apiserver of the core": func(l *lab) { owed.play(l.TB.(*testing.T), l) },
		}},
	}
}

// controllers are faults of what runs in the core, of the sources of protectors, of certificates and clocks.
func controllers() []fault {
	return []fault{
		{page: "clock-skew", breaks: "set the clock of the core wrong", do: do{
			"set the clock of the core wrong": func(*lab) { tilted.ahead.Store(int64(2 * time.Minute)) },
			"set the clock of the core right": func(*lab) { tilted.ahead.Store(0) },
		}},
		{page: "certificate-expiring", breaks: "serve a certificate of three more days", do: do{
			"serve a certificate of three more days": func(l *lab) { serve(l, 3*day) },
			"renew the certificate":                  func(l *lab) { serve(l, 365*day) },
		}},
		{page: "generator-down", breaks: "stop the generator", do: do{
			"stop the generator":  func(l *lab) { stopAll(l, generator()) },
			"start the generator": func(l *lab) { startAll(l, generator()) },
		}},
		{page: "sources-vanished", breaks: "erase a Deployment from etcd", do: do{
			"erase a Deployment from etcd": func(l *lab) { erase(l, "deployments/"+namespace+"/api") },
		}},
		{page: "sources-unprotected", breaks: waits, do: do{waits: nothing}},
	}
}

func nothing(*lab) {}

func generator() []string { return []string{install.GeneratorName("core")} }

// waits is the hook of pages that break something by themselves.
const waits = "wait for the alert"

func webhooks() []string { return []string{install.WebhookName(0), install.WebhookName(1)} }

func stopAll(l *lab, components []string) {
	l.Helper()
	for _, component := range components {
		l.Must(suite.Breakwater.Terminate(component))
	}
}

func startAll(l *lab, components []string) {
	l.Helper()
	for _, component := range components {
		l.Must(suite.Breakwater.Restart(l.Context(), component))
	}
}

var webhookURL string

// webhookAddress finds out where apiservers ask.
func webhookAddress(l *lab) {
	l.Helper()
	all, err := suite.Cells[0].Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(l.Context(), metav1.ListOptions{})
	l.Must(err)
	webhookURL, _, _ = strings.Cut(*all.Items[0].Webhooks[0].ClientConfig.URL, "/cells/")
}
