package findings

import (
	"fmt"
	"strings"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// The parts of a finding about configurations that cannot be read.
const (
	mutatingConfigurations = "MutatingWebhookConfigurations"
	mayListMutating        = "Ask for permission to list mutatingwebhookconfigurations, or use --as."
)

// checkScheduling judges whether the API server of a cell calls the webhook of scheduling policies, if there are policies.
func checkScheduling(c *Cell, cores []Core) []Finding {
	f := reporter{c.where(), "scheduling"}
	if err := c.Mutating.Err; err != nil {
		return f.unreadable(mutatingConfigurations, err, mayListMutating)
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
