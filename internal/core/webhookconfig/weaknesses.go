// Package webhookconfig defines the configuration that a cell's cluster needs so that its API server asks the webhook about removals
// of the cell's pods, and checks it.
//
// It is pure.
package webhookconfig

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// RemovalPath returns the webhook path for removals of a cell.
func RemovalPath(cell string) string { return "/cells/" + cell + "/validate" }

// SchedulePath returns the webhook path for pods and templates of a cell that are to be stored.
func SchedulePath(cell string) string { return "/cells/" + cell + "/schedule" }

// requiredOperation is an operation that the API server must ask the webhook about.
type requiredOperation struct {
	operation                admissionregistrationv1.OperationType
	group, version, resource string
}

// podOperation returns an operation on pods or on one of their subresources.
func podOperation(operation admissionregistrationv1.OperationType, resource string) requiredOperation {
	return requiredOperation{operation, "", "v1", resource}
}

// requiredOperations are the removals that the webhook of every cell must be asked about.
var requiredOperations = []requiredOperation{ //nolint:gochecknoglobals // effectively a constant
	podOperation(admissionregistrationv1.Delete, "pods"), podOperation(admissionregistrationv1.Create, "pods/eviction"),
	podOperation(admissionregistrationv1.Update, "pods"), podOperation(admissionregistrationv1.Update, "pods/resize"),
	podOperation(admissionregistrationv1.Update, "pods/status"), // it can change labels
}

// Weaknesses returns the reasons why configurations do not protect a cell, or none if they do. namespaces are the cell's namespaces,
// or empty if it has all. found is false if no webhook is for the cell.
func Weaknesses(
	cell string, namespaces []string, configurations []admissionregistrationv1.ValidatingWebhookConfiguration,
) (weak []string, found bool) {
	for i := range configurations {
		for j := range configurations[i].Webhooks {
			hook := &configurations[i].Webhooks[j]
			if !servesCell(&hook.ClientConfig, cell) {
				continue
			}
			faults := weaknessesOf(hook, namespaces)
			if len(faults) == 0 {
				return nil, true // one webhook without faults is enough
			}
			for _, fault := range faults {
				weak = append(weak, fmt.Sprintf("%s in %s %s", hook.Name, configurations[i].Name, fault))
			}
			found = true
		}
	}
	return weak, found
}

func servesCell(config *admissionregistrationv1.WebhookClientConfig, cell string) bool {
	return hasPath(config, RemovalPath(cell))
}

func weaknessesOf(hook *admissionregistrationv1.ValidatingWebhook, namespaces []string) (faults []string) {
	for _, must := range requiredOperations {
		if !slices.ContainsFunc(hook.Rules, must.isCoveredBy) {
			faults = append(faults, fmt.Sprintf("is not called for %s of %s", must.operation, must.resource))
		}
	}
	if hook.FailurePolicy != nil && *hook.FailurePolicy != admissionregistrationv1.Fail {
		faults = append(faults, fmt.Sprintf("has failurePolicy %s, which admits removals while the webhook is unreachable", *hook.FailurePolicy))
	}
	if selector := hook.ObjectSelector; selector != nil && len(selector.MatchLabels)+len(selector.MatchExpressions) > 0 {
		faults = append(faults, "has an objectSelector, which no eviction matches")
	}
	if names := unknownConditions(hook.MatchConditions, RemovalConditions()); len(names) > 0 {
		faults = append(faults, "has match conditions that are not Breakwater's, which may admit removals without a review: "+strings.Join(names, ", "))
	}
	return append(faults, excludedNamespaces(hook.NamespaceSelector, namespaces)...)
}

func (a requiredOperation) isCoveredBy(rule admissionregistrationv1.RuleWithOperations) bool {
	operation := slices.Contains(rule.Operations, a.operation) || slices.Contains(rule.Operations, admissionregistrationv1.OperationAll)
	group := slices.Contains(rule.APIGroups, a.group) || slices.Contains(rule.APIGroups, "*")
	version := slices.Contains(rule.APIVersions, a.version) || slices.Contains(rule.APIVersions, "*")
	scope := rule.Scope == nil || *rule.Scope != admissionregistrationv1.ClusterScope
	resource := slices.ContainsFunc(rule.Resources, func(r string) bool {
		of, sub, isSub := strings.Cut(a.resource, "/")
		return r == a.resource || r == "*/*" || !isSub && r == "*" || isSub && (r == of+"/*" || r == "*/"+sub)
	})
	return operation && group && version && scope && resource
}

// excludedNamespaces returns the required namespaces that a selector excludes. A selector may exclude other namespaces by name, namespaces
// that are labeled exempt, and namespaces without the label of namespaces with protectors.
func excludedNamespaces(selector *metav1.LabelSelector, namespaces []string) (faults []string) {
	if selector == nil {
		return nil
	}
	foreign := func(key string) {
		faults = append(faults, fmt.Sprintf("selects namespaces by the label %s", key))
	}
	for key := range selector.MatchLabels {
		foreign(key)
	}
	slices.Sort(faults)
	for _, r := range selector.MatchExpressions {
		switch {
		case r.Key == v1alpha1.LabelExempt && r.Operator == metav1.LabelSelectorOpNotIn && slices.Equal(r.Values, []string{"true"}):
		case isProtectedRequirement(r):
		case r.Key == corev1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpNotIn:
			for _, namespace := range namespaces {
				if slices.Contains(r.Values, namespace) {
					faults = append(faults, fmt.Sprintf("excludes namespace %s", namespace))
				}
			}
		case r.Key == corev1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpIn:
			if len(namespaces) == 0 {
				faults = append(faults, "selects some namespaces, but the cell has all")
			}
			for _, namespace := range namespaces {
				if !slices.Contains(r.Values, namespace) {
					faults = append(faults, fmt.Sprintf("excludes namespace %s", namespace))
				}
			}
		default:
			foreign(r.Key)
		}
	}
	return faults
}
