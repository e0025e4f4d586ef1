package register

import (
	"cmp"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// SchedulingConfiguration returns the configuration that makes the API server of a cell send new pods, and workloads,
// to the webhook, which adds what scheduling policies require. Jobs are sent only on creation, because an update never
// changes the template of a Job. The webhook for pods has no match conditions: to evaluate one, the API server converts
// the whole pod first.
func SchedulingConfiguration(o Options) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	client, err := o.clientConfig(webhookconfig.SchedulePath(o.Cell))
	if err != nil {
		return nil, err
	}
	create, update := admissionregistrationv1.Create, admissionregistrationv1.Update
	onFailure := cmp.Or(o.FailurePolicy, admissionregistrationv1.Ignore)
	equivalent, noneOnDryRun := admissionregistrationv1.Equivalent, admissionregistrationv1.SideEffectClassNoneOnDryRun
	ifNeeded, timeout := admissionregistrationv1.IfNeededReinvocationPolicy, o.TimeoutSeconds
	pods := admissionregistrationv1.MutatingWebhook{
		Name: "pods.scheduling.breakwater.dev", ClientConfig: client,
		Rules:         []admissionregistrationv1.RuleWithOperations{rule(create, "", "v1", "pods")},
		FailurePolicy: &onFailure, MatchPolicy: &equivalent, ReinvocationPolicy: &ifNeeded, SideEffects: &noneOnDryRun,
		TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1"}, NamespaceSelector: o.namespaceSelector(),
	}
	templates := pods
	templates.Name = "templates.scheduling.breakwater.dev"
	templates.Rules = []admissionregistrationv1.RuleWithOperations{
		workloads("", []string{"replicationcontrollers"}, create, update),
		workloads("apps", []string{"daemonsets", "deployments", "replicasets", "statefulsets"}, create, update),
		workloads("batch", []string{"cronjobs"}, create, update),
		workloads("batch", []string{"jobs"}, create),
	}
	templates.MatchConditions = webhookconfig.TemplateConditions()
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{
			APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "MutatingWebhookConfiguration",
		},
		ObjectMeta: metav1.ObjectMeta{Name: o.Name},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{pods, templates},
	}, nil
}

func workloads(group string, resources []string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	namespaced := admissionregistrationv1.NamespacedScope
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: resources, Scope: &namespaced,
		},
	}
}
