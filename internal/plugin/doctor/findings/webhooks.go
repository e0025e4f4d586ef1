package findings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// restoreWebhooks says how to restore the webhook configurations of Breakwater.
const restoreWebhooks = webhookconfig.RestoreWebhooks

// checkGuarding judges whether the API server of a cell sends every removal of its pods to the webhook.
func checkGuarding(c *Cell) []Finding {
	f := reporter{c.where(), "guarding"}
	if err := c.Configurations.Err; err != nil {
		return f.unreadable("ValidatingWebhookConfigurations", err, "Ask for permission to list validatingwebhookconfigurations, or use --as.")
	}
	weak, found := webhookconfig.Weaknesses(c.Name, c.Namespaces, c.Configurations.Value)
	switch {
	case !found:
		return []Finding{f.finding(Problem, "The API server does not send removals of its pods to Breakwater: "+
			"no ValidatingWebhookConfiguration calls "+webhookconfig.RemovalPath(c.Name)+".", restoreWebhooks, "cell-unguarded")}
	case len(weak) > 0:
		return []Finding{f.finding(Problem, "Pods can be removed without a review by Breakwater: "+strings.Join(weak, "; ")+".", restoreWebhooks, "cell-unguarded")}
	}
	var foreign, callers []string
	isRemovalPath := func(path string) bool { return strings.HasSuffix(path, webhookconfig.RemovalPath(c.Name)) }
	for _, hook := range webhookconfig.ValidatingWebhooks(c.Configurations.Value, isRemovalPath) {
		callers = append(callers, hook.Configuration)
		for _, name := range webhookconfig.ForeignConditions(hook.Conditions, webhookconfig.RemovalConditions()) {
			foreign = append(foreign, name+" of "+hook.Configuration)
		}
	}
	if len(foreign) > 0 {
		return []Finding{f.finding(Warning, "Match conditions that Breakwater did not set may let removals bypass the webhook: "+joinNames(foreign)+".",
			restoreWebhooks, "cell-unguarded")}
	}
	slices.Sort(callers)
	if callers = slices.Compact(callers); len(callers) > 1 {
		return []Finding{f.finding(Warning, fmt.Sprintf("%d ValidatingWebhookConfigurations send its removals to the webhook: %s. One that no Helm release owns stays when the "+
			"chart is uninstalled, and the API server then denies all removals.", len(callers), joinNames(callers)),
			"Delete the one without the label app.kubernetes.io/managed-by.", "")}
	}
	return f.ok("Its API server sends every removal to the webhook.")
}

// checkWebhookAnswer judges the answer of a cell's API server to a dry-run eviction of a pod that does not exist. If the API server calls the
// webhook, the webhook either denies a pod that it cannot find, or admits the eviction and the API server returns NotFound. The denial says what the
// webhook cannot reach.
func checkWebhookAnswer(c *Cell) []Finding {
	f := reporter{c.where(), "webhook"}
	status := apierrors.APIStatus(nil)
	switch {
	case c.EvictionAnswer == nil:
		return []Finding{f.finding(Unknown, "A dry run could evict a pod that should not exist.", "", "")}
	case apierrors.IsNotFound(c.EvictionAnswer) && awaitsLabels(c):
		return []Finding{f.finding(Unknown, "No namespace is known to have the label "+v1alpha1.LabelProtected+"=true, without which its API server does not ask it.",
			"Create a PodProtector, or ask for permission to list namespaces, and run the command again.", "")}
	case strings.Contains(c.EvictionAnswer.Error(), removal.OfCore):
		_, why, _ := strings.Cut(c.EvictionAnswer.Error(), removal.OfCore)
		return []Finding{f.finding(Problem, "It answers, but cannot reserve removals in a core, and refuses those of pods that protectors of the core cover, "+
			"except by shares: "+why, "Check that the webhook reaches the core, and the token of its kubeconfig: breakwater join renews it.", "core-down")}
	case strings.Contains(c.EvictionAnswer.Error(), removal.OfUnreadPod):
		_, why, _ := strings.Cut(c.EvictionAnswer.Error(), removal.OfUnreadPod)
		why, _, _ = strings.Cut(why, "; try again")
		return []Finding{f.finding(Problem, "It answers, but cannot read pods, and refuses to evict any: from cell "+why+".",
			"Check that the webhook reaches the cell, and the token of its kubeconfig: breakwater join renews it.", "cell-guard-unknown")}
	case apierrors.IsNotFound(c.EvictionAnswer), strings.Contains(c.EvictionAnswer.Error(), "denied the request"):
		return f.ok("It answers the API server.")
	case apierrors.IsForbidden(c.EvictionAnswer):
		return f.unreadable("Its answer to the API server", c.EvictionAnswer, "Ask for permission to create pods/eviction: the check sends a dry-run eviction.")
	case errors.As(c.EvictionAnswer, &status) && strings.Contains(c.EvictionAnswer.Error(), "failed calling webhook"):
		return []Finding{f.finding(Problem, "The API server gets no answer from it, and denies every removal: "+c.EvictionAnswer.Error()+".",
			"Check that replicas of the webhook are ready, and that the caBundle verifies their certificate.", runbookOf(c.EvictionAnswer))}
	}
	return f.unreadable("Its answer to the API server", c.EvictionAnswer, "")
}

