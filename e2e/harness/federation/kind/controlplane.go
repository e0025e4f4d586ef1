package kind

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// controlPlane is the control plane of a cluster, by the name of its node, which is also that of its container.
type controlPlane struct{ cluster, node string }

func controlPlaneComponents() []federation.Component {
	return []federation.Component{
		federation.Kubelet, federation.Etcd, federation.APIServer, federation.ControllerManager, federation.Scheduler,
	}
}

// pids returns the process IDs of a component, separated by spaces.
func (c controlPlane) pids(ctx context.Context, component federation.Component) (string, error) {
	if !slices.Contains(controlPlaneComponents(), component) {
		return "", fmt.Errorf("cluster %s has no component %s; its components are %q", c.cluster, component, controlPlaneComponents())
	}
	// The kernel truncates process names to 15 characters.
	name := string(component)[:min(15, len(component))]
	found, err := docker(ctx, "exec", c.node, "sh", "-c", "pgrep -x "+name+" || true")
	return strings.Join(strings.Fields(found), " "), err
}

// run runs a script on the node, with the component's processes in $pids.
func (c controlPlane) run(component federation.Component, script string) error {
	ctx, cancel := context.WithTimeout(context.Background(), faultTimeout)
	defer cancel()
	pids, err := c.pids(ctx, component)
	if err == nil {
		_, err = docker(ctx, "exec", c.node, "sh", "-c", "pids="+strconv.Quote(pids)+"\n"+script)
	}
	if err != nil {
		return fmt.Errorf("%s of cluster %s: %w", component, c.cluster, err)
	}
	return nil
}
