package local

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
)

// errStopped is the error of a fault in a federation that was stopped.
var errStopped = errors.New("the federation was stopped")

// Kill ends a component at once and returns when it is gone. It is no error if it does not run.
func (c *Cluster) Kill(component federation.Component) error {
	return c.affect(component, (*process).kill)
}

// Freeze stops a component where it is. Its connections stay open and say nothing.
func (c *Cluster) Freeze(component federation.Component) error {
	return c.affect(component, (*process).freeze)
}

// Thaw makes a frozen component go on.
func (c *Cluster) Thaw(component federation.Component) error {
	return c.affect(component, (*process).thaw)
}

func (c *Cluster) affect(component federation.Component, fault func(*process) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.processLocked(component)
	if err != nil {
		return err
	}
	if err := fault(p); err != nil {
		return fmt.Errorf("%s of cluster %s: %w", component, c.spec.Name, err)
	}
	return nil
}

func (c *Cluster) processLocked(component federation.Component) (*process, error) {
	if c.stopped {
		return nil, errStopped
	}
	if !slices.Contains(c.order, component) {
		return nil, fmt.Errorf("cluster %s has no %s: it has %q", c.spec.Name, component, c.order)
	}
	return c.processes[component], nil
}

// Restart ends a component if it runs, by SIGTERM, and starts it on the same port with the data it had. It
// returns when etcd and kube-apiserver serve again; of the others, when they are started.
func (c *Cluster) Restart(ctx context.Context, component federation.Component) error {
	p, err := c.relaunch(ctx, component)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.ended:
			cancel(fmt.Errorf("it ended: %s; the last lines of its log:\n%s", p.cmd.ProcessState, tail(c.layout.log(component))))
		case <-ctx.Done():
		}
	}()
	return c.works(ctx, component)
}

func (c *Cluster) relaunch(ctx context.Context, component federation.Component) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.processLocked(component); err != nil {
		return nil, err
	}
	if err := c.end(ctx, component); err != nil {
		return nil, err
	}
	if err := c.launchLocked(component); err != nil {
		return nil, err
	}
	return c.processes[component], nil
}

// Proxy puts a proxy in front of the apiserver, for one client. Stop of the federation closes it.
func (c *Cluster) Proxy(ctx context.Context) (*federation.Proxy, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, errStopped
	}
	p, err := proxy.Start(ctx, c.ports[apiServer].Address())
	if err != nil {
		return nil, fmt.Errorf("put a proxy in front of cluster %s: %w", c.spec.Name, err)
	}
	// The name on the certificate stays the apiserver's: TLS goes through the proxy untouched.
	config := rest.CopyConfig(c.admin)
	config.Host = "https://" + p.Address()
	number := strconv.Itoa(len(c.proxies) + 1)
	file := filepath.Join(c.layout.folder, "proxy-"+number+".kubeconfig")
	if err := writeKubeconfig(file, kubeconfig(c.spec.Name, config)); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	c.proxies = append(c.proxies, p)
	return federation.NewProxy(p, file, config), nil
}

// freeze returns when the process has stopped: the signal alone only asks for it.
func (p *process) freeze() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.until(Frozen)
}

func (p *process) thaw() error {
	if err := p.signal(syscall.SIGCONT); err != nil {
		return err
	}
	return p.until(Running)
}
