package main

import (
	"cmp"
	"context"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain/live"
)

// cellAccess is a cell's cluster and the cores that protect its pods.
type cellAccess struct {
	*live.Cluster
	// cores waits for the core clusters.
	cores  func() ([]live.Core, error)
	config *rest.Config
	source connectionSource
}

// openCell returns the named cell, or else the cell of the current context. It returns an error if no core cluster was found.
func (p *plugin) openCell(ctx context.Context, cell string) (cellAccess, error) {
	at, err := p.findCell(ctx, cell)
	if err != nil {
		return cellAccess{}, err
	}
	_, err = at.cores()
	return at, err
}

// findCell is like openCell, but does not wait for the cores, unless a core has the kubeconfig of the cell.
func (p *plugin) findCell(ctx context.Context, cell string) (cellAccess, error) {
	cores := p.clusters.startCores(ctx)
	var found cellCluster
	var err error
	if cell == "" {
		found, err = p.clusters.CurrentCell(ctx)
	} else {
		found, err = p.clusters.Cell(ctx, cell, cores)
	}
	if err != nil {
		return cellAccess{}, err
	}
	return newCellAccess(found, cores)
}

// findCellOrHere is like findCell, but returns the cluster of the current context as an unknown cell if the cell cannot be found. Its cores are unknown
// for the same reason.
func (p *plugin) findCellOrHere(ctx context.Context, cell string) (cellAccess, error) {
	at, err := p.findCell(ctx, cell)
	if err == nil {
		return at, nil
	}
	config, configErr := p.clusters.CurrentConfig()
	if configErr != nil {
		return cellAccess{}, configErr
	}
	at = cellAccess{config: config, source: fromCurrentContext, cores: func() ([]live.Core, error) { return nil, err }}
	at.Cluster, configErr = live.NewCluster("", config)
	return at, configErr
}

func newCellAccess(found cellCluster, cores coreFuture) (at cellAccess, err error) {
	at = cellAccess{config: found.Config, source: found.Source, cores: func() (all []live.Core, err error) {
		found, err := cores()
		for _, core := range found {
			// This is the chart's default name of the only core (core.name).
			all = append(all, live.Core{Name: cmp.Or(core.Name, "core"), Host: core.Config.Host, Reader: core})
		}
		return all, err
	}}
	at.Cluster, err = live.NewCluster(found.Cell, found.Config)
	return at, err
}