func runbookOf(err error) string {
	if strings.Contains(err.Error(), "certificate has expired") {
		return "certificate-expired"
	}
	return "webhook-down"
}

// checkExempt finds namespaces of a cell that have protectors in a core but whose removals its API server does not send to the webhook.
func checkExempt(c *Cell, cores []Core) []Finding {
	f := reporter{c.where(), "exempt"}
	if err := c.NamespaceObjects.Err; err != nil {
		return f.unreadable("Namespaces", err, "Ask for permission to list namespaces, or use --as.")
	}
	if c.Configurations.Err != nil {
		return nil // reported by guarding
	}
	protected := map[string]bool{}
	for i := range cores {
		for j := range cores[i].Protectors.Value {
			protected[cores[i].Protectors.Value[j].Namespace] = true
		}
	}
	var found []Finding
	for i := range c.NamespaceObjects.Value {
		space := &c.NamespaceObjects.Value[i]
		if !protected[space.Name] || len(c.Namespaces) > 0 && !slices.Contains(c.Namespaces, space.Name) {
			continue
		}
		if exemption, why := webhookconfig.ExemptionOf(c.Name, space.Labels, c.Configurations.Value); exemption != "" && exemption != v1alpha1.ExemptNoWebhook {
			_, remedy := webhookconfig.DescribeExemption(exemption, space.Name, c.Name)
			found = append(found, f.finding(Problem, fmt.Sprintf("Namespace %s has protectors, but its API server does not send removals in it to the webhook: %s.", space.Name, why), remedy, ""))
		}
	}
	return f.orOK(found, "No namespace with protectors is exempt.")
}

// RemovalWebhooks returns the webhooks of a cell that review removals.
func RemovalWebhooks(cell string, configurations []admissionregistrationv1.ValidatingWebhookConfiguration) (all []admissionregistrationv1.ValidatingWebhook) {
	for _, found := range webhookconfig.Hooks(cell, v1alpha1.OperationDelete, nil, configurations) {
		for i := range configurations {
			for j := range configurations[i].Webhooks {
				if configurations[i].Name == found.Configuration && configurations[i].Webhooks[j].Name == found.Name {
					all = append(all, configurations[i].Webhooks[j])
				}
			}
		}
	}
	return all
}

// ReviewedNamespace returns a namespace of a cell whose removals the API server sends to the webhook, or "default" if none is known.
func ReviewedNamespace(c *Cell) string {
	if names := namespacesBy(c, "", v1alpha1.ExemptNoWebhook); len(names) > 0 {
		return names[0]
	}
	return "default"
}

// awaitsLabels reports whether the API server of a cell sends only removals in namespaces with protectors to the webhook, and none of these is known.
func awaitsLabels(c *Cell) bool {
	return len(namespacesBy(c, "")) == 0 && webhookconfig.DependsOnProtectedLabel(c.Name, c.Configurations.Value)
}

// namespacesBy returns the namespaces of a cell that are exempt for one of these reasons; the reason of one that is not exempt is empty.
func namespacesBy(c *Cell, reasons ...v1alpha1.Exemption) (names []string) {
	for i := range c.NamespaceObjects.Value {
		space := &c.NamespaceObjects.Value[i]
		inCell := len(c.Namespaces) == 0 || slices.Contains(c.Namespaces, space.Name)
		exemption, _ := webhookconfig.ExemptionOf(c.Name, space.Labels, c.Configurations.Value)
		if inCell && space.DeletionTimestamp == nil && slices.Contains(reasons, exemption) {
			names = append(names, space.Name)
		}
	}
	return names
}
