package local

import (
	"context"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

// Kill kills a component and returns when it has exited. It is not an error if it does not run.
func (c *Cluster) Kill(component federation.Component) error {
	return c.components.apply(component, (*subprocess.Process).Kill)
}

// Freeze suspends a component. Its connections stay open and silent.
func (c *Cluster) Freeze(component federation.Component) error {
	return c.components.apply(component, (*subprocess.Process).Freeze)
}

// Thaw resumes a frozen component.
func (c *Cluster) Thaw(component federation.Component) error {
	return c.components.apply(component, (*subprocess.Process).Thaw)
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
