package doctor

import (
	"fmt"
	"strings"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// scheduling judges whether the API server of a cell calls the webhook of scheduling policies, if there are policies.
func scheduling(c *Cell, cores []Core) []Finding {
	f := finder{c.where(), "scheduling"}
	if err := c.Mutating.Err; err != nil {
		return f.unread("MutatingWebhookConfigurations", err, "Ask for the right to list mutatingwebhookconfigurations, or see --as.")
	}
	weak, there := webhookconfig.SchedulingWeaknesses(c.Name, c.Namespaces, c.Mutating.Value)
	switch {
	case !there:
		return unscheduled(f, c, cores)
	case len(weak) > 0:
		return []Finding{f.bad(Warning, "Pods can be stored without what scheduling policies ask for: "+strings.Join(weak, "; ")+".",
			"Sync the chart breakwater, or apply what breakwater webhook-config --scheduling prints.", "scheduling-policies-not-asked")}
	}
	return f.ok("Its apiserver asks about pods and workloads that are stored.")
}

// unscheduled judges a cell without a webhook of scheduling policies. That is a problem only if there are policies.
func unscheduled(f finder, c *Cell, cores []Core) []Finding {
	var policies []string
	for i := range cores {
		if err := cores[i].Policies.Err; err != nil {
			return f.unread("Scheduling policies", err, "Ask for the right to list podschedulingpolicies and clusterpodschedulingpolicies, or see --as.")
		}
		policies = append(policies, cores[i].Policies.Value...)
	}
	if len(policies) == 0 {
		return f.ok("There are no scheduling policies, and nobody is asked for them.")
	}
	return []Finding{f.bad(Warning, fmt.Sprintf("There are scheduling policies (%s), and nothing is added to pods: no MutatingWebhookConfiguration leads to %s.",
		some(policies), webhookconfig.SchedulePath(c.Name)),
		"Sync the chart breakwater with webhook.scheduling.enabled, or apply what breakwater webhook-config --scheduling prints.", "scheduling-policies-not-asked")}
}

// strange finds scheduling webhooks that share a Service with removal webhooks but trust other authorities. The caBundles of one Service
// must match.
func strange(c *Cell) (found []Finding) {
	for i := range c.Scheduling {
		hook := &c.Scheduling[i]
		for j := range c.Hooks {
			removals := &c.Hooks[j]
			if hook.Local && removals.Local && hook.Host == removals.Host && !shareAuthority(hook.Bundle, removals.Bundle) {
				found = append(found, finder{c.where(), "certificate"}.bad(Warning,
					fmt.Sprintf("The caBundle of %s vouches for other certificates than that of %s, although both ask at %s.", hook.Name, removals.Name, hook.Host),
					"See to who fills it: tls.mode of the chart, docs/certificates.md.", "certificate-expired"))
			}
		}
	}
	return found
}

// shareAuthority reports whether two bundles have an authority in common. It is also true if either has none: another check reports
// that.
func shareAuthority(a, b []byte) bool {
	all, others := authorities(a), authorities(b)
	for _, one := range all {
		for _, other := range others {
			if one.Equal(other) {
				return true
			}
		}
	}
	return len(all) == 0 || len(others) == 0
}
