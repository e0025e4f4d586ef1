package local

import (
	"context"
	"syscall"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// Kill kills a component and returns when it has exited. It is not an error if it does not run.
func (c *Cluster) Kill(component federation.Component) error {
	return c.components.apply(component, (*process).kill)
}

// Freeze suspends a component. Its connections stay open and silent.
func (c *Cluster) Freeze(component federation.Component) error {
	return c.components.apply(component, (*process).freeze)
}

// Thaw resumes a frozen component.
func (c *Cluster) Thaw(component federation.Component) error {
	return c.components.apply(component, (*process).thaw)
}

// Restart ends a component if it runs, by SIGTERM, and starts it on the same port with the data it had. It
// returns when etcd and kube-apiserver serve again, and for other components when they have started.
func (c *Cluster) Restart(ctx context.Context, component federation.Component) error {
	return c.components.restart(ctx, component)
}

// Proxy starts a proxy in front of the API server, for one client. Stop of the federation closes it.
func (c *Cluster) Proxy(ctx context.Context) (*federation.Proxy, error) {
	return c.proxies.Start(ctx, c)
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
