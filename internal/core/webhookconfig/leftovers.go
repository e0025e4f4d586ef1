package webhookconfig

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// helmReleaseAnnotation names the Helm release that owns an object, and deletes it when it is uninstalled.
const helmReleaseAnnotation = "meta.helm.sh/release-name"

// IsUnowned reports whether a configuration calls Breakwater for these cells and for nothing else, and belongs to no Helm release. It is recognized
// by the paths of its webhooks: its name and labels may be anything. No uninstallation deletes it, and it then denies all removals.
func IsUnowned(object metav1.Object, hooks []admissionregistrationv1.WebhookClientConfig, cells []string) bool {
	if _, isOwned := object.GetAnnotations()[helmReleaseAnnotation]; isOwned || len(hooks) == 0 {
		return false
	}
	return !slices.ContainsFunc(hooks, func(hook admissionregistrationv1.WebhookClientConfig) bool {
		return !slices.ContainsFunc(cells, func(cell string) bool {
			return hasPath(&hook, RemovalPath(cell)) || hasPath(&hook, SchedulePath(cell))
		})
	})
}

// hasPath reports whether a webhook has a path, after a caller token or the prefix of a proxy.
func hasPath(config *admissionregistrationv1.WebhookClientConfig, path string) bool {
	if config.URL == nil {
		_, rest := SplitCallerToken(webhookPath(config))
		return rest == path
	}
	return strings.HasSuffix(webhookPath(config), path)
}
