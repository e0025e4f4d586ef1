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

// cluster is the cluster that a provider configuration leads to. There need not be one while Terraform plans.
type cluster struct {
	config  *rest.Config
	dynamic dynamic.Interface
	// absent says why there is no cluster: its address is not known yet, or nothing leads to one.
	absent error
	// silent is set when the cluster could not be reached, so that a plan of a hundred resources waits for it once.
	silent atomic.Bool
}

// errUnknown is why there is no cluster yet, but there may be one later in the same apply.
var errUnknown = errors.New("its address, or what it takes to get in, is only known when it is applied")

// usable complains when there is no cluster.
func (c *cluster) usable(to string, d *diag.Diagnostics) bool {
	if c != nil && c.absent == nil {
		return true
	}
	why := "the provider was not configured"
	if c != nil {
		why = c.absent.Error()
	}
	d.AddError("No cluster to "+to, fmt.Sprintf("There is no cluster to talk to: %s.", why))
	return false
}

// of are the objects of a kind, in a namespace when it has namespaces.
func (c *cluster) of(k *kind, namespace string) dynamic.ResourceInterface {
	if k.Namespaced {
		return c.dynamic.Resource(k.Resource).Namespace(namespace)
	}
	return c.dynamic.Resource(k.Resource)
}

// connect never fails for want of a cluster: that is only told when one is needed.
func connect(ctx context.Context, req provider.ConfigureRequest, d *diag.Diagnostics, version string) *cluster {
	var m connection.Model
	if d.Append(req.Config.Get(ctx, &m)...); d.HasError() {
		return &cluster{absent: errors.New("the configuration of the provider is wrong")}
	}
	if m.Unknown() {
		return &cluster{absent: errUnknown}
	}
	c, err := clusterOf(&m, version)
	if err != nil {
		d.AddWarning("The configuration of the provider leads to no cluster", "A plan does without one, an apply does not: "+sentence(err.Error()))
		return &cluster{absent: err}
	}
	return c
}

func clusterOf(m *connection.Model, version string) (*cluster, error) {
	config, err := m.Config(os.Getenv)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "terraform-provider-breakwater/" + version
	// A plan of a hundred resources asks at once; the apiserver's own fairness holds it back where need be.
	config.QPS = -1
	transport, err := transportOf(config)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfigAndClient(config, transport)
	return &cluster{config: config, dynamic: client}, err
}
