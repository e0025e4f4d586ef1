package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
)

// purpose names a reserved port.
type purpose int

const (
	etcdClient purpose = iota
	etcdHTTP
	etcdPeer
	apiServer
	purposes
)

// Cluster is a cluster whose components are processes of this machine. It implements federation.Faults.
type Cluster struct {
	spec       federation.ClusterSpec
	options    *Options
	layout     layout
	log        logr.Logger
	ports      map[purpose]*port.Reservation
	identities *identities
	components *components
	proxies    federation.Proxies
}

// Name returns the cluster's name in the topology.
func (c *Cluster) Name() string { return c.spec.Name }

// HasRole reports whether the cluster has the role.
func (c *Cluster) HasRole(role federation.Role) bool { return c.spec.HasRole(role) }

// Kubeconfig returns the path of an administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.layout.kubeconfig(adminUser) }

// RESTConfig returns an administrator's configuration, without a client-side rate limit.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.identities.admin) }

// Components lists what this cluster runs, in the order of starting.
func (c *Cluster) Components() []federation.Component {
	return slices.Clone(c.components.order)
}

// start starts the cluster. It returns when the cluster is usable.
func (c *Cluster) start(ctx context.Context) error {
	began := time.Now()
	if err := c.prepare(); err != nil {
		return err
	}
	for _, component := range []federation.Component{federation.Etcd, federation.APIServer} {
		if err := c.components.launch(component); err != nil {
			return err
		}
		if err := c.components.awaitWorking(ctx, component); err != nil {
			return err
		}
	}
	c.log.V(1).Info("API is served", "after", time.Since(began).Round(time.Millisecond).String())
	for _, component := range c.components.order[2:] {
		if err := c.components.launch(component); err != nil {
			return err
		}
	}
	if err := c.populate(ctx); err != nil {
		return err
	}
	if err := c.awaitUsable(ctx); err != nil {
		return err
	}
	c.log.Info("Cluster is usable", "server", c.identities.admin.Host, "after", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// stop closes the proxies and ends the components.
func (c *Cluster) stop(ctx context.Context) error {
	errs := []error{c.proxies.Close(), c.components.stop(ctx)}
	for _, reservation := range c.ports {
		errs = append(errs, reservation.Release())
	}
	return errors.Join(errs...)
}

// prepare writes all files and reserves all ports.
func (c *Cluster) prepare() error {
	for _, folder := range []string{c.layout.pki(""), c.layout.data(""), c.layout.folder + "/logs"} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fmt.Errorf("cluster %s: %w", c.spec.Name, err)
		}
	}
	for i := range purposes {
		reservation, err := port.Reserve()
		if err != nil {
			return fmt.Errorf("cluster %s: %w", c.spec.Name, err)
		}
		c.ports[i] = reservation
	}
	if err := c.identities.write(); err != nil {
		return fmt.Errorf("cluster %s: %w", c.spec.Name, err)
	}
	return c.components.connectProbes(c.identities)
}
