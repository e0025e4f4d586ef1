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
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
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

	mu      sync.Mutex // guards what follows
	paused  map[string]bool
	proxies []*proxy.Proxy
}

// Name is the cluster's name in the topology.
func (c *Cluster) Name() string { return c.spec.Name }

// Is tells whether the cluster has the role.
func (c *Cluster) Is(role federation.Role) bool { return c.spec.Is(role) }

// Kubeconfig is the path of an administrator's kubeconfig, for this machine.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.folder, "kubeconfig") }

// InternalKubeconfig is the path of an administrator's kubeconfig, for pods of all clusters of this docker.
func (c *Cluster) InternalKubeconfig() string { return filepath.Join(c.folder, "internal.kubeconfig") }

// InternalServer is the URL of the apiserver for pods of all clusters of this docker, which knows its containers by name.
func (c *Cluster) InternalServer() string { return "https://" + c.controlPlane() + ":6443" }

// controlPlane is the container that runs the control plane.
func (c *Cluster) controlPlane() string { return c.name + "-control-plane" }

// RESTConfig is an administrator's configuration, without a client-side rate limit.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// Nodes are the names of all nodes, which are those of their containers as well.
func (c *Cluster) Nodes() []string {
	var names []string
	for _, node := range c.nodes {
		names = append(names, node.String())
	}
	return names
}

// start brings the cluster up, and returns when it is usable. kind cannot be interrupted: when ctx ends, its nodes are
// taken away, which lets it fail.
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
		c.abandon(created)
		return context.Cause(ctx)
	}
	if err := c.connect(); err != nil {
		return err
	}
	if err := c.awaitUsable(ctx); err != nil {
		return err
	}
	c.log.Info("Cluster is usable", "nodes", c.Nodes(), "after", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// abandon takes nodes away until kind gives up. Stop takes away what is there then.
func (c *Cluster) abandon(created <-chan error) {
	for {
		if err := c.provider.Delete(c.name, c.Kubeconfig()); err != nil {
			c.log.V(1).Info("Cannot take the nodes of a cluster away yet", "error", err.Error())
		}
		select {
		case err := <-created: // whatever it says: it was meant to fail
			c.log.V(1).Info("kind has given up", "error", fmt.Sprint(err))
			return
		case <-time.After(deletePause):
		}
	}
}

// connect reads what kind has made.
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

// LoadImage gives all nodes the images of an archive. kind cannot be interrupted here either.
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

// stop deletes the cluster. Where there is none, that is well.
func (c *Cluster) stop(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, p := range c.proxies {
		errs = append(errs, p.Close())
	}
	for node := range c.paused {
		if _, err := docker(ctx, "unpause", node); err != nil {
			c.log.V(1).Info("Cannot unpause a node before it is deleted", "node", node, "error", err.Error())
		}
	}
	c.rest(ctx)
	return errors.Join(append(errs, c.delete(ctx), os.RemoveAll(c.folder))...)
}

const (
	// deletePause is the time between two attempts to delete the nodes of a cluster, deleteTimeout bounds them all.
	deletePause   = time.Second
	deleteTimeout = 3 * time.Minute
)

// delete takes the nodes away. docker gives up a container that has not died within ten seconds, which hundreds of pods on a
// busy machine do not, so that it is asked again.
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
