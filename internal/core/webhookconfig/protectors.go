package webhookconfig

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// CorePath returns the webhook path for protectors that are to be stored in a core.
func CorePath(core string) string { return "/cores/" + core + "/validate" }

// Protectors returns the webhooks that the API server of a core asks about protectors, under any name of the core.
func Protectors(configurations []admissionregistrationv1.ValidatingWebhookConfiguration) []Webhook {
	return Validating(configurations, func(path string) bool {
		before, is := strings.CutSuffix(path, "/validate")
		core := before[strings.LastIndex(before, "/")+1:]
		return is && core != "" && strings.HasSuffix(path, CorePath(core))
	})
}

// ProtectorWeaknesses returns the requests that webhooks for protectors miss, or keep from being stored. It returns none if they are
// correct.
func ProtectorWeaknesses(hooks []Webhook) (faults []string) {
	group := v1alpha1.GroupVersion
	faults = unasked(hooks, []asked{
		{admissionregistrationv1.Create, group.Group, group.Version, "podprotectors"}, {admissionregistrationv1.Update, group.Group, group.Version, "podprotectors"},
	})
	for i := range hooks {
		w := &hooks[i]
		if w.FailurePolicy != admissionregistrationv1.Ignore {
			faults = append(faults, w.text()+" has failurePolicy "+string(w.FailurePolicy)+
				", which keeps protectors from being stored while the webhook does not answer")
		}
		if selects(w.ObjectSelector) || selects(w.NamespaceSelector) {
			faults = append(faults, w.text()+" has a selector, which leaves protectors out")
		}
		faults = append(faults, w.foreign(ProtectorConditions())...)
	}
	return faults
}
