package webhookconfig

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Webhook is what webhooks of both kinds have in common.
type Webhook struct {
	Configuration, Name               string
	Client                            admissionregistrationv1.WebhookClientConfig
	Rules                             []admissionregistrationv1.RuleWithOperations
	FailurePolicy                     admissionregistrationv1.FailurePolicyType
	NamespaceSelector, ObjectSelector *metav1.LabelSelector
	Conditions                        []admissionregistrationv1.MatchCondition
}

// Validating are the webhooks of configurations that lead to a path, behind the whole address if that is a URL.
func Validating(configurations []admissionregistrationv1.ValidatingWebhookConfiguration, leads func(path string) bool) (all []Webhook) {
	for i := range configurations {
		for j := range configurations[i].Webhooks {
			if hook := &configurations[i].Webhooks[j]; leads(pathOf(&hook.ClientConfig)) {
				all = append(all, Webhook{
					configurations[i].Name, hook.Name, hook.ClientConfig, hook.Rules, policyOf(hook.FailurePolicy),
					hook.NamespaceSelector, hook.ObjectSelector, hook.MatchConditions,
				})
			}
		}
	}
	return all
}

// Mutating are likewise those of configurations that may change what is stored.
func Mutating(configurations []admissionregistrationv1.MutatingWebhookConfiguration, leads func(path string) bool) (all []Webhook) {
	for i := range configurations {
		for j := range configurations[i].Webhooks {
			if hook := &configurations[i].Webhooks[j]; leads(pathOf(&hook.ClientConfig)) {
				all = append(all, Webhook{
					configurations[i].Name, hook.Name, hook.ClientConfig, hook.Rules, policyOf(hook.FailurePolicy),
					hook.NamespaceSelector, hook.ObjectSelector, hook.MatchConditions,
				})
			}
		}
	}
	return all
}

// policyOf is Fail where nothing is said, as apiservers take it.
func policyOf(policy *admissionregistrationv1.FailurePolicyType) admissionregistrationv1.FailurePolicyType {
	if policy == nil {
		return admissionregistrationv1.Fail
	}
	return *policy
}

func (w *Webhook) text() string { return w.Name + " in " + w.Configuration }

// unasked tells what none of the webhooks is asked about.
func unasked(hooks []Webhook, must []asked) (faults []string) {
	for _, m := range must {
		if !slices.ContainsFunc(hooks, func(w Webhook) bool { return slices.ContainsFunc(w.Rules, m.isIn) }) {
			faults = append(faults, fmt.Sprintf("nobody is asked about %s of %s", m.operation, m.resource))
		}
	}
	return faults
}

// foreign tells which conditions of a webhook may leave things out.
func (w *Webhook) foreign(own []admissionregistrationv1.MatchCondition) (faults []string) {
	if names := Foreign(w.Conditions, own); len(names) > 0 {
		faults = append(faults, fmt.Sprintf("%s has match conditions that are not Breakwater's: %s", w.text(), strings.Join(names, ", ")))
	}
	return faults
}
