package webhookconfig

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Hook is a webhook that an API server may ask about the pods of a cell.
type Hook struct {
	Configuration string `json:"configuration"`
	Name          string `json:"name"`
	// FailurePolicy decides on removals while the webhook does not answer: Fail denies them, Ignore allows them.
	FailurePolicy string `json:"failurePolicy"`
	// SkipReason is the reason why the webhook is not asked about an operation in a namespace. It is empty if it is asked.
	SkipReason string `json:"leavesOut,omitempty"`
	// Conditions are the names of the match conditions, which may still exclude a request.
	Conditions []string `json:"matchConditions,omitempty"`
}

// Hooks returns the webhooks for a cell, evaluated for an operation on a pod in a namespace with these labels.
func Hooks(
	cell string, operation v1alpha1.Operation, namespace map[string]string, configurations []admissionregistrationv1.ValidatingWebhookConfiguration,
) (all []Hook) {
	for i := range configurations {
		for j := range configurations[i].Webhooks {
			hook := &configurations[i].Webhooks[j]
			if !servesCell(&hook.ClientConfig, cell) {
				continue
			}
			found := Hook{
				Configuration: configurations[i].Name, Name: hook.Name, FailurePolicy: string(admissionregistrationv1.Fail),
				SkipReason: skipReason(hook, operation, namespace),
			}
			if hook.FailurePolicy != nil {
				found.FailurePolicy = string(*hook.FailurePolicy)
			}
			for _, condition := range hook.MatchConditions {
				found.Conditions = append(found.Conditions, condition.Name)
			}
			all = append(all, found)
		}
	}
	return all
}

func skipReason(hook *admissionregistrationv1.ValidatingWebhook, operation v1alpha1.Operation, namespace map[string]string) string {
	for _, must := range operationsFor(operation) {
		if !slices.ContainsFunc(hook.Rules, must.isCoveredBy) {
			return fmt.Sprintf("it is not called for %s of %s", must.operation, must.resource)
		}
	}
	if hook.NamespaceSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(hook.NamespaceSelector)
		switch {
		case err != nil:
			return "its namespaceSelector is malformed"
		case selector.Matches(labels.Set(namespace)):
		case namespace[v1alpha1.LabelExempt] == "true":
			return "the namespace is labeled " + v1alpha1.LabelExempt + "=true"
		case selector.Matches(labels.Set(withProtectedLabel(namespace))):
			return "the namespace is not labeled " + v1alpha1.LabelProtected + "=true, which it is while it has a PodProtector"
		default:
			return "its namespaceSelector excludes the namespace: " + strings.ReplaceAll(metav1.FormatLabelSelector(hook.NamespaceSelector), ",", ", ")
		}
	}
	if operation == v1alpha1.OperationEvict && selects(hook.ObjectSelector) {
		return "it has an objectSelector, which no eviction matches"
	}
	return ""
}

// operationsFor returns all ways in which a client can request an operation.
func operationsFor(operation v1alpha1.Operation) []requiredOperation {
	switch operation {
	case v1alpha1.OperationEvict:
		return []requiredOperation{podOperation(admissionregistrationv1.Create, "pods/eviction")}
	case v1alpha1.OperationUpdate:
		return []requiredOperation{podOperation(admissionregistrationv1.Update, "pods")}
	case v1alpha1.OperationRelabel:
		return []requiredOperation{podOperation(admissionregistrationv1.Update, "pods"), podOperation(admissionregistrationv1.Update, "pods/status")}
	case v1alpha1.OperationResize:
		return []requiredOperation{podOperation(admissionregistrationv1.Update, "pods/resize")}
	default:
		return []requiredOperation{podOperation(admissionregistrationv1.Delete, "pods")}
	}
}
