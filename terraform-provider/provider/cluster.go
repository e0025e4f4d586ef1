package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/terraform-provider/connection"
	"github.com/breakwater-k8s/breakwater/terraform-provider/refresh"
	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
)

// cluster is the cluster that a provider configuration points to. It need not exist when Terraform plans resources that are not in the state.
type cluster struct {
	// connect returns the connection, each time from the files and the variables as they are then.
	connect func() (connected, error)
	// manager is the field manager of server-side applies.
	manager string
	// unknown is set if the address of the cluster is not known yet, or the configuration is wrong. Then connect is nil.
	unknown error
	// required is the value of require_cluster; nil if plans require the cluster for resources that are in the state.
	required *bool
	// warned is set once a plan has warned that it did without the cluster.
	warned atomic.Bool
	// created has the objects that resources of this apply create, such as "PodProtector shop/web".
	created  sync.Map
	identity identity

	connecting sync.Mutex
	connected
}

// connected is a connection to a cluster. It has no fields before the first operation that needs it: an earlier step of the same apply can write
// the files that the configuration names.
type connected struct {
	config *rest.Config
	// client sends all requests, which fail at once while it is unreachable.
	client  *http.Client
	dynamic dynamic.Interface
	// rest sends requests whose answers the dynamic client does not return.
	rest rest.Interface
	// lists serves the reads of a refresh.
	lists *refresh.Lists
}

// errClusterUnknown is the reason why there is no cluster yet, although one may exist later in the same apply.
var errClusterUnknown = errors.New("its address or its credentials are known only after the apply")

// absence connects, if that was not done yet. It returns why there is no cluster; nil if there is one.
func (c *cluster) absence() error {
	switch {
	case c == nil:
		return errors.New("the provider was not configured")
	case c.unknown != nil:
		return c.unknown
	}
	c.connecting.Lock()
	defer c.connecting.Unlock()
	if c.dynamic != nil {
		return nil
	}
	var err error
	c.connected, err = c.connect()
	return err
}

// isUnknown reports whether the cluster becomes known only during the apply.
func (c *cluster) isUnknown() bool { return c != nil && errors.Is(c.unknown, errClusterUnknown) }

// isUsable reports whether there is a cluster, and adds an error if not.
func (c *cluster) isUsable(to string, d *diag.Diagnostics) bool {
	err := c.absence()
	if err != nil {
		d.AddError("No cluster to "+to, fmt.Sprintf("The provider has no cluster: %v.", err))
	}
	return err == nil
}

// resourceClient returns the client for objects of a kind, in the namespace if the kind is namespaced.
func (c *cluster) resourceClient(k *kind, namespace string) dynamic.ResourceInterface {
	if k.Namespaced {
		return c.dynamic.Resource(k.Resource).Namespace(namespace)
	}
	return c.dynamic.Resource(k.Resource)
}

// isRequired reports whether the plan of a resource fails without the cluster.
func (c *cluster) isRequired(hasState bool) bool {
	if c != nil && c.required != nil {
		return *c.required
	}
	return hasState
}

// warnOnce warns that a plan did without the cluster, once for all resources.
func (c *cluster) warnOnce(d *diag.Diagnostics, summary string, err error) {
	if c != nil && !c.warned.Swap(true) {
		d.AddWarning(summary, sentence(err.Error()))
	}
}

// newCluster fails because there is no cluster only if the configuration requires one. Otherwise an operation that needs the cluster reports the error.
func newCluster(ctx context.Context, req provider.ConfigureRequest, d *diag.Diagnostics, b *Breakwater) *cluster {
	var m connection.Model
	if d.Append(req.Config.Get(ctx, &m)...); d.HasError() {
		return &cluster{unknown: errors.New("the configuration of the provider is wrong")}
	}
	required, err := m.ClusterRequired(os.Getenv)
	if err != nil {
		d.AddAttributeError(path.Root("require_cluster"), "Invalid configuration of the provider", sentence(err.Error()))
	}
	if m.IsUnknown() {
		return &cluster{unknown: errClusterUnknown, required: required}
	}
	c := &cluster{required: required, manager: cmp.Or(m.FieldManager.ValueString(), connection.DefaultFieldManager)}
	c.identity.expected = cmp.Or(m.ClusterUID.ValueString(), os.Getenv("BREAKWATER_CLUSTER_UID"))
	c.connect = func() (connected, error) { return connect(&m, b) }
	_, err = c.connect()
	const summary = "The configuration of the provider does not identify a cluster"
	switch {
	case err == nil:
	case required != nil && *required:
		d.AddError(summary, "The plan requires a cluster (require_cluster): "+sentence(err.Error()))
	default:
		d.AddWarning(summary, "Only a plan of new resources succeeds without a cluster: "+sentence(err.Error()))
	}
	return c
}

// connect returns the connection that a configuration defines. It sends no request.
func connect(m *connection.Model, b *Breakwater) (c connected, err error) {
	if c.config, err = m.Config(os.Getenv); err != nil {
		return c, err
	}
	c.config.UserAgent = "terraform-provider-breakwater/" + b.version
	// A plan of a hundred resources sends its requests at once. The API server throttles them itself (API Priority and Fairness)
	// where necessary.
	c.config.QPS = -1
	if c.client, err = transport.NewClient(c.config, b.patience); err != nil {
		return c, err
	}
	if err = c.newLists(); err != nil {
		return c, err
	}
	c.dynamic, err = dynamic.NewForConfigAndClient(c.config, c.client)
	return c, err
}

// newLists sets lists, and lets them observe all writes.
func (c *connected) newLists() error {
	config := dynamic.ConfigFor(c.config)
	config.GroupVersion, config.APIPath = &schema.GroupVersion{}, "/apis" // all requests have absolute paths
	c.lists = refresh.New()
	c.client.Transport = c.lists.Observe(c.client.Transport)
	var err error
	c.rest, err = rest.RESTClientForConfigAndClient(config, c.client)
	c.lists.Client = c.rest
	return err
}
