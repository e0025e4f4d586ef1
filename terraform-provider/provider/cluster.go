package provider

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/terraform-provider/connection"
)

// cluster is the cluster that a provider configuration points to. While Terraform plans, it need not exist.
type cluster struct {
	config  *rest.Config
	dynamic dynamic.Interface
	// absentErr is the reason why there is no cluster: its address is not known yet, or the configuration points to none.
	absentErr error
	// unreachable is set once the cluster was unreachable, so that a plan of a hundred resources waits for it only once.
	unreachable atomic.Bool
}

// errClusterUnknown is the reason why there is no cluster yet, although one may exist later in the same apply.
var errClusterUnknown = errors.New("its address or its credentials are known only after the apply")

// isUsable reports whether there is a cluster, and adds an error if not.
func (c *cluster) isUsable(to string, d *diag.Diagnostics) bool {
	if c != nil && c.absentErr == nil {
		return true
	}
	why := "the provider was not configured"
	if c != nil {
		why = c.absentErr.Error()
	}
	d.AddError("No cluster to "+to, fmt.Sprintf("The provider has no cluster: %s.", why))
	return false
}

// resourceClient returns the client for objects of a kind, in the namespace if the kind is namespaced.
func (c *cluster) resourceClient(k *kind, namespace string) dynamic.ResourceInterface {
	if k.Namespaced {
		return c.dynamic.Resource(k.Resource).Namespace(namespace)
	}
	return c.dynamic.Resource(k.Resource)
}

// connect never fails because there is no cluster. The error is reported when an operation needs one.
func connect(ctx context.Context, req provider.ConfigureRequest, d *diag.Diagnostics, version string) *cluster {
	var m connection.Model
	if d.Append(req.Config.Get(ctx, &m)...); d.HasError() {
		return &cluster{absentErr: errors.New("the configuration of the provider is wrong")}
	}
	if m.IsUnknown() {
		return &cluster{absentErr: errClusterUnknown}
	}
	c, err := clusterOf(&m, version)
	if err != nil {
		d.AddWarning("The configuration of the provider does not identify a cluster", "A plan needs no cluster, but an apply does: "+sentence(err.Error()))
		return &cluster{absentErr: err}
	}
	return c
}

func clusterOf(m *connection.Model, version string) (*cluster, error) {
	config, err := m.Config(os.Getenv)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "terraform-provider-breakwater/" + version
	// A plan of a hundred resources sends its requests at once. The API server throttles them itself (API Priority and Fairness)
	// where necessary.
	config.QPS = -1
	transport, err := transportOf(config)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfigAndClient(config, transport)
	return &cluster{config: config, dynamic: client}, err
}
