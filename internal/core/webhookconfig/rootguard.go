package webhookconfig

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rootGuardPrefix precedes the cluster description in RootGuardPath.
const rootGuardPrefix = "/roots/"

// RootGuardPath returns the webhook path for deletions of objects that floors depend on. It describes the cluster: its name as a core, or
// "" if it is none, and its cells.
func RootGuardPath(core string, cells ...string) string {
	path := ""
	if core != "" {
		path += "cores/" + core + "/"
	}
	if len(cells) > 0 {
		path += "cells/" + strings.Join(cells, "/")
	}
	return rootGuardPrefix + strings.TrimSuffix(path, "/")
}

// ParseRootGuardPath parses the result of RootGuardPath without its prefix. ok is false for a path that names neither a core nor a cell.
func ParseRootGuardPath(path string) (core string, cells []string, ok bool) {
	if rest, is := strings.CutPrefix(path, "cores/"); is {
		core, path, _ = strings.Cut(rest, "/")
	}
	if rest, is := strings.CutPrefix(path, "cells/"); is {
		cells, path = strings.Split(rest, "/"), ""
	}
	return core, cells, path == "" && core+strings.Join(cells, "") != "" && !slices.Contains(cells, "")
}

// RootWebhook is a webhook that an API server asks about deletions of objects that floors depend on.
type RootWebhook struct {
	Webhook
	// Core and Cells are the cluster description in the webhook's path; see ParseRootGuardPath.
	Core  string
	Cells []string
}

// RootGuardWebhooks returns the webhooks of this type in configurations.
func RootGuardWebhooks(configurations []admissionregistrationv1.ValidatingWebhookConfiguration) (all []RootWebhook) {
	for _, hook := range ValidatingWebhooks(configurations, func(path string) bool { return strings.Contains(path, rootGuardPrefix) }) {
		_, place, _ := strings.Cut(webhookPath(&hook.Client), rootGuardPrefix)
		if core, cells, ok := ParseRootGuardPath(place); ok {
			all = append(all, RootWebhook{hook, core, cells})
		}
	}
	return all
}

// IsCalledFor reports whether the webhook is asked about deletions of a resource in a namespace with these labels. A nil map is for
// cluster-scoped objects. It does not evaluate match conditions.
func (w *RootWebhook) IsCalledFor(resource schema.GroupResource, namespace map[string]string) bool {
	asks := slices.ContainsFunc(w.Rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		has := func(in []string, what string) bool { return slices.Contains(in, what) || slices.Contains(in, "*") }
		return has(rule.APIGroups, resource.Group) && (has(rule.Resources, resource.Resource) || slices.Contains(rule.Resources, "*/*")) &&
			(slices.Contains(rule.Operations, admissionregistrationv1.Delete) || slices.Contains(rule.Operations, admissionregistrationv1.OperationAll))
	})
	if !asks || w.NamespaceSelector == nil || namespace == nil {
		return asks
	}
	selector, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
	return err == nil && selector.Matches(labels.Set(namespace))
}

// These conditions filter out, inside the API server, requests that the webhook would always allow.
const (
	// notTerminating filters out objects that are being deleted: finalizers, and the final deletion of a namespace, repeat the request.
	notTerminating = `oldObject == null || !has(oldObject.metadata.deletionTimestamp)`
	// notControlledByDeployment filters out ReplicaSets of Deployments, which rollouts delete all the time.
	notControlledByDeployment = `request.resource.resource != 'replicasets' || oldObject == null || !has(oldObject.metadata.ownerReferences) || ` +
		`!oldObject.metadata.ownerReferences.exists(r, r.kind == 'Deployment' && has(r.controller) && r.controller)`
)

// RootConditions returns the match conditions of webhooks for deletions of objects that floors depend on. They exclude the service
// accounts of Breakwater's own namespace: its components delete PodProtectors that are released.
func RootConditions(namespace string) []admissionregistrationv1.MatchCondition {
	group := "'system:serviceaccounts:" + namespace + "'"
	return []admissionregistrationv1.MatchCondition{
		{Name: "is-not-terminating", Expression: notTerminating},
		{Name: "is-not-of-a-deployment", Expression: notControlledByDeployment},
		{Name: "is-not-breakwater", Expression: `!has(request.userInfo.groups) || !(` + group + ` in request.userInfo.groups)`},
	}
}
