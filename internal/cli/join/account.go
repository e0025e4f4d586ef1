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
func (o *Options) accountObjects() []client.Object {
	meta := metav1.ObjectMeta{Name: o.cellAccount(), Labels: map[string]string{managedBy: Owner, v1alpha1.LabelJoinedCell: o.identity()}}
	namespaced := *meta.DeepCopy()
	namespaced.Namespace = o.Namespace
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: cellRole(o.ServiceAccount)}
	clusterRole := role
	clusterRole.Kind = "ClusterRole"
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: o.cellAccount()}}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: namespaced},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: clusterRole, Subjects: subjects},
		&rbacv1.RoleBinding{ObjectMeta: namespaced, RoleRef: role, Subjects: subjects},
	}
}

// grantRenewal permits the account of a link to renew its tokens, if they expire. An API server that does not see the new Role yet rejects the binding.
func (o *Options) grantRenewal(ctx context.Context, l *link) error {
	if o.Lifetime == 0 {
		return nil
	}
	objects := o.renewalObjects(l.account)
	if err := l.issuer.apply(ctx, objects[:1]); err != nil {
		return err
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, bindingTimeout, true, func(ctx context.Context) (bool, error) {
		last = l.issuer.apply(ctx, objects[1:])
		return !apierrors.IsNotFound(last), nil
	})
	return cmp.Or(last, err)
}

// renewalObjects returns the Role and the RoleBinding that permit an account of an issuer to renew its own tokens. A stolen token can then be renewed
// as well, until the Secret that it is bound to is deleted.
func (o *Options) renewalObjects(account string) []client.Object {
	meta := metav1.ObjectMeta{Namespace: o.Namespace, Name: account + "-token", Labels: map[string]string{managedBy: Owner}}
	return []client.Object{
		&rbacv1.Role{ObjectMeta: meta, Rules: clusters.OwnTokenRules(account)},
		&rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: account}},
		},
	}
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
	for _, object := range append(j.accountObjects(), j.renewalObjects(j.cellAccount())...) {
		name := nameOf(object)
		err := core.client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("get %s in %s: %w", name, core.title, err)
		}
		if object.GetLabels()[managedBy] != Owner {
			j.warn("%s in %s was not created by join, and was not deleted.", name, core.title)
			continue
		}
		uid := object.GetUID()
		if err := client.IgnoreNotFound(core.client.Delete(ctx, object, client.Preconditions{UID: &uid})); err != nil {
			return fmt.Errorf("delete %s in %s: %w", name, core.title, err)
		}
	}
	return nil
}
