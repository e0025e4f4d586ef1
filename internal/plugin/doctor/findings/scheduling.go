package findings

import (
	"fmt"
	"strings"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// checkScheduling judges whether the API server of a cell calls the webhook of scheduling policies, if there are policies.
func checkScheduling(c *Cell, cores []Core) []Finding {
	f := reporter{c.where(), "scheduling"}
	if err := c.Mutating.Err; err != nil {
		return f.unreadable("MutatingWebhookConfigurations", err, "Ask for permission to list mutatingwebhookconfigurations, or use --as.")
	}
	weak, configured := webhookconfig.SchedulingWeaknesses(c.Name, c.Namespaces, c.Mutating.Value)
	switch {
	case !configured:
		return checkMissingScheduling(f, c, cores)
	case len(weak) > 0:
		return []Finding{f.finding(Warning, "Pods can be stored without the changes of scheduling policies: "+strings.Join(weak, "; ")+".",
			"Sync the chart breakwater, or apply what breakwater webhook-config --scheduling prints.", "scheduling-policies-not-applied")}
	}
	return f.ok("Its API server sends pods and workloads to the webhook.")
}

// checkMissingScheduling judges a cell without a webhook of scheduling policies. That is a problem only if there are policies.
func checkMissingScheduling(f reporter, c *Cell, cores []Core) []Finding {
	var policies []string
	for i := range cores {
		if err := cores[i].Policies.Err; err != nil {
			return f.unreadable("Scheduling policies", err, "Ask for permission to list podschedulingpolicies and clusterpodschedulingpolicies, or use --as.")
		}
		policies = append(policies, cores[i].Policies.Value...)
	}
	if len(policies) == 0 {
		return f.ok("There are no scheduling policies, and no webhook for them is needed.")
	}
	return []Finding{f.finding(Warning, fmt.Sprintf("There are scheduling policies (%s), but they do not apply to pods: no MutatingWebhookConfiguration calls %s.",
		joinNames(policies), webhookconfig.SchedulePath(c.Name)),
		"Sync the chart breakwater with webhook.scheduling.enabled, or apply what breakwater webhook-config --scheduling prints.", "scheduling-policies-not-applied")}
}

// checkBundlesMatch finds scheduling webhooks that share a Service with removal webhooks but trust other authorities. The caBundles of one Service
// must match.
func checkBundlesMatch(c *Cell) (found []Finding) {
	for i := range c.Scheduling {
		hook := &c.Scheduling[i]
		for j := range c.Hooks {
			removals := &c.Hooks[j]
			if hook.InClusterOnly && removals.InClusterOnly && hook.Host == removals.Host && !shareAuthority(hook.Bundle, removals.Bundle) {
				found = append(found, reporter{c.where(), "certificate"}.finding(Warning,
					fmt.Sprintf("The caBundle of %s has no CA certificate in common with that of %s, although both call %s.", hook.Name, removals.Name, hook.Host),
					"Fix the component that fills it, which depends on tls.mode of the chart: docs/how-to/certificates.md.", "certificate-expired"))
			}
		}
	}
	return found
}

// shareAuthority reports whether two bundles have an authority in common. It is also true if either has none: another check reports
// that.
func shareAuthority(a, b []byte) bool {
	all, others := parseCertificates(a), parseCertificates(b)
	for _, one := range all {
		for _, other := range others {
			if one.Equal(other) {
				return true
			}
		}
	}
	return len(all) == 0 || len(others) == 0
}
