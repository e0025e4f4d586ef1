package join

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// referenceObjects returns the objects in the worker with which its users find the core. The ConfigMap has only the key of this core.
func (o *Options) referenceObjects(l *link) ([]client.Object, error) {
	servers := slices.Compact([]string{l.issuer.adminServer, l.issuer.server})
	value, err := clusters.CoreReference{Servers: servers, Cluster: l.issuer.uid, Context: l.issuer.context}.Data()
	if err != nil {
		return nil, err
	}
	meta := metav1.ObjectMeta{Namespace: o.Namespace, Name: clusters.CoreReferences, Labels: map[string]string{managedBy: Owner}}
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{clusters.CoreReferences}, Verbs: []string{"get"}}
	return []client.Object{
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{o.CoreName: value}},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: clusters.CoreReferences},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
		},
	}, nil
}

// writeReference writes where the core is. Components do not need it, so that a failure is only a warning.
func (j *Joiner) writeReference(ctx context.Context, l *link) {
	objects, err := j.referenceObjects(l)
	if err == nil {
		// Each core has its own field manager, so that a join with another core keeps this key.
		err = l.user.apply(ctx, objects, client.FieldOwner(Owner+"-"+j.CoreName))
	}
	if err != nil {
		j.warn("users of the worker must name the core for kubectl breakwater (--core-context), because ConfigMap %s/%s was not written: %v",
			j.Namespace, clusters.CoreReferences, err)
		return
	}
	j.printLine("  ConfigMap %s/%s in %s names the core for kubectl breakwater.", j.Namespace, clusters.CoreReferences, l.user.title)
}

// removeReference removes the reference to the core, and all objects with the last reference.
func (j *Joiner) removeReference(ctx context.Context, l *link) error {
	key := metav1.ObjectMeta{Namespace: j.Namespace, Name: clusters.CoreReferences}
	references := &corev1.ConfigMap{}
	err := l.user.client.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: key.Name}, references)
	if _, named := references.Data[j.CoreName]; err != nil || !named || references.Labels[managedBy] != Owner {
		return client.IgnoreNotFound(err)
	}
	if len(references.Data) > 1 {
		patch, err := json.Marshal(map[string]any{"data": map[string]any{j.CoreName: nil}})
		if err == nil {
			err = l.user.client.Patch(ctx, references, client.RawPatch(types.MergePatchType, patch))
		}
		return err
	}
	for _, object := range []client.Object{&rbacv1.RoleBinding{ObjectMeta: key}, &rbacv1.Role{ObjectMeta: key}, references} {
		if err := client.IgnoreNotFound(l.user.client.Delete(ctx, object)); err != nil {
			return fmt.Errorf("delete %T %s/%s in %s: %w", object, key.Namespace, key.Name, l.user.title, err)
		}
	}
	return nil
}
