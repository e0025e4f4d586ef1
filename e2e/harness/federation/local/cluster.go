package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/pki"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
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
	spec     federation.ClusterSpec
	options  *Options
	layout   layout
	programs map[federation.Component]string
	order    []federation.Component
	log      logr.Logger

	spawner *subprocess.Spawner
	ports   [purposes]*port.Reservation
	ca      *pki.Authority
	admin   *rest.Config
	etcd    *prober
	api     *prober
	// onDeath is called for each component that exits by itself, launched for each that starts.
	onDeath  func(*Death)
	onLaunch func(*Cluster, federation.Component, *process) error

	mu         sync.Mutex // guards the following fields, and serializes operations on components
	processes  map[federation.Component]*process
	fileLimits map[federation.Component]uint64 // file size limit of components whose disk is full
	proxies    []*proxy.Proxy
	stopped    bool
}

// Name returns the cluster's name in the topology.
func (c *Cluster) Name() string { return c.spec.Name }

// HasRole reports whether the cluster has the role.
func (c *Cluster) HasRole(role federation.Role) bool { return c.spec.HasRole(role) }

// Kubeconfig returns the path of an administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.layout.kubeconfig(adminUser) }

// RESTConfig returns an administrator's configuration, without a client-side rate limit.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// Components lists what this cluster runs, in the order of starting.
func (c *Cluster) Components() []federation.Component {
	return append([]federation.Component(nil), c.order...)
}

// start starts the cluster. It returns when the cluster is usable.
func (c *Cluster) start(ctx context.Context) error {
	began := time.Now()
	if err := c.prepare(); err != nil {
		return err
	}
	for _, component := range []federation.Component{federation.Etcd, federation.APIServer} {
		if err := c.launch(component); err != nil {
			return err
		}
		if err := c.awaitWorking(ctx, component); err != nil {
			return err
		}
	}
	c.log.V(1).Info("API is served", "after", time.Since(began).Round(time.Millisecond).String())
	for _, component := range c.order[2:] {
		if err := c.launch(component); err != nil {
			return err
		}
	}
	if err := c.populate(ctx); err != nil {
		return err
	}
	if err := c.awaitUsable(ctx); err != nil {
		return err
	}
	c.log.Info("Cluster is usable", "server", c.admin.Host, "after", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// launch starts a component's process.
func (c *Cluster) launch(component federation.Component) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.launchLocked(component)
}

func (c *Cluster) launchLocked(component federation.Component) error {
	log := c.layout.log(component)
	p, err := startProcess(c.spawner, command{
		program:   c.programs[component],
		arguments: c.arguments(component),
		folder:    c.layout.folder,
		log:       log,
	}, func(p *process) {
		c.onDeath(&Death{
			Cluster: c.spec.Name, Component: component, Status: p.cmd.ProcessState.String(), Log: log, Tail: tail(log),
		})
	})
	if err != nil {
		return fmt.Errorf("cluster %s: %w", c.spec.Name, err)
	}
	c.processes[component] = p
	if room, full := c.fileLimits[component]; full {
		if err := p.limitFiles(room); err != nil {
			return fmt.Errorf("%s of cluster %s: %w", component, c.spec.Name, err)
		}
	}
	return c.onLaunch(c, component, p)
}

// stop ends the components in the reverse order of their start. Those that only use the API server end together.
func (c *Cluster) stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	var errs []error
	for _, p := range c.proxies {
		errs = append(errs, p.Close())
	}
	var clients sync.WaitGroup
	results := make([]error, len(c.order))
	for i, component := range c.order[2:] {
		clients.Go(func() { results[i] = c.stopComponent(ctx, component) })
	}
	clients.Wait()
	errs = append(errs, results...)
	errs = append(errs, c.stopComponent(ctx, federation.APIServer), c.stopComponent(ctx, federation.Etcd))
	for _, reservation := range c.ports {
		if reservation != nil {
			errs = append(errs, reservation.Release())
		}
	}
	return errors.Join(errs...)
}

func (c *Cluster) stopComponent(ctx context.Context, component federation.Component) error {
	p, ok := c.processes[component]
	if !ok {
		return nil
	}
	grace := c.options.Grace
	if component == federation.Etcd {
		// etcd would wait for its clients' streams to end, and has nothing else to clean up: see --unsafe-no-fsync.
		grace = 0
	}
	if err := p.terminate(ctx, grace); err != nil {
		return fmt.Errorf("stop %s of cluster %s: %w", component, c.spec.Name, err)
	}
	return nil
}

// prepare writes all files and reserves all ports.
func (c *Cluster) prepare() error {
	for _, folder := range []string{c.layout.pki(""), c.layout.data(""), c.layout.folder + "/logs"} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return fmt.Errorf("cluster %s: %w", c.spec.Name, err)
		}
	}
	for i := range c.ports {
		reservation, err := port.Reserve()
		if err != nil {
			return fmt.Errorf("cluster %s: %w", c.spec.Name, err)
		}
		c.ports[i] = reservation
	}
	if err := c.writeIdentities(); err != nil {
		return fmt.Errorf("cluster %s: %w", c.spec.Name, err)
	}
	return nil
}
