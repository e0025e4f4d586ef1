package webhookconfig

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// CorePath returns the webhook path for protectors that are to be stored in a core.
func CorePath(core string) string { return "/cores/" + core + "/validate" }

// ProtectorWebhooks returns the webhooks that the API server of a core asks about protectors, under any name of the core.
func ProtectorWebhooks(configurations []admissionregistrationv1.ValidatingWebhookConfiguration) []Webhook {
	return ValidatingWebhooks(configurations, func(path string) bool {
		before, is := strings.CutSuffix(path, "/validate")
		core := before[strings.LastIndex(before, "/")+1:]
		return is && core != "" && strings.HasSuffix(path, CorePath(core))
	})
}

// ProtectorWeaknesses returns the requests that webhooks for protectors miss, or keep from being stored. It returns none if they are
// correct.
func ProtectorWeaknesses(hooks []Webhook) (faults []string) {
	group := v1alpha1.GroupVersion
	faults = missingOperations(hooks, []requiredOperation{
		{admissionregistrationv1.Create, group.Group, group.Version, "podprotectors"}, {admissionregistrationv1.Update, group.Group, group.Version, "podprotectors"},
	})
	for i := range hooks {
		w := &hooks[i]
		if w.FailurePolicy != admissionregistrationv1.Ignore {
			faults = append(faults, w.describe()+" has failurePolicy "+string(w.FailurePolicy)+
				", which blocks writes of protectors while the webhook is unreachable")
		}
		if selects(w.ObjectSelector) || selects(w.NamespaceSelector) {
			faults = append(faults, w.describe()+" has a selector, which excludes protectors")
		}
		faults = append(faults, w.foreignConditions(ProtectorConditions())...)
	}
	return faults
}
