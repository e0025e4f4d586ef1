package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// again says how to restore the webhook configurations of Breakwater.
const again = "Sync the chart breakwater, or apply what breakwater webhook-config prints."

// guarding judges whether the API server of a cell sends every removal of its pods to the webhook.
func guarding(c *Cell) []Finding {
	f := finder{c.where(), "guarding"}
	if err := c.Configurations.Err; err != nil {
		return f.unread("ValidatingWebhookConfigurations", err, "Ask for the right to list validatingwebhookconfigurations, or see --as.")
	}
	weak, found := webhookconfig.Weaknesses(c.Name, c.Namespaces, c.Configurations.Value)
	switch {
	case !found:
		return []Finding{f.bad(Problem, "Nobody is asked about removals of its pods: no ValidatingWebhookConfiguration leads to "+webhookconfig.Path(c.Name)+".",
			again, "cell-unguarded")}
	case len(weak) > 0:
		return []Finding{f.bad(Problem, "Pods can be removed unasked: "+strings.Join(weak, "; ")+".", again, "cell-unguarded")}
	}
	var foreign []string
	for _, hook := range webhookconfig.Validating(c.Configurations.Value, func(path string) bool { return strings.HasSuffix(path, webhookconfig.Path(c.Name)) }) {
		for _, name := range webhookconfig.Foreign(hook.Conditions, webhookconfig.RemovalConditions()) {
			foreign = append(foreign, name+" of "+hook.Configuration)
		}
	}
	if len(foreign) > 0 {
		return []Finding{f.bad(Warning, "Match conditions that are not Breakwater's may let removals pass unasked: "+some(foreign)+".", again, "cell-unguarded")}
	}
	return f.ok("Its apiserver asks about every removal.")
}

// asked judges the answer of a cell's API server to a dry-run eviction of a pod that does not exist. If the API server calls the
// webhook, the webhook either denies a pod that it cannot find, or admits the eviction and the API server returns NotFound.
func asked(c *Cell) []Finding {
	f := finder{c.where(), "webhook"}
	status := apierrors.APIStatus(nil)
	switch {
	case c.Asked == nil:
		return []Finding{f.bad(Unknown, "A pod that should not be there could be evicted, as a dry run.", "", "")}
	case apierrors.IsNotFound(c.Asked), strings.Contains(c.Asked.Error(), "denied the request"):
		return f.ok("It answers the apiserver.")
	case apierrors.IsForbidden(c.Asked):
		return f.unread("Whether it answers the apiserver", c.Asked, "Ask for the right to create pods/eviction, by which a dry run asks the webhook.")
	case errors.As(c.Asked, &status) && strings.Contains(c.Asked.Error(), "failed calling webhook"):
		return []Finding{f.bad(Problem, "The apiserver gets no answer from it, and refuses every removal: "+c.Asked.Error()+".",
			"See that replicas of the webhook are ready, and that the caBundle vouches for their certificate.", runbookOf(c.Asked))}
	}
	return f.unread("Whether it answers the apiserver", c.Asked, "")
}

func runbookOf(err error) string {
	if strings.Contains(err.Error(), "certificate has expired") {
		return "certificate-expired"
	}
	return "webhook-down"
}

// exempt finds namespaces of a cell that have protectors in a core but whose removals its API server does not send to the webhook.
func exempt(c *Cell, cores []Core) []Finding {
	f := finder{c.where(), "exempt"}
	if err := c.Spaces.Err; err != nil {
		return f.unread("Namespaces", err, "Ask for the right to list namespaces, or see --as.")
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
	for i := range c.Spaces.Value {
		space := &c.Spaces.Value[i]
		if !protected[space.Name] || len(c.Namespaces) > 0 && !slices.Contains(c.Namespaces, space.Name) {
			continue
		}
		if why := leftOut(c, space.Labels); why != "" {
			mend := again
			if space.Labels[v1alpha1.LabelExempt] == "true" {
				mend = "If the emergency is over: kubectl label namespace " + space.Name + " " + v1alpha1.LabelExempt + "-"
			}
			found = append(found, f.bad(Warning, fmt.Sprintf("Namespace %s has protectors, and removals in it are not asked about: %s.", space.Name, why), mend, ""))
		}
	}
	return f.or(found, "No namespace with protectors is left out.")
}

// leftOut says why no webhook is called for deletions in a namespace with these labels. It is empty if one is called, or if the cell has
// no webhook.
func leftOut(c *Cell, labels map[string]string) (why string) {
	for _, hook := range webhookconfig.Hooks(c.Name, v1alpha1.OperationDelete, labels, c.Configurations.Value) {
		if hook.Leaves == "" {
			return ""
		}
		why = hook.Leaves
	}
	return why
}

// Hooks returns the webhooks of a cell that review removals.
func Hooks(cell string, configurations []admissionregistrationv1.ValidatingWebhookConfiguration) (all []admissionregistrationv1.ValidatingWebhook) {
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

// AskedAbout returns a namespace of a cell whose removals the API server sends to the webhook, or "default" if none is known.
func AskedAbout(c *Cell) string {
	for i := range c.Spaces.Value {
		space := &c.Spaces.Value[i]
		mine := len(c.Namespaces) == 0 || slices.Contains(c.Namespaces, space.Name)
		if mine && space.DeletionTimestamp == nil && leftOut(c, space.Labels) == "" {
			return space.Name
		}
	}
	return "default"
}
