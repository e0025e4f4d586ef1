package doctor

import (
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// knownAfter is how long a new protector can be missing from the caches of webhooks.
const knownAfter = 10 * time.Second

// targets judges whether the API server of a core sends protectors with a targetRef to the webhook, and gets an answer.
func targets(core *Core) []Finding {
	f := finder{core.where(), "targets"}
	if err := core.Validating.Err; err != nil {
		return f.unread("ValidatingWebhookConfigurations", err, "Ask for the right to list validatingwebhookconfigurations, or see --as.")
	}
	hooks := webhookconfig.Protectors(core.Validating.Value)
	if len(hooks) == 0 {
		return []Finding{f.bad(Warning, "Nobody is asked about protectors: a second one for a workload would be stored, and each removal "+
			"would need the budget of both.",
			"Sync the chart breakwater, or apply what breakwater webhook-config --core NAME prints.", "")}
	}
	var found []Finding
	if weak := webhookconfig.ProtectorWeaknesses(hooks); len(weak) > 0 {
		found = append(found, f.bad(Warning, "The apiserver asks in another way than it should: "+strings.Join(weak, "; ")+".", again, ""))
	}
	return f.or(append(found, doubled(f, core)...), "Its apiserver asks about protectors that name a workload.")
}

// doubled judges the answer to a second protector for a workload. The API server admits it while the webhook is unreachable.
func doubled(f finder, core *Core) []Finding {
	d := core.Doubled
	if d == nil {
		return nil
	}
	switch {
	case d.Err == nil:
		return []Finding{f.bad(Warning, "The apiserver gets no answer from the webhook: a second protector for the workload of "+d.Of+
			" would be stored, as a dry run has shown.",
			"See that replicas of the webhook are ready, and that the caBundle vouches for their certificate.", "webhook-down")}
	case strings.Contains(d.Err.Error(), "denied the request"):
		return nil
	case apierrors.IsForbidden(d.Err) && slices.ContainsFunc(core.Hooks, func(h Hook) bool { return h.Of == OfProtectors && !h.Local }):
		return nil // its answer to this machine was checked
	case apierrors.IsForbidden(d.Err):
		return f.unread("Whether the webhook answers the apiserver", d.Err, "Ask for the right to create podprotectors, by which a dry run asks the webhook.")
	}
	return f.unread("Whether the webhook answers the apiserver", d.Err, "See what refuses PodProtectors.")
}

// ToDouble returns a protector with a targetRef that is old enough for webhooks to know, so that they deny a second one for its
// workload. It returns nil if there is none.
func ToDouble(core *Core, now time.Time) *v1alpha1.PodProtector {
	if len(webhookconfig.Protectors(core.Validating.Value)) == 0 {
		return nil
	}
	for i := range core.Protectors.Value {
		p := &core.Protectors.Value[i]
		if p.Spec.TargetRef != nil && p.DeletionTimestamp == nil && now.Sub(p.CreationTimestamp.Time) > knownAfter {
			return p
		}
	}
	return nil
}
