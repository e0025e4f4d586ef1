package register

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// RootOptions describe the configuration of the root guard in one cluster: a core, the cluster of some cells, or both. A worker that stores
// shares is a core, by the name that the webhook has for it.
type RootOptions struct {
	Options
	// Cells are the cells of the cluster. They replace Cell.
	Cells []string
	// Kinds are additional resources to review, besides Kubernetes' own: other sources of PodProtectors, and owners of
	// sources.
	Kinds []schema.GroupResource
	// OwnNamespace is the namespace of Breakwater. Requests of its service accounts are not reviewed.
	OwnNamespace string
}

// RootConfiguration returns the configuration that makes an API server ask the webhook about deletions of objects that
// floors depend on. The failure policy is always Ignore. With Fail, the guard would block the deletion of namespaces
// and of its own objects while no webhook replica is reachable, which could lock a cluster. The webhook for removals
// still guards the pods.
func RootConfiguration(o RootOptions) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	client, err := o.clientConfig(webhookconfig.RootGuardPath(o.Core, o.Cells...))
	if err != nil {
		return nil, err
	}
	cluster, namespaced, all := admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope, admissionregistrationv1.AllScopes
	rules := []admissionregistrationv1.RuleWithOperations{
		deletion(cluster, "", "v1", "namespaces"),
		deletion(namespaced, "", "v1", "replicationcontrollers"),
		deletion(namespaced, "apps", "v1", "daemonsets", "deployments", "replicasets", "statefulsets"),
		deletion(cluster, "apiextensions.k8s.io", "v1", "customresourcedefinitions"),
	}
	if o.Core != "" {
		group := v1alpha1.GroupVersion
		rules = append(rules, deletion(namespaced, group.Group, group.Version, "podprotectors"), deletion(cluster, group.Group, group.Version, "cells"))
	}
	for _, kind := range o.Kinds {
		rules = append(rules, deletion(all, kind.Group, "*", kind.Resource))
	}
	hook := o.webhook("roots.breakwater.dev", client, admissionregistrationv1.Ignore, rules...)
	hook.NamespaceSelector = o.namespaceSelector()
	hook.MatchConditions = webhookconfig.RootConditions(o.OwnNamespace)
	return o.configuration(hook), nil
}

func deletion(scope admissionregistrationv1.ScopeType, group, version string, resources ...string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources, Scope: &scope,
		},
	}
}
