package webhook

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// cells are the cells whose removals the webhook reviews, with clients for their clusters. Cells named by flags are
// permanent. The Cells of the core clusters that have a kubeconfig come and go.
type cells struct {
	named   map[string]kubernetes.Interface
	configs map[string]*rest.Config
	// metadatas are the metadata clients of the cells named by flags.
	metadatas map[string]metadata.Interface
	rosters   []*clusters.Roster
	// tracer propagates trace context to the API servers of the cells.
	tracer *tracing.Tracer

	mu    sync.Mutex
	found map[string]connected
}

// connected is a connection together with the clients created from it.
type connected struct {
	connection *clusters.Rotating
	config     *rest.Config
	client     kubernetes.Interface
	metadata   metadata.Interface
}

func newCells() *cells {
	return &cells{
		named: map[string]kubernetes.Interface{}, configs: map[string]*rest.Config{}, metadatas: map[string]metadata.Interface{},
		found: map[string]connected{},
	}
}

// known reports whether the webhook reviews removals of a cell. A cell whose kubeconfig cannot be used is known as
// well; the webhook cannot read the pods of its evictions, but reviews all other removals.
func (c *cells) known(name string) bool {
	if _, ok := c.named[name]; ok {
		return true
	}
	for _, roster := range c.rosters {
		if member, ok := roster.Member(name); ok && !roster.NamesOnly && member.Cell.Spec.KubeconfigSecretRef != nil {
			return true
		}
	}
	return false
}

// isSingle reports whether there is exactly one cell, and no further cell can appear.
func (c *cells) isSingle() bool {
	return len(c.named) == 1 && !slices.ContainsFunc(c.rosters, func(r *clusters.Roster) bool { return !r.NamesOnly })
}

// client returns the client for the cluster of a known cell.
func (c *cells) client(name string) (kubernetes.Interface, error) {
	if client, ok := c.named[name]; ok {
		return client, nil
	}
	found, err := c.connected(name)
	return found.client, err
}

// metadata returns the metadata client for the cluster of a known cell.
func (c *cells) metadata(name string) (metadata.Interface, error) {
	if client, ok := c.metadatas[name]; ok {
		return client, nil
	}
	found, err := c.connected(name)
	return found.metadata, err
}

// name adds a cell that a flag names.
func (c *cells) name(name string, config *rest.Config) error {
	made, err := c.connect(config)
	if err != nil {
		return fmt.Errorf("clients of cell %s: %w", name, err)
	}
	c.configs[name], c.named[name], c.metadatas[name] = config, made.client, made.metadata
	return nil
}

// connect creates the clients for a configuration.
func (c *cells) connect(config *rest.Config) (made connected, err error) {
	made.config = config
	config = rest.CopyConfig(config)
	c.tracer.Through(config)
	if made.client, err = kubernetes.NewForConfig(config); err != nil {
		return connected{}, err
	}
	if made.metadata, err = metadata.NewForConfig(config); err != nil {
		return connected{}, err
	}
	return made, nil
}

// config returns the client configuration of a cell. The pointer stays the same for as long as the connection does.
func (c *cells) config(name string) (*rest.Config, error) {
	if config, ok := c.configs[name]; ok {
		return config, nil
	}
	found, err := c.connected(name)
	return found.config, err
}

// connection returns the connection of a Cell with a kubeconfig, or the reason why there is none.
func (c *cells) connection(name string) (*clusters.Rotating, error) {
	why := errors.New("its kubeconfig has not been read yet")
	for _, roster := range c.rosters {
		member, ok := roster.Member(name)
		if ok && member.Connection != nil {
			return member.Connection, nil
		}
		if ok && member.Err != nil {
			why = member.Err
		}
	}
	return nil, why
}

// connected returns the clients of a Cell with a kubeconfig. It recreates them when the connection has changed.
func (c *cells) connected(name string) (connected, error) {
	connection, err := c.connection(name)
	if err != nil {
		return connected{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.found[name]; known.connection == connection {
		return known, nil
	}
	made, err := c.connect(connection.Config())
	if err != nil {
		return connected{}, fmt.Errorf("clients of cell %s: %w", name, err)
	}
	made.connection = connection
	c.found[name] = made
	return made, nil
}

// has reports whether a pod belongs to a cell, according to this core. If the core has no such Cell, or the webhook has
// not read it yet, every pod belongs to it. It is safer to charge a removal to a cell that does not count the pod, and
// to refuse it, than not to charge it at all.
func (c *core) has(cell, namespace string, labels map[string]string) bool {
	if c.roster == nil {
		return true
	}
	member, ok := c.roster.Member(cell)
	return !ok || member.Scope.Has(namespace, labels)
}
