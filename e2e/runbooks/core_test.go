package runbooks_test

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/federation"
	"github.com/breakwater-k8s/breakwater/internal/install"
)

func coreFaults(l *lab) federation.Faults {
	l.Helper()
	core, ok := suite.Federation().Cores()[0].(federation.Faults)
	if !ok {
		l.Fatal("the core cannot be broken")
	}
	return core
}

// cores are faults of the core's apiserver and of the webhook, which everything else needs.
func cores() []fault {
	stop := func(l *lab) { l.Must(coreFaults(l).Kill(federation.APIServer)) }
	start := func(l *lab) { l.Must(coreFaults(l).Restart(l.Context(), federation.APIServer)) }
	return []fault{
		{page: "core-down", breaks: "stop the apiserver of the core", do: do{
			"stop the apiserver of the core": stop, "start the apiserver of the core": start,
		}},
		{page: "removals-owed", breaks: "stop the apiserver of the core, and remove a pod by force", do: do{
			"stop the apiserver of the core, and remove a pod by force": func(l *lab) { stop(l); force(l) },
			"start the apiserver of the core":                           start,
		}},
		{page: "webhook-down", breaks: "stop all replicas of the webhook", do: do{
			"stop all replicas of the webhook": func(l *lab) { stopAll(l, webhooks()) },
			"start the webhook":                func(l *lab) { startAll(l, webhooks()) },
		}},
	}
}

// controllers are faults of what runs in the core.
func controllers() []fault {
	generator, topology := install.GeneratorName("core"), install.TopologyName("core")
	return []fault{
		{page: "generator-down", breaks: "stop the generator", do: do{
			"stop the generator":  func(l *lab) { stopAll(l, []string{generator}) },
			"start the generator": func(l *lab) { startAll(l, []string{generator}) },
		}},
		{page: "protectors-vanished", breaks: "stop the generator, and erase the protector from etcd", do: do{
			"stop the generator, and erase the protector from etcd": func(l *lab) {
				stopAll(l, []string{generator})
				erase(l, "breakwater.dev/podprotectors/"+namespace+"/web")
			},
			"start the generator": func(l *lab) { startAll(l, []string{generator}) },
		}},
		{page: "topology-down", breaks: "stop the topology controller", do: do{
			"stop the topology controller":  func(l *lab) { stopAll(l, []string{topology}) },
			"start the topology controller": func(l *lab) { startAll(l, []string{topology}) },
		}},
		{page: "sources-vanished", breaks: "erase a Deployment from etcd", do: do{
			"erase a Deployment from etcd": func(l *lab) { erase(l, "deployments/"+namespace+"/api") },
		}},
		{page: "sources-unprotected", breaks: waits, do: do{waits: func(*lab) {}}},
	}
}

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
