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

// cells are the cells whose removals are reviewed, and the ways to their clusters: those that flags name, for good, and
// those of the core clusters' Cells with a kubeconfig, as they come and go.
type cells struct {
	named   map[string]kubernetes.Interface
	configs map[string]*rest.Config
	// metadatas read metadata of those that flags name.
	metadatas map[string]metadata.Interface
	rosters   []*clusters.Roster
	// tracer lets their apiservers know of spans.
	tracer *tracing.Tracer

	mu    sync.Mutex
	found map[string]connected
}

// connected is a connection, and what was made of it.
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

// known tells whether a cell is one of them. Whose kubeconfig cannot be used is known all the same: only the pods of
// evictions cannot be read.
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

// isSingle reports whether there is one cell, and none can come.
func (c *cells) isSingle() bool {
	return len(c.named) == 1 && !slices.ContainsFunc(c.rosters, func(r *clusters.Roster) bool { return !r.NamesOnly })
}

// client reaches the cluster of a cell that is known.
func (c *cells) client(name string) (kubernetes.Interface, error) {
	if client, ok := c.named[name]; ok {
		return client, nil
	}
	found, err := c.connected(name)
	return found.client, err
}

// metadata reads the metadata of its objects.
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

// connect makes what is made of a connection.
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

// config is how to reach it: the same one as long as the connection is.
func (c *cells) config(name string) (*rest.Config, error) {
	if config, ok := c.configs[name]; ok {
		return config, nil
	}
	found, err := c.connected(name)
	return found.config, err
}

// connection is that of a Cell with a kubeconfig.
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

// connected is what is made of that.
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

// has tells whether a pod belongs to a cell, as this core has it. Of a Cell that the core does not have, or has not told of
// yet, all pods do: rather a removal is charged to a cell that does not count it, and refused, than not charged at all.
func (c *core) has(cell, namespace string, labels map[string]string) bool {
	if c.roster == nil {
		return true
	}
	member, ok := c.roster.Member(cell)
	return !ok || member.Scope.Has(namespace, labels)
}
