package sharder

import (
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"
	admissionregistrationac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Address is where the apiserver finds the webhook that assigns objects.
type Address struct {
	// URL of it, as https://HOST:PORT, or its Service; one of them.
	URL     string
	Service types.NamespacedName
	// Port of the Service.
	Port int32
	// CABundle vouches for its certificate. Empty leaves it to who injects it, or to the apiserver's own trust.
	CABundle []byte
	// Annotations are put on the configurations, such as those by which somebody knows where to inject an authority.
	Annotations map[string]string
}

// Path is where the webhook answers for a ring.
func Path(ring string) string { return "/rings/" + ring }

// configurationPrefix is before the ring's name in that of its MutatingWebhookConfiguration.
const configurationPrefix = "breakwater-ring-"

// webhookName is the name of the one webhook in each.
const webhookName = "assign.rings.breakwater.dev"

// reviewSeconds is how long the apiserver waits for an answer. An object that is not assigned by then is found by the next pass.
const reviewSeconds = 2

// configurationOf makes the apiserver ask the webhook about objects of a ring that no shard has. It has nothing that somebody else may set
// as well, such as an injected authority.
func configurationOf(of *v1alpha1.ClusterRing, a Address) *admissionregistrationac.MutatingWebhookConfigurationApplyConfiguration {
	at := admissionregistrationac.WebhookClientConfig()
	if a.URL != "" {
		at.WithURL(a.URL + Path(of.Name))
	} else {
		at.WithService(admissionregistrationac.ServiceReference().
			WithNamespace(a.Service.Namespace).WithName(a.Service.Name).WithPort(a.Port).WithPath(Path(of.Name)))
	}
	if len(a.CABundle) > 0 {
		at.WithCABundle(a.CABundle...)
	}
	webhook := admissionregistrationac.MutatingWebhook().WithName(webhookName).WithClientConfig(at).
		WithAdmissionReviewVersions("v1").WithSideEffects(admissionregistrationv1.SideEffectClassNone).
		WithFailurePolicy(admissionregistrationv1.Ignore).WithTimeoutSeconds(reviewSeconds).
		WithMatchPolicy(admissionregistrationv1.Equivalent).WithReinvocationPolicy(admissionregistrationv1.IfNeededReinvocationPolicy).
		WithObjectSelector(metaac.LabelSelector().WithMatchExpressions(
			metaac.LabelSelectorRequirement().WithKey(v1alpha1.LabelShard(of.Name)).WithOperator(metav1.LabelSelectorOpDoesNotExist))).
		WithNamespaceSelector(selectorConfiguration(of.Spec.NamespaceSelector.LabelSelector()))
	for _, rule := range rulesOf(&of.Spec) {
		webhook.WithRules(admissionregistrationac.RuleWithOperations().
			WithOperations(admissionregistrationv1.Create, admissionregistrationv1.Update).
			WithAPIGroups(rule.Group).WithAPIVersions("*").WithResources(rule.Resource).WithScope(admissionregistrationv1.AllScopes))
	}
	return admissionregistrationac.MutatingWebhookConfiguration(configurationPrefix + of.Name).
		WithLabels(map[string]string{v1alpha1.LabelRing: of.Name}).WithAnnotations(maps.Clone(a.Annotations)).
		WithOwnerReferences(metaac.OwnerReference().WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("ClusterRing").
			WithName(of.Name).WithUID(of.UID).WithController(true)).
		WithWebhooks(webhook)
}

// rulesOf are the resources that a ring names, also such as are not served yet, each once.
func rulesOf(spec *v1alpha1.ClusterRingSpec) []v1alpha1.GroupResource {
	var all []v1alpha1.GroupResource
	seen := map[v1alpha1.GroupResource]bool{}
	add := func(of v1alpha1.GroupResource) {
		if !seen[of] {
			seen[of] = true
			all = append(all, of)
		}
	}
	for _, main := range spec.Resources {
		add(main.GroupResource)
		for _, of := range main.ControlledResources {
			add(of)
		}
	}
	return all
}

func selectorConfiguration(selector *metav1.LabelSelector) *metaac.LabelSelectorApplyConfiguration {
	all := metaac.LabelSelector()
	if selector == nil {
		return all
	}
	for _, r := range selector.MatchExpressions {
		all.WithMatchExpressions(metaac.LabelSelectorRequirement().WithKey(r.Key).WithOperator(r.Operator).WithValues(r.Values...))
	}
	return all.WithMatchLabels(selector.MatchLabels)
}

func (a Address) check() error {
	if (a.URL == "") == (a.Service == types.NamespacedName{}) {
		return fmt.Errorf("the webhook has neither a URL nor a Service, or both")
	}
	return nil
}
