package provider

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
)

// clusterKey is the key in the private state of the UID of the cluster that has the object. Versions of the provider before this key did not record one.
const clusterKey = "cluster"

// identity is the UID of the namespace kube-system, by which a cluster differs from another one at the same address.
type identity struct {
	// expected is the value of cluster_uid; empty for none.
	expected string

	mu  sync.Mutex
	uid string
	// isForbidden means that the provider's user may not read it.
	isForbidden bool
}

// uid returns the UID of the cluster. It is empty if the provider's user may not read it, or the cluster does not answer: an error of the object itself
// then says so. The provider keeps it once it is read.
func (c *cluster) uid(ctx context.Context) string {
	c.identity.mu.Lock()
	defer c.identity.mu.Unlock()
	if c.identity.uid != "" || c.identity.isForbidden {
		return c.identity.uid
	}
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	uid, err := c.readUID(ctx)
	if err != nil {
		c.identity.isForbidden = apierrors.IsForbidden(err)
		tflog.Info(ctx, "the cluster could not be identified", map[string]any{"error": err.Error()})
		return ""
	}
	c.identity.uid = uid
	return uid
}

// readUID reads the UID of the cluster.
func (c *cluster) readUID(ctx context.Context) (string, error) {
	namespaces := c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	namespace, err := namespaces.Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return string(namespace.GetUID()), nil
}

// isClusterOf reports whether the provider's cluster is the one that has the object, according to the state and cluster_uid. It adds an error if not: what
// is read there would look as if the object had been deleted, and what is applied would be created in the wrong cluster.
func (o *object) isClusterOf(ctx context.Context, w *desired, private privateState, d *diag.Diagnostics) bool {
	if o.cluster.absence() != nil {
		return true
	}
	var had string
	d.Append(readPrivate(ctx, private, clusterKey, &had)...)
	expected := o.cluster.identity.expected
	if d.HasError() {
		return false
	}
	if had == "" && expected == "" {
		return true
	}
	now := o.cluster.uid(ctx)
	server, _ := transport.ServerOf(o.cluster.config)
	switch {
	case expected != "" && now == "":
		d.AddError("The cluster could not be identified", fmt.Sprintf("cluster_uid requires the cluster %s, but the UID of %s could not be read: check that "+
			"the cluster answers, and that the provider's user may get the namespace kube-system.", expected, server))
	case expected != "" && now != expected:
		d.AddError("Another cluster", fmt.Sprintf("cluster_uid requires the cluster %s, but %s is the cluster %s. Configure the provider for the right cluster, "+
			"or change cluster_uid.", expected, server, now))
	case expected == "" && now != "" && now != had:
		d.AddError("Another cluster", fmt.Sprintf("By the state, %s is in the cluster %s, but %s is the cluster %s (UIDs of the namespace kube-system). Configure the "+
			"provider for the right cluster. If you replaced the cluster, or move its objects on purpose, set cluster_uid = %q in the provider, or "+
			"BREAKWATER_CLUSTER_UID: Terraform then plans for the new cluster.", o.kind.of(w.String()), had, server, now, now))
	default:
		return true
	}
	return false
}

// recordCluster records the UID of the cluster in the private state, if it is known.
func (c *cluster) recordCluster(ctx context.Context, private writablePrivateState) diag.Diagnostics {
	uid := c.uid(ctx)
	if uid == "" {
		return nil
	}
	return writePrivate(ctx, private, clusterKey, uid)
}
