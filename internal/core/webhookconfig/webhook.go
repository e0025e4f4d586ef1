package webhookconfig

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Webhook has the common fields of validating and mutating webhooks.
type Webhook struct {
	Configuration, Name               string
	Client                            admissionregistrationv1.WebhookClientConfig
	Rules                             []admissionregistrationv1.RuleWithOperations
	FailurePolicy                     admissionregistrationv1.FailurePolicyType
	NamespaceSelector, ObjectSelector *metav1.LabelSelector
	Conditions                        []admissionregistrationv1.MatchCondition
}

// ValidatingWebhooks returns the webhooks of configurations whose path leads accepts. For a URL, the path is the whole address.
func ValidatingWebhooks(configurations []admissionregistrationv1.ValidatingWebhookConfiguration, leads func(path string) bool) (all []Webhook) {
	for i := range configurations {
		for j := range configurations[i].Webhooks {
			if hook := &configurations[i].Webhooks[j]; leads(webhookPath(&hook.ClientConfig)) {
				all = append(all, Webhook{
					configurations[i].Name, hook.Name, hook.ClientConfig, hook.Rules, failurePolicyOf(hook.FailurePolicy),
					hook.NamespaceSelector, hook.ObjectSelector, hook.MatchConditions,
				})
			}
		}
	}
	return all
}

// MutatingWebhooks does the same for mutating webhooks.
func MutatingWebhooks(configurations []admissionregistrationv1.MutatingWebhookConfiguration, leads func(path string) bool) (all []Webhook) {
	for i := range configurations {
		for j := range configurations[i].Webhooks {
			if hook := &configurations[i].Webhooks[j]; leads(webhookPath(&hook.ClientConfig)) {
				all = append(all, Webhook{
					configurations[i].Name, hook.Name, hook.ClientConfig, hook.Rules, failurePolicyOf(hook.FailurePolicy),
					hook.NamespaceSelector, hook.ObjectSelector, hook.MatchConditions,
				})
			}
		}
	}
	return all
}

// failurePolicyOf returns the failure policy. The API server defaults it to Fail.
func failurePolicyOf(policy *admissionregistrationv1.FailurePolicyType) admissionregistrationv1.FailurePolicyType {
	if policy == nil {
		return admissionregistrationv1.Fail
	}
	return *policy
}

func (w *Webhook) describe() string { return w.Name + " in " + w.Configuration }

// missingOperations returns the operations that no webhook is asked about.
func missingOperations(hooks []Webhook, must []requiredOperation) (faults []string) {
	for _, m := range must {
		if !slices.ContainsFunc(hooks, func(w Webhook) bool { return slices.ContainsFunc(w.Rules, m.isCoveredBy) }) {
			faults = append(faults, fmt.Sprintf("no webhook is called for %s of %s", m.operation, m.resource))
		}
	}
	return faults
}

// foreignConditions returns the foreign match conditions of a webhook, which may exclude requests.
func (w *Webhook) foreignConditions(own []admissionregistrationv1.MatchCondition) (faults []string) {
	if names := ForeignConditions(w.Conditions, own); len(names) > 0 {
		faults = append(faults, fmt.Sprintf("%s has match conditions that are not Breakwater's: %s", w.describe(), strings.Join(names, ", ")))
	}
	return faults
}
