package webhookconfig

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Scheduling returns the webhooks that an API server asks about pods of a cell that are to be stored. An empty cell stands for any
// cell.
func Scheduling(cell string, configurations []admissionregistrationv1.MutatingWebhookConfiguration) (asking []admissionregistrationv1.MutatingWebhook) {
	for i := range configurations {
		for _, hook := range configurations[i].Webhooks {
			path := pathOf(&hook.ClientConfig)
			of := cell
			if of == "" {
				before, _ := strings.CutSuffix(path, "/schedule")
				of = before[strings.LastIndex(before, "/")+1:]
			}
			if of != "" && strings.HasSuffix(path, SchedulePath(of)) {
				asking = append(asking, hook)
			}
		}
	}
	return asking
}

// workloads returns the operations on workloads whose templates the webhook must be asked about.
func workloads() (must []asked) {
	for group, resources := range map[string][]string{
		"": {"replicationcontrollers"}, "apps": {"daemonsets", "deployments", "replicasets", "statefulsets"}, "batch": {"cronjobs", "jobs"},
	} {
		for _, resource := range resources {
			must = append(must, asked{admissionregistrationv1.Create, group, "v1", resource})
			if resource != "jobs" { // the template of a Job is immutable
				must = append(must, asked{admissionregistrationv1.Update, group, "v1", resource})
			}
		}
	}
	slices.SortFunc(must, func(a, b asked) int {
		return strings.Compare(a.resource+string(a.operation), b.resource+string(b.operation))
	})
	return must
}

// SchedulingWeaknesses returns the requests that webhooks for pods of a cell that are to be stored miss. namespaces are the cell's
// namespaces, or empty if it has all.
func SchedulingWeaknesses(
	cell string, namespaces []string, configurations []admissionregistrationv1.MutatingWebhookConfiguration,
) (faults []string, found bool) {
	hooks := Mutating(configurations, func(path string) bool { return strings.HasSuffix(path, SchedulePath(cell)) })
	faults = unasked(hooks, append([]asked{ofPods(admissionregistrationv1.Create, "pods")}, workloads()...))
	for i := range hooks {
		w := &hooks[i]
		for _, fault := range leftOut(w.NamespaceSelector, namespaces) {
			faults = append(faults, w.text()+" "+fault)
		}
		if selects(w.ObjectSelector) {
			faults = append(faults, w.text()+" has an objectSelector, which leaves pods out")
		}
		own := TemplateConditions()
		if slices.ContainsFunc(w.Rules, ofPods(admissionregistrationv1.Create, "pods").isIn) {
			own = nil
		}
		faults = append(faults, w.foreign(own)...)
	}
	return faults, len(hooks) > 0
}

// pathOf returns the path of a webhook. For a URL it is the whole address. It is empty if there is none.
func pathOf(config *admissionregistrationv1.WebhookClientConfig) string {
	switch {
	case config.URL != nil:
		path, _, _ := strings.Cut(*config.URL, "?")
		return path
	case config.Service != nil && config.Service.Path != nil:
		return *config.Service.Path
	}
	return ""
}
