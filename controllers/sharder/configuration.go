package sharder

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionregistrationac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// Path returns the URL path at which the webhook serves a ring.
func Path(ring string) string { return webhookconfig.RingPath(ring) }

// configurationPrefix, followed by the ring's name, is the name of its MutatingWebhookConfiguration.
const configurationPrefix = "breakwater-ring-"

// webhookName is the name of the single webhook in each configuration.
const webhookName = "assign.rings.breakwater.dev"

// webhookTimeoutSeconds is how long the API server waits for the webhook. The next pass assigns an object that the webhook did not assign in time.
const webhookTimeoutSeconds = 2

// clientConfiguration returns how the API server reaches the webhook for a ring. Without a caBundle it does not set that field, so that it
// keeps a caBundle that another component injects.
func clientConfiguration(ring string, webhook admissionregistrationv1.WebhookClientConfig) *admissionregistrationac.WebhookClientConfigApplyConfiguration {
	config := admissionregistrationac.WebhookClientConfig()
	if webhook.URL != nil {
		config.WithURL(*webhook.URL + Path(ring))
	}
	if service := webhook.Service; service != nil {
		config.WithService(admissionregistrationac.ServiceReference().
			WithNamespace(service.Namespace).WithName(service.Name).WithPort(ptr.Deref(service.Port, 443)).WithPath(Path(ring)))
	}
	if len(webhook.CABundle) > 0 {
		config.WithCABundle(webhook.CABundle...)
	}
	return config
}

// configurationOf returns the configuration that makes the API server call the webhook for objects of a ring that no shard has.
func configurationOf(
	clusterRing *v1alpha1.ClusterRing, clientConfig admissionregistrationv1.WebhookClientConfig, annotations map[string]string,
) *admissionregistrationac.MutatingWebhookConfigurationApplyConfiguration {
	webhook := admissionregistrationac.MutatingWebhook().WithName(webhookName).WithClientConfig(clientConfiguration(clusterRing.Name, clientConfig)).
		WithAdmissionReviewVersions("v1").WithSideEffects(admissionregistrationv1.SideEffectClassNone).
		WithFailurePolicy(admissionregistrationv1.Ignore).WithTimeoutSeconds(webhookTimeoutSeconds).
		WithMatchPolicy(admissionregistrationv1.Equivalent).WithReinvocationPolicy(admissionregistrationv1.IfNeededReinvocationPolicy).
		WithObjectSelector(metaac.LabelSelector().WithMatchExpressions(
			metaac.LabelSelectorRequirement().WithKey(v1alpha1.LabelShard(clusterRing.Name)).WithOperator(metav1.LabelSelectorOpDoesNotExist))).
		WithNamespaceSelector(selectorConfiguration(webhookconfig.RingNamespaces(&clusterRing.Spec, &clientConfig)))
	for _, rule := range rulesOf(&clusterRing.Spec) {
		webhook.WithRules(admissionregistrationac.RuleWithOperations().
			WithOperations(admissionregistrationv1.Create, admissionregistrationv1.Update).
			WithAPIGroups(rule.Group).WithAPIVersions("*").WithResources(rule.Resource).WithScope(admissionregistrationv1.AllScopes))
	}
	return admissionregistrationac.MutatingWebhookConfiguration(configurationPrefix + clusterRing.Name).
		WithLabels(map[string]string{v1alpha1.LabelRing: clusterRing.Name}).WithAnnotations(annotations).
		WithOwnerReferences(metaac.OwnerReference().WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("ClusterRing").
			WithName(clusterRing.Name).WithUID(clusterRing.UID).WithController(true)).
		WithWebhooks(webhook)
}

// rulesOf returns the resources that a ring names, each once, including resources that are not served yet.
func rulesOf(spec *v1alpha1.ClusterRingSpec) []v1alpha1.GroupResource {
	var all []v1alpha1.GroupResource
	seen := map[v1alpha1.GroupResource]bool{}
	add := func(gr v1alpha1.GroupResource) {
		if !seen[gr] {
			seen[gr] = true
			all = append(all, gr)
		}
	}
	for _, main := range spec.Resources {
		add(main.GroupResource)
		for _, gr := range main.ControlledResources {
			add(gr)
		}
	}
	return all
}

func selectorConfiguration(selector *metav1.LabelSelector) *metaac.LabelSelectorApplyConfiguration {
	all := metaac.LabelSelector()
	for _, r := range selector.MatchExpressions {
		all.WithMatchExpressions(metaac.LabelSelectorRequirement().WithKey(r.Key).WithOperator(r.Operator).WithValues(r.Values...))
	}
	return all.WithMatchLabels(selector.MatchLabels)
}
