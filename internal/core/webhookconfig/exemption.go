package webhookconfig

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// ExemptionOf returns why the API server of a cell does not ask the webhook about removals in a namespace with these labels: no webhook for the
// cell is called for deletions, or none for evictions. It is empty if the API server asks. detail says more about it, as a clause.
func ExemptionOf(
	cell string, namespace map[string]string, configurations []admissionregistrationv1.ValidatingWebhookConfiguration,
) (exemption v1alpha1.Exemption, detail string) {
	for _, operation := range []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict} {
		hooks := Hooks(cell, operation, namespace, configurations)
		if len(hooks) == 0 {
			return v1alpha1.ExemptNoWebhook, "no ValidatingWebhookConfiguration calls " + RemovalPath(cell)
		}
		isAsked := false
		for _, hook := range hooks {
			isAsked, detail = isAsked || hook.SkipReason == "", hook.SkipReason
		}
		switch {
		case isAsked:
		case !anyCalledFor(cell, operation, configurations):
			return v1alpha1.ExemptNoWebhook, detail
		case namespace[v1alpha1.LabelExempt] == "true":
			return v1alpha1.ExemptLabel, detail
		case awaitsLabel(hooks):
			return v1alpha1.ExemptNotLabeled, detail
		default:
			return v1alpha1.ExemptNamespaceSelector, detail
		}
	}
	return "", ""
}

// awaitsLabel reports whether a webhook would be called if the namespace had LabelProtected.
func awaitsLabel(hooks []Hook) bool {
	return slices.ContainsFunc(hooks, func(h Hook) bool { return h.SkipReason == notLabeled })
}

// anyCalledFor reports whether a webhook for the cell is called for an operation in some namespace.
func anyCalledFor(cell string, operation v1alpha1.Operation, configurations []admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	for _, hook := range CellWebhooks(cell, configurations) {
		for _, rule := range hook.Rules {
			isAsked := slices.ContainsFunc(operationsFor(operation), func(must requiredOperation) bool { return must.isCoveredBy(rule) })
			if isAsked && (operation != v1alpha1.OperationEvict || !selects(hook.ObjectSelector)) {
				return true
			}
		}
	}
	return false
}

// DescribeExemption returns why removals in a namespace of a cell are not checked, as a clause, and what to do, as a sentence.
func DescribeExemption(exemption v1alpha1.Exemption, namespace, cell string) (why, remedy string) {
	switch exemption {
	case v1alpha1.ExemptLabel:
		return "the namespace has the label " + v1alpha1.LabelExempt + "=true",
			fmt.Sprintf("If the emergency is over, run in the cluster of cell %s: kubectl label namespace %s %s-", cell, namespace, v1alpha1.LabelExempt)
	case v1alpha1.ExemptNotLabeled:
		return "the namespace does not have the label " + v1alpha1.LabelProtected + "=true yet, or has had it only for seconds",
			fmt.Sprintf("The aggregator of the cell sets it. If it does not, allow the aggregator to patch namespaces in the cluster of cell %s: "+
				"upgrade the chart breakwater there, or run breakwater join again.", cell)
	case v1alpha1.ExemptNamespaceSelector:
		return "the namespaceSelector of the webhook excludes it",
			"Move the workload to another namespace. Or, if the cluster does not need this one to start, remove it from webhook.exemptNamespaces " +
				"of the chart breakwater (--exempt-namespaces of breakwater webhook-config), or add it to webhook.onlyNamespaces if that is set."
	default:
		return "no webhook of the cell is called for removals", RestoreWebhooks
	}
}

// RestoreWebhooks says how to restore the webhook configurations of Breakwater.
const RestoreWebhooks = "Sync the chart breakwater, or apply what breakwater webhook-config prints."

// CellWebhooks returns the webhooks that review removals in a cell.
func CellWebhooks(cell string, configurations []admissionregistrationv1.ValidatingWebhookConfiguration) []Webhook {
	all := ValidatingWebhooks(configurations, func(string) bool { return true })
	return slices.DeleteFunc(all, func(w Webhook) bool { return !servesCell(&w.Client, cell) })
}
