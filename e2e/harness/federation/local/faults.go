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

// errStopped is the error of a fault in a stopped federation.
var errStopped = errors.New("the federation was stopped")

// Kill kills a component and returns when it has exited. It is not an error if it does not run.
func (c *Cluster) Kill(component federation.Component) error {
	return c.applyFault(component, (*process).kill)
}

// Freeze suspends a component. Its connections stay open and silent.
func (c *Cluster) Freeze(component federation.Component) error {
	return c.applyFault(component, (*process).freeze)
}

// Thaw resumes a frozen component.
func (c *Cluster) Thaw(component federation.Component) error {
	return c.applyFault(component, (*process).thaw)
}

func (c *Cluster) applyFault(component federation.Component, fault func(*process) error) error {
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
		return nil, fmt.Errorf("cluster %s has no component %s; its components are %q", c.spec.Name, component, c.order)
	}
	return c.processes[component], nil
}

// Restart ends a component if it runs, by SIGTERM, and starts it on the same port with the data it had. It
// returns when etcd and kube-apiserver serve again, and for other components when they have started.
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
			cancel(fmt.Errorf("the process exited: %s; the last lines of its log:\n%s", p.cmd.ProcessState, tail(c.layout.log(component))))
		case <-ctx.Done():
		}
	}()
	return c.awaitWorking(ctx, component)
}

func (c *Cluster) relaunch(ctx context.Context, component federation.Component) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.processLocked(component); err != nil {
		return nil, err
	}
	if err := c.stopComponent(ctx, component); err != nil {
		return nil, err
	}
	if err := c.launchLocked(component); err != nil {
		return nil, err
	}
	return c.processes[component], nil
}

// Proxy starts a proxy in front of the API server, for one client. Stop of the federation closes it.
func (c *Cluster) Proxy(ctx context.Context) (*federation.Proxy, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, errStopped
	}
	p, err := proxy.Start(ctx, c.ports[apiServer].Address())
	if err != nil {
		return nil, fmt.Errorf("start a proxy for cluster %s: %w", c.spec.Name, err)
	}
	// The certificate is still the API server's: the proxy does not terminate TLS.
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

// freeze returns when the process has stopped, which takes some time after the signal.
func (p *process) freeze() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return p.awaitStatus(Frozen)
}

func (p *process) thaw() error {
	if err := p.signal(syscall.SIGCONT); err != nil {
		return err
	}
	return p.awaitStatus(Running)
}
