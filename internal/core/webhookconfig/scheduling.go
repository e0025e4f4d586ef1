package webhookconfig

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// SchedulingWebhooks returns the webhooks that an API server asks about pods of a cell that are to be stored. An empty cell stands for any
// cell.
func SchedulingWebhooks(cell string, configurations []admissionregistrationv1.MutatingWebhookConfiguration) (asking []admissionregistrationv1.MutatingWebhook) {
	for i := range configurations {
		for _, hook := range configurations[i].Webhooks {
			path := webhookPath(&hook.ClientConfig)
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

// workloadOperations returns the operations on workloads whose templates the webhook must be asked about.
func workloadOperations() (must []requiredOperation) {
	for group, resources := range map[string][]string{
		"": {"replicationcontrollers"}, "apps": {"daemonsets", "deployments", "replicasets", "statefulsets"}, "batch": {"cronjobs", "jobs"},
	} {
		for _, resource := range resources {
			must = append(must, requiredOperation{admissionregistrationv1.Create, group, "v1", resource})
			if resource != "jobs" { // the template of a Job is immutable
				must = append(must, requiredOperation{admissionregistrationv1.Update, group, "v1", resource})
			}
		}
	}
	slices.SortFunc(must, func(a, b requiredOperation) int {
		return strings.Compare(a.resource+string(a.operation), b.resource+string(b.operation))
	})
	return must
}

// SchedulingWeaknesses returns the requests that webhooks for pods of a cell that are to be stored miss. namespaces are the cell's
// namespaces, or empty if it has all.
func SchedulingWeaknesses(
	cell string, namespaces []string, configurations []admissionregistrationv1.MutatingWebhookConfiguration,
) (faults []string, found bool) {
	hooks := MutatingWebhooks(configurations, func(path string) bool { return strings.HasSuffix(path, SchedulePath(cell)) })
	faults = missingOperations(hooks, append([]requiredOperation{podOperation(admissionregistrationv1.Create, "pods")}, workloadOperations()...))
	for i := range hooks {
		w := &hooks[i]
		for _, fault := range excludedNamespaces(w.NamespaceSelector, namespaces) {
			faults = append(faults, w.describe()+" "+fault)
		}
		if selects(w.ObjectSelector) {
			faults = append(faults, w.describe()+" has an objectSelector, which excludes pods")
		}
		own := TemplateConditions()
		if slices.ContainsFunc(w.Rules, podOperation(admissionregistrationv1.Create, "pods").isCoveredBy) {
			own = nil
		}
		faults = append(faults, w.foreignConditions(own)...)
	}
	return faults, len(hooks) > 0
}

// webhookPath returns the path of a webhook. For a URL it is the whole address. It is empty if there is none.
func webhookPath(config *admissionregistrationv1.WebhookClientConfig) string {
	switch {
	case config.URL != nil:
		path, _, _ := strings.Cut(*config.URL, "?")
		return path
	case config.Service != nil && config.Service.Path != nil:
		return *config.Service.Path
	}
	return ""
}
