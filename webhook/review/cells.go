package review

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

// Cells are the cells whose removals the webhook reviews, with clients for their clusters. Cells named by flags are
// permanent. The Cells of the core clusters that have a kubeconfig come and go.
type Cells struct {
	static        map[string]kubernetes.Interface
	staticConfigs map[string]*rest.Config
	// staticMetadata are the metadata clients of the cells named by flags.
	staticMetadata map[string]metadata.Interface
	registries     []*clusters.CellRegistry
	// tracer propagates trace context to the API servers of the cells.
	tracer *tracing.Tracer

	mu        sync.Mutex
	connected map[string]cellClients
}

// cellClients is a connection together with the clients created from it.
type cellClients struct {
	connection *clusters.RotatingConnection
	config     *rest.Config
	client     kubernetes.Interface
	metadata   metadata.Interface
}

// NewCells returns no cells yet. tracer propagates trace context to their API servers.
func NewCells(tracer *tracing.Tracer) *Cells {
	return &Cells{
		tracer: tracer,
		static: map[string]kubernetes.Interface{}, staticConfigs: map[string]*rest.Config{}, staticMetadata: map[string]metadata.Interface{},
		connected: map[string]cellClients{},
	}
}

// has reports whether the webhook reviews removals of a cell. A cell whose kubeconfig cannot be used is known as
// well; the webhook cannot read the pods of its evictions, but reviews all other removals.
func (c *Cells) has(name string) bool {
	if _, ok := c.static[name]; ok {
		return true
	}
	for _, registry := range c.registries {
		if member, ok := registry.Cell(name); ok && !registry.NamesOnly && member.Cell.Spec.KubeconfigSecretRef != nil {
			return true
		}
	}
	return false
}

// isSingle reports whether there is exactly one cell, and no further cell can appear.
func (c *Cells) isSingle() bool {
	return len(c.static) == 1 && !slices.ContainsFunc(c.registries, func(r *clusters.CellRegistry) bool { return !r.NamesOnly })
}

// client returns the client for the cluster of a known cell.
func (c *Cells) client(name string) (kubernetes.Interface, error) {
	if client, ok := c.static[name]; ok {
		return client, nil
	}
	found, err := c.clientsOf(name)
	return found.client, err
}

// metadata returns the metadata client for the cluster of a known cell.
func (c *Cells) metadata(name string) (metadata.Interface, error) {
	if client, ok := c.staticMetadata[name]; ok {
		return client, nil
	}
	found, err := c.clientsOf(name)
	return found.metadata, err
}

// AddRegistry adds the Cells of a core cluster.
func (c *Cells) AddRegistry(registry *clusters.CellRegistry) {
	c.registries = append(c.registries, registry)
}

// AddStatic adds a cell that a flag names.
func (c *Cells) AddStatic(name string, config *rest.Config) error {
	clients, err := c.connect(config)
	if err != nil {
		return fmt.Errorf("clients of cell %s: %w", name, err)
	}
	c.staticConfigs[name], c.static[name], c.staticMetadata[name] = config, clients.client, clients.metadata
	return nil
}

// connect creates the clients for a configuration.
func (c *Cells) connect(config *rest.Config) (clients cellClients, err error) {
	clients.config = config
	config = rest.CopyConfig(config)
	c.tracer.WrapConfig(config)
	if clients.client, err = kubernetes.NewForConfig(config); err != nil {
		return cellClients{}, err
	}
	if clients.metadata, err = metadata.NewForConfig(config); err != nil {
		return cellClients{}, err
	}
	return clients, nil
}

// Config implements wake.Cells: it returns the client configuration of a cell. The pointer stays the same for as long as the connection does.
func (c *Cells) Config(name string) (*rest.Config, error) {
	if config, ok := c.staticConfigs[name]; ok {
		return config, nil
	}
	found, err := c.clientsOf(name)
	return found.config, err
}

// connection returns the connection of a Cell with a kubeconfig, or the reason why there is none.
func (c *Cells) connection(name string) (*clusters.RotatingConnection, error) {
	reason := errors.New("its kubeconfig has not been read yet")
	for _, registry := range c.registries {
		member, ok := registry.Cell(name)
		if ok && member.Connection != nil {
			return member.Connection, nil
		}
		if ok && member.Err != nil {
			reason = member.Err
		}
	}
	return nil, reason
}

// clientsOf returns the clients of a Cell with a kubeconfig. It recreates them when the connection has changed.
func (c *Cells) clientsOf(name string) (cellClients, error) {
	connection, err := c.connection(name)
	if err != nil {
		return cellClients{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cached := c.connected[name]; cached.connection == connection {
		return cached, nil
	}
	clients, err := c.connect(connection.Config())
	if err != nil {
		return cellClients{}, fmt.Errorf("clients of cell %s: %w", name, err)
	}
	clients.connection = connection
	c.connected[name] = clients
	return clients, nil
}
