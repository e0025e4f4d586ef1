package main

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/deletion"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// readGrants reads the grants that the limit has already used.
func (r *deletionReader) readGrants(ctx context.Context, s *componentSettings) error {
	const consequence = "the simulation assumes that the limit is unused"
	if s.namespace == "" {
		list := &corev1.ConfigMapList{}
		err := r.List(ctx, list, client.MatchingFields{"metadata.name": brake.ConfigMapName})
		if err != nil || len(list.Items) == 0 {
			return r.ignoreForbidden(err, consequence)
		}
		r.recordGrants(&list.Items[0])
		return nil
	}
	stored := &corev1.ConfigMap{}
	if err := r.Get(ctx, keyOf(s.namespace, brake.ConfigMapName), stored); err != nil {
		return r.ignoreForbidden(client.IgnoreNotFound(err), consequence)
	}
	r.recordGrants(stored)
	return nil
}

func (r *deletionReader) recordGrants(stored *corev1.ConfigMap) {
	r.world.Grants = stored.Data
	for key := range stored.Data {
		if _, err := brake.ReadGrants(stored.Data, key); err != nil {
			r.addNote("ConfigMap %s/%s: %v. Until it is corrected, the generator releases nothing with this budget", stored.Namespace, stored.Name, err)
		}
	}
}

// readGuard reads whether the API server calls the root guard for deletions.
func (r *deletionReader) readGuard(ctx context.Context, s *componentSettings) error {
	r.world.Guard.Mode = rootguard.Off
	configurations, err := webhookConfigurations(ctx, r.Config)
	if err != nil {
		r.addNote("%v: cannot determine whether the root guard would deny the deletion", err)
		return nil
	}
	r.world.Cells = webhookconfig.CellNames(configurations)
	roots := webhookconfig.RootGuardWebhooks(configurations)
	if len(roots) == 0 {
		return nil
	}
	at := max(0, slices.IndexFunc(roots, func(w webhookconfig.RootWebhook) bool { return w.Core != "" }))
	hook := &roots[at]
	r.world.Guard = deletion.RootGuard{
		Mode: s.rootGuard, Cluster: rootguard.ClusterIdentity{Core: hook.Core, Cells: hook.Cells}, OwnerKinds: s.ownerKinds,
		IsCalledFor: func(o *rootguard.Object) bool {
			var labels map[string]string
			if name := namespaceOf(o); name != "" {
				labels = map[string]string{}
				if namespace := r.world.Namespaces[name]; namespace != nil && namespace.Labels != nil {
					labels = namespace.Labels
				}
			}
			return hook.IsCalledFor(o.Resource, labels)
		},
	}
	if s.rootGuard == "" {
		r.world.Guard.Mode = rootguard.Warn
		r.addNote("the Deployment of the webhook was not found in the core cluster: the simulation assumes --root-guard=Warn; with --root-guard=Deny the webhook " +
			"denies the deletions")
	}
	return nil
}

// namespaceOf returns the namespace of an object, or the name of a Namespace. It is empty for other cluster-scoped objects.
func namespaceOf(o *rootguard.Object) string {
	if o.Class() == "Namespace" {
		return o.Name
	}
	return o.Namespace
}
