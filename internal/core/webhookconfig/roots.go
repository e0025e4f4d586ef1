package webhookconfig

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// rootsPrefix is before what RootsPath says of a cluster.
const rootsPrefix = "/roots/"

// RootsPath is where a webhook is asked about deletions of objects that floors depend on, in a cluster that is a core of
// this name, if it is not empty, and that of these cells.
func RootsPath(core string, cells ...string) string {
	path := ""
	if core != "" {
		path += "cores/" + core + "/"
	}
	if len(cells) > 0 {
		path += "cells/" + strings.Join(cells, "/")
	}
	return rootsPrefix + strings.TrimSuffix(path, "/")
}

// RootsPlace reads RootsPath without its prefix. ok is false for a path that names neither a core nor a cell.
func RootsPlace(path string) (core string, cells []string, ok bool) {
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
	// Core and Cells are what the API server tells it about the cluster; see RootsPlace.
	Core  string
	Cells []string
}

// Roots are these webhooks of configurations.
func Roots(configurations []admissionregistrationv1.ValidatingWebhookConfiguration) (all []RootWebhook) {
	for _, hook := range Validating(configurations, func(path string) bool { return strings.Contains(path, rootsPrefix) }) {
		_, place, _ := strings.Cut(pathOf(&hook.Client), rootsPrefix)
		if core, cells, ok := RootsPlace(place); ok {
			all = append(all, RootWebhook{hook, core, cells})
		}
	}
	return all
}

// Asks reports whether the webhook is asked about the deletion of objects of a resource in a namespace with these labels; nil is for
// objects that have no namespace. It does not evaluate match conditions.
func (w *RootWebhook) Asks(resource schema.GroupResource, namespace map[string]string) bool {
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

// The conditions drop, inside the apiserver, what the webhook would allow without a look.
const (
	// living drops objects that are being deleted: finalizers and the last deletion of a namespace repeat the request.
	living = `oldObject == null || !has(oldObject.metadata.deletionTimestamp)`
	// uncontrolled drops ReplicaSets of Deployments, which rollouts delete all the time.
	uncontrolled = `request.resource.resource != 'replicasets' || oldObject == null || !has(oldObject.metadata.ownerReferences) || ` +
		`!oldObject.metadata.ownerReferences.exists(r, r.kind == 'Deployment' && has(r.controller) && r.controller)`
)

// RootConditions are the match conditions of webhooks about deletions of what floors depend on. Accounts of the namespace
// that Breakwater runs in are not asked about: its components delete PodProtectors that are released.
func RootConditions(namespace string) []admissionregistrationv1.MatchCondition {
	group := "'system:serviceaccounts:" + namespace + "'"
	return []admissionregistrationv1.MatchCondition{
		{Name: "is-not-terminating", Expression: living},
		{Name: "is-not-of-a-deployment", Expression: uncontrolled},
		{Name: "is-not-breakwater", Expression: `!has(request.userInfo.groups) || !(` + group + ` in request.userInfo.groups)`},
	}
}
