package webhook

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/fleet"
)

// cells are the cells whose removals are reviewed, and the ways to their clusters: those that flags name, for good, and
// those of the core clusters' Cells with a kubeconfig, as they come and go.
type cells struct {
	named   map[string]kubernetes.Interface
	configs map[string]*rest.Config
	rosters []*fleet.Roster

	mu      sync.Mutex
	clients map[string]connected
}

// connected is a client of a connection.
type connected struct {
	connection *fleet.Rotating
	client     kubernetes.Interface
}

func newCells() *cells {
	return &cells{
		named: map[string]kubernetes.Interface{}, configs: map[string]*rest.Config{}, clients: map[string]connected{},
	}
}

// known tells whether a cell is one of them. Whose kubeconfig cannot be used is known all the same: only the pods of
// evictions cannot be read.
func (c *cells) known(name string) bool {
	if _, ok := c.named[name]; ok {
		return true
	}
	for _, roster := range c.rosters {
		if member, ok := roster.Member(name); ok && member.Cell.Spec.KubeconfigSecretRef != nil {
			return true
		}
	}
	return false
}

// client reaches the cluster of a cell that is known.
func (c *cells) client(name string) (kubernetes.Interface, error) {
	if client, ok := c.named[name]; ok {
		return client, nil
	}
	connection, err := c.connection(name)
	if err != nil {
		return nil, err
	}
	return c.clientOf(name, connection)
}

// config is how to reach it.
func (c *cells) config(name string) (*rest.Config, error) {
	if config, ok := c.configs[name]; ok {
		return config, nil
	}
	connection, err := c.connection(name)
	if err != nil {
		return nil, err
	}
	return connection.Config(), nil
}

// connection is that of a Cell with a kubeconfig.
func (c *cells) connection(name string) (*fleet.Rotating, error) {
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

func (c *cells) clientOf(name string, connection *fleet.Rotating) (kubernetes.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.clients[name]; known.connection == connection {
		return known.client, nil
	}
	client, err := kubernetes.NewForConfig(connection.Config())
	if err != nil {
		return nil, fmt.Errorf("client of cell %s: %w", name, err)
	}
	c.clients[name] = connected{connection: connection, client: client}
	return client, nil
}

// has tells whether a pod belongs to a cell, as this core has it. Of a Cell that the core does not have, or has not told of
// yet, all pods do: rather a removal is charged to a cell that does not count it, and refused, than not charged at all.
func (c *core) has(cell string, r Request) bool {
	if c.roster == nil {
		return true
	}
	member, ok := c.roster.Member(cell)
	return !ok || member.Scope.Has(r.Namespace, r.Pod.Labels)
}
