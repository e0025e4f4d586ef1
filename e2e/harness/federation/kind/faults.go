package kind

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

var _ federation.Faults = (*Cluster)(nil)

// faultTimeout bounds the injection of a fault.
const faultTimeout = time.Minute

// Components lists the components of the control plane. The kubelet runs on every node; faults apply to the one of the control plane.
func (c *Cluster) Components() []federation.Component { return controlPlaneComponents() }

// Kill kills a component and returns when that process has exited. The kubelet, and systemd of the kubelet, start
// it again by themselves some time later. It is not an error if it does not run.
func (c *Cluster) Kill(component federation.Component) error {
	return c.controlPlane().run(component, `for p in $pids; do kill -KILL $p; done; for p in $pids; do while [ -e /proc/$p ]; do sleep 0.02; done; done`)
}

// Freeze suspends a component. Its connections stay open and silent. The kubelet kills an API server that has not
// answered for more than a minute.
func (c *Cluster) Freeze(component federation.Component) error {
	return c.controlPlane().run(component, `[ -n "$pids" ] || { echo it does not run >&2; exit 1; }
for p in $pids; do kill -STOP $p; done; for p in $pids; do until grep -q '^State:.[Tt]' /proc/$p/status; do sleep 0.02; done; done`)
}

// Thaw resumes a frozen component.
func (c *Cluster) Thaw(component federation.Component) error {
	return c.controlPlane().run(component, `for p in $pids; do kill -CONT $p; done
for p in $pids; do while grep -q '^State:.[Tt]' /proc/$p/status; do sleep 0.02; done; done`)
}

// Restart kills a component and returns when its successor works, that is, when the API server is ready.
func (c *Cluster) Restart(ctx context.Context, component federation.Component) error {
	before, err := c.controlPlane().pids(ctx, component)
	if err != nil {
		return err
	}
	if err := c.Kill(component); err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return err
	}
	return federation.Await(ctx, pollInterval, fmt.Sprintf("%s of cluster %s", component, c.spec.Name), func(ctx context.Context) error {
		now, err := c.controlPlane().pids(ctx, component)
		if err == nil && (now == "" || now == before) {
			err = errors.New("it has not been restarted")
		}
		if err != nil {
			return err
		}
		return clients.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// Pause suspends a node with its kubelet, its pods and, on that node, the control plane.
func (c *Cluster) Pause(ctx context.Context, node string) error { return c.setPaused(ctx, node, true) }

// Unpause resumes a paused node.
func (c *Cluster) Unpause(ctx context.Context, node string) error {
	return c.setPaused(ctx, node, false)
}

func (c *Cluster) setPaused(ctx context.Context, node string, paused bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.Nodes(), node) {
		return fmt.Errorf("cluster %s has no node %s; its nodes are %q", c.spec.Name, node, c.Nodes())
	}
	command := "unpause"
	if paused {
		command = "pause"
	}
	if _, err := docker(ctx, command, node); err != nil {
		return err
	}
	if c.paused == nil {
		c.paused = map[string]bool{}
	}
	if c.paused[node] = paused; !paused {
		delete(c.paused, node)
	}
	return nil
}

// Proxy starts a proxy in front of the API server, for one client on this machine. Stop of the federation closes it.
func (c *Cluster) Proxy(ctx context.Context) (*federation.Proxy, error) {
	return c.proxies.Start(ctx, c)
}
