package join

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// Each worker has its own ServiceAccount in the core. The core's admission policies use its user name to restrict the entries that it
// may write (rule 15). The audit log and the priority and fairness queues of the core's API server identify its requests by that name.

// identity returns the cell that names the worker's account.
func (o *Options) identity() string { return cmp.Or(o.Identity, o.Cell) }

// cellAccount returns the name of the worker's ServiceAccount in the core and of its bindings.
func (o *Options) cellAccount() string { return o.ServiceAccount + "-" + o.identity() }

// cellRole returns the name of the chart's ClusterRole and Role to which accounts of cells are bound.
func cellRole(serviceAccount string) string { return serviceAccount + "-cell" }

// accountObjects returns the worker's ServiceAccount in the core and its bindings. The Role exists only if the core permits aggregators in
// workers.
func (o *Options) accountObjects() []*unstructured.Unstructured {
	binding := func(kind, namespace, role string) *unstructured.Unstructured {
		return o.newOwnedObject(rbacv1.SchemeGroupVersion.String(), kind, namespace, map[string]any{
			"roleRef":  map[string]any{"apiGroup": rbacv1.GroupName, "kind": role, "name": cellRole(o.ServiceAccount)},
			"subjects": []any{map[string]any{"kind": rbacv1.ServiceAccountKind, "namespace": o.Namespace, "name": o.cellAccount()}},
		})
	}
	return []*unstructured.Unstructured{
		o.newOwnedObject("v1", "ServiceAccount", o.Namespace, map[string]any{}),
		binding("ClusterRoleBinding", "", "ClusterRole"),
		binding("RoleBinding", o.Namespace, "Role"),
	}
}

// grantRenewal permits the account of a link to renew its tokens, if they expire. An API server that does not see the new Role yet rejects the binding.
func (o *Options) grantRenewal(ctx context.Context, l *link) error {
	if o.Lifetime == 0 {
		return nil
	}
	objects, err := o.renewalObjects(l.account)
	if err != nil {
		return err
	}
	if err := l.issuer.apply(ctx, objects[:1]); err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, bindingTimeout, true, func(ctx context.Context) (bool, error) {
		last = l.issuer.apply(ctx, objects[1:])
		return !apierrors.IsNotFound(last), nil
	})
	return cmp.Or(last, err)
}

// renewalObjects returns the Role and the RoleBinding that permit an account of an issuer to renew its own tokens. A stolen token can then be renewed
// as well, until the Secret that it is bound to is deleted.
func (o *Options) renewalObjects(account string) ([]*unstructured.Unstructured, error) {
	meta := metav1.ObjectMeta{Namespace: o.Namespace, Name: account + "-token", Labels: map[string]string{managedBy: Owner}}
	role := &rbacv1.Role{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: meta, Rules: clusters.OwnTokenRules(account),
	}
	binding := &rbacv1.RoleBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}, ObjectMeta: meta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: account}},
	}
	all := make([]*unstructured.Unstructured, 0, 2)
	for _, object := range []client.Object{role, binding} {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("convert %s: %w", meta.Name, err)
		}
		unstructured.RemoveNestedField(fields, "metadata", "creationTimestamp")
		all = append(all, &unstructured.Unstructured{Object: fields})
	}
	return all, nil
}

func (o *Options) newOwnedObject(apiVersion, kind, namespace string, fields map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: fields}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(o.cellAccount())
	object.SetLabels(map[string]string{managedBy: Owner, v1alpha1.LabelJoinedCell: o.identity()})
	return object
}

// requireCellRole returns an error if the chart in the core does not provide accounts of cells.
func (o *Options) requireCellRole(ctx context.Context, core *connectedCluster) error {
	err := core.client.Get(ctx, client.ObjectKey{Name: cellRole(o.ServiceAccount)}, &rbacv1.ClusterRole{})
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s has no ClusterRole %s for the ServiceAccount of the cell: install or upgrade the chart breakwater there with "+
			"role: core (or single) and access.enabled: true, or set another prefix with --service-account", core.title, cellRole(o.ServiceAccount))
	case err != nil:
		return fmt.Errorf("get ClusterRole %s in %s: %w", cellRole(o.ServiceAccount), core.title, err)
	}
	return nil
}

// requireIdentity returns an error if the worker is already joined to the core under the name of another cell. The components of a
// cluster use one kubeconfig for all its cells, and therefore one account.
func (o *Options) requireIdentity(ctx context.Context, l *link) error {
	if o.Identity != "" {
		return nil
	}
	secret := &corev1.Secret{}
	err := l.user.client.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: l.secret}, secret)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if cell := secret.Labels[v1alpha1.LabelJoinedCell]; cell != "" && cell != o.Cell {
		return fmt.Errorf("the worker is already joined to this core as cell %s: if cell %s is another cell of the same cluster, set --identity %s, and set "+
			"identity: %s for it in remoteCells of the chart in the core", cell, o.Cell, cell, cell)
	}
	return nil
}

// removeAccount deletes the worker's account, which invalidates all its tokens. It keeps an account that belongs to another cell of the
// worker.
func (j *Joiner) removeAccount(ctx context.Context, core *connectedCluster) error {
	if j.identity() != j.Cell {
		j.warn("ServiceAccount %s/%s in %s belongs to cell %s, and was not deleted.", j.Namespace, j.cellAccount(), core.title, j.identity())
		return nil
	}
	renewal, err := j.renewalObjects(j.cellAccount())
	if err != nil {
		return err
	}
	for _, object := range append(j.accountObjects(), renewal...) {
		name := object.GetKind() + " " + object.GetName()
		stored := &metav1.PartialObjectMetadata{}
		stored.SetGroupVersionKind(object.GroupVersionKind())
		err := core.client.Get(ctx, client.ObjectKeyFromObject(object), stored)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("get %s in %s: %w", name, core.title, err)
		}
		if stored.Labels[managedBy] != Owner {
			j.warn("%s in %s was not created by join, and was not deleted.", name, core.title)
			continue
		}
		if err := client.IgnoreNotFound(core.client.Delete(ctx, object, client.Preconditions{UID: &stored.UID})); err != nil {
			return fmt.Errorf("delete %s in %s: %w", name, core.title, err)
		}
	}
	return nil
}
