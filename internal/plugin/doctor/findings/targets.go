package findings

import (
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// cacheDelay is how long a new protector can be missing from the caches of webhooks.
const cacheDelay = 10 * time.Second

// checkTargets judges whether the API server of a core sends protectors with a targetRef to the webhook, and gets an answer.
func checkTargets(core *Core) []Finding {
	f := reporter{core.where(), "targets"}
	if err := core.Validating.Err; err != nil {
		return f.unreadable("ValidatingWebhookConfigurations", err, "Ask for permission to list validatingwebhookconfigurations, or use --as.")
	}
	hooks := webhookconfig.ProtectorWebhooks(core.Validating.Value)
	if len(hooks) == 0 {
		return []Finding{f.finding(Warning, "The API server does not send protectors to the webhook: it would store a second one for a workload, and each removal "+
			"would need the budget of both.",
			"Sync the chart breakwater, or apply what breakwater webhook-config --core NAME prints.", "")}
	}
	var found []Finding
	if weak := webhookconfig.ProtectorWeaknesses(hooks); len(weak) > 0 {
		found = append(found, f.finding(Warning, "The webhook configuration is not as Breakwater needs it: "+strings.Join(weak, "; ")+".", restoreWebhooks, ""))
	}
	return f.orOK(append(found, checkSecondProtector(f, core)...), "Its API server sends protectors with a targetRef to the webhook.")
}

// checkSecondProtector judges the answer to a second protector for a workload. The API server admits it while the webhook is unreachable.
func checkSecondProtector(f reporter, core *Core) []Finding {
	d := core.SecondProtector
	if d == nil {
		return nil
	}
	switch {
	case d.Err == nil:
		return []Finding{f.finding(Warning, "The API server gets no answer from the webhook: it would store a second protector for the workload of "+d.Existing+
			", as a dry run has shown.",
			"Check that replicas of the webhook are ready, and that the caBundle verifies their certificate.", "webhook-down")}
	case strings.Contains(d.Err.Error(), "denied the request"):
		return nil
	case apierrors.IsForbidden(d.Err) && slices.ContainsFunc(core.Hooks, func(h Hook) bool { return h.Reviews == ProtectorReviews && !h.InClusterOnly }):
		return nil // its answer to this machine was checked
	case apierrors.IsForbidden(d.Err):
		return f.unreadable("The answer of the webhook to the API server", d.Err, "Ask for permission to create podprotectors: the check sends a dry run.")
	}
	return f.unreadable("The answer of the webhook to the API server", d.Err, "Find out what denies PodProtectors.")
}

// TargetedProtector returns a protector with a targetRef that is old enough for webhooks to know, so that they deny a second one for its
// workload. It returns nil if there is none.
func TargetedProtector(core *Core, now time.Time) *v1alpha1.PodProtector {
	if len(webhookconfig.ProtectorWebhooks(core.Validating.Value)) == 0 {
		return nil
	}
	for i := range core.Protectors.Value {
		p := &core.Protectors.Value[i]
		if p.Spec.TargetRef != nil && p.DeletionTimestamp == nil && now.Sub(p.CreationTimestamp.Time) > cacheDelay {
			return p
		}
	}
	return nil
}
