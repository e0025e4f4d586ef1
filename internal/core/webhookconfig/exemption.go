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
		case isCalledOnceLabeled(cell, operation, namespace, configurations):
			return v1alpha1.ExemptNotLabeled, detail
		default:
			return v1alpha1.ExemptNamespaceSelector, detail
		}
	}
	return "", ""
}

// isCalledOnceLabeled reports whether the API server would ask a webhook of scope Protected if the namespace had its label.
func isCalledOnceLabeled(
	cell string, operation v1alpha1.Operation, namespace map[string]string, configurations []admissionregistrationv1.ValidatingWebhookConfiguration,
) bool {
	labeled := withProtectedLabel(namespace)
	return slices.ContainsFunc(Hooks(cell, operation, labeled, configurations), func(hook Hook) bool { return hook.SkipReason == "" })
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
	case v1alpha1.ExemptNamespaceSelector:
		return "the namespaceSelector of the webhook excludes it",
			"Move the workload to another namespace. Or, if the cluster does not need this one to start, remove it from webhook.exemptNamespaces " +
				"of the chart breakwater (--exempt-namespaces of breakwater webhook-config), or add it to webhook.onlyNamespaces if that is set."
	case v1alpha1.ExemptNotLabeled:
		return "the namespace does not have the label " + v1alpha1.LabelProtected + "=true yet, or has had it for less than a few seconds",
			fmt.Sprintf("The aggregator of cell %s sets the label. If this takes longer than a minute, check that the aggregator runs, that it may get and patch "+
				"namespaces in the cluster of the cell, and that it may get the namespace kube-system of the core: upgrade the chart breakwater in both clusters.", cell)
	default:
		return "no webhook of the cell is called for removals", RestoreWebhooks
	}
}

// RestoreWebhooks says how to restore the webhook configurations of Breakwater.
const RestoreWebhooks = "Sync the chart breakwater, or apply what breakwater webhook-config prints, with --release if the chart is installed there."

// CellWebhooks returns the webhooks that review removals in a cell.
func CellWebhooks(cell string, configurations []admissionregistrationv1.ValidatingWebhookConfiguration) []Webhook {
	all := ValidatingWebhooks(configurations, func(string) bool { return true })
	return slices.DeleteFunc(all, func(w Webhook) bool { return !servesCell(&w.Client, cell) })
}
