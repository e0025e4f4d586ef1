package guard

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Scheduling lists the webhooks by which an apiserver asks about pods of a cell that are to be stored; of any cell if none is named.
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

// pathOf is the path that a webhook is asked at, behind the whole address if that is a URL; empty if it has none.
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
