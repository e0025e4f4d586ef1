package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// Cluster is a kind cluster. It implements federation.Faults.
type Cluster struct {
	spec     federation.ClusterSpec
	name     string // in kind
	provider *cluster.Provider
	image    string
	folder   string
	log      logr.Logger

	admin *rest.Config
	nodes []nodes.Node

	proxies federation.Proxies
	mu      sync.Mutex // guards the following field
	paused  map[string]bool
}

// Name returns the cluster's name in the topology.
func (c *Cluster) Name() string { return c.spec.Name }

// HasRole reports whether the cluster has the role.
func (c *Cluster) HasRole(role federation.Role) bool { return c.spec.HasRole(role) }

// Kubeconfig returns the path of an administrator's kubeconfig for this machine.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.folder, "kubeconfig") }

// InternalKubeconfig returns the path of an administrator's kubeconfig for pods of all clusters in this Docker network.
func (c *Cluster) InternalKubeconfig() string { return filepath.Join(c.folder, "internal.kubeconfig") }

// InternalServer returns the API server's URL for pods of all clusters in this Docker network, by container name.
func (c *Cluster) InternalServer() string { return "https://" + c.controlPlane().node + ":6443" }

func (c *Cluster) controlPlane() controlPlane {
	return controlPlane{cluster: c.spec.Name, node: c.name + "-control-plane"}
}

// RESTConfig returns an administrator's configuration, without a client-side rate limit.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// Nodes returns the names of all nodes, which are also the names of their containers.
func (c *Cluster) Nodes() []string {
	var names []string
	for _, node := range c.nodes {
		names = append(names, node.String())
	}
	return names
}

// start starts the cluster and returns when it is usable. kind cannot be interrupted: when ctx ends, start deletes the
// nodes, which makes kind fail.
func (c *Cluster) start(ctx context.Context, wanted *v1alpha4.Cluster) error {
	began := time.Now()
	if err := os.MkdirAll(c.folder, 0o700); err != nil {
		return err
	}
	created := make(chan error, 1)
	go func() {
		created <- c.provider.Create(c.name, cluster.CreateWithV1Alpha4Config(wanted), cluster.CreateWithNodeImage(c.image),
			cluster.CreateWithKubeconfigPath(c.Kubeconfig()))
	}()
	select {
	case err := <-created:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		c.deleteNodesUntil(created)
		return context.Cause(ctx)
	}
	if err := c.connect(); err != nil {
		return err
	}
	if err := awaitUsable(ctx, c.admin, len(c.nodes)); err != nil {
		return err
	}
	c.log.Info("Cluster is usable", "nodes", c.Nodes(), "after", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// deleteNodesUntil deletes nodes until kind fails. Stop deletes the rest.
func (c *Cluster) deleteNodesUntil(created <-chan error) {
	for {
		if err := c.provider.Delete(c.name, c.Kubeconfig()); err != nil {
			c.log.V(1).Info("Failed to delete the nodes of an interrupted cluster; retrying", "error", err.Error())
		}
		select {
		case err := <-created: // the error is expected
			c.log.V(1).Info("kind exited without an error", "error", fmt.Sprint(err))
			return
		case <-time.After(deletePause):
		}
	}
}

// connect reads the cluster that kind created.
func (c *Cluster) connect() error {
	internal, err := c.provider.KubeConfig(c.name, true)
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.InternalKubeconfig(), []byte(internal), 0o600); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	if c.admin, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig()); err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	c.admin.QPS = -1
	c.nodes, err = c.provider.ListInternalNodes(c.name)
	return err
}

// LoadImage loads the images of an archive into all nodes. kind cannot be interrupted here either.
func (c *Cluster) LoadImage(ctx context.Context, archive string) error {
	var loads errgroup.Group
	for _, node := range c.nodes {
		loads.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			file, err := os.Open(archive)
			if err != nil {
				return fmt.Errorf("open the archive of an image: %w", err)
			}
			defer file.Close()
			if err := nodeutils.LoadImageArchive(node, file); err != nil {
				return fmt.Errorf("load %s into node %s: %w", archive, node, err)
			}
			return nil
		})
	}
	return loads.Wait()
}

// mirrorFolder is the folder in nodes with the mirrors of registries, and mirrorConfiguration names it for containerd.
const (
	mirrorFolder        = "/etc/containerd/certs.d"
	mirrorConfiguration = "[plugins.\"io.containerd.grpc.v1.cri\".registry]\n  config_path = \"" + mirrorFolder + "\"\n"
)

// Mirror lets all nodes pull images of a registry from a mirror, by its URL.
func (c *Cluster) Mirror(registry, mirror string) error {
	hosts := fmt.Sprintf("[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", mirror)
	for _, node := range c.nodes {
		if err := node.Command("mkdir", "-p", mirrorFolder+"/"+registry).Run(); err != nil {
			return fmt.Errorf("node %s: create the folder for mirrors: %w", node, err)
		}
		if err := nodeutils.WriteFile(node, mirrorFolder+"/"+registry+"/hosts.toml", hosts); err != nil {
			return fmt.Errorf("node %s: set the mirror of %s: %w", node, registry, err)
		}
	}
	return nil
}

// Gateway returns the address of this machine in the network of the nodes.
func (c *Cluster) Gateway(ctx context.Context) (string, error) {
	return docker(ctx, "inspect", "--format={{range .NetworkSettings.Networks}}{{.Gateway}}{{end}}", c.controlPlane().node)
}

// stop deletes the cluster. It is not an error if it does not exist.
func (c *Cluster) stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	closed := c.proxies.Close()
	for node := range c.paused {
		if _, err := docker(ctx, "unpause", node); err != nil {
			c.log.V(1).Info("Failed to unpause a node before its deletion", "node", node, "error", err.Error())
		}
	}
	quiesce(ctx, c.log, c.Nodes())
	return errors.Join(closed, c.delete(ctx), os.RemoveAll(c.folder))
}

const (
	// deletePause is the interval between attempts to delete the nodes of a cluster, deleteTimeout bounds all of them.
	deletePause   = time.Second
	deleteTimeout = 3 * time.Minute
)

// delete deletes the nodes. docker fails if a container has not exited within ten seconds, which happens with hundreds of
// pods on a busy machine, so delete retries.
func (c *Cluster) delete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTimeout)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, deletePause, true, func(context.Context) (bool, error) {
		last = c.provider.Delete(c.name, c.Kubeconfig())
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("delete cluster %s: %w", c.name, errors.Join(err, last))
	}
	return nil
}
