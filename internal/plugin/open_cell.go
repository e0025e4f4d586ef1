package plugin

import (
	"cmp"
	"context"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain/live"
)

// CellAccess is a cell's cluster and the cores that protect its pods.
type CellAccess struct {
	*live.Cluster
	// Cores waits for the core clusters.
	Cores  func() ([]live.Core, error)
	Config *rest.Config
	Source ConnectionSource
}

// OpenCell returns the named cell, or else the cell of the current context. It returns an error if no core cluster was found.
func (p *Plugin) OpenCell(ctx context.Context, cell string) (CellAccess, error) {
	at, err := p.FindCell(ctx, cell)
	if err != nil {
		return CellAccess{}, err
	}
	_, err = at.Cores()
	return at, err
}

// FindCell is like OpenCell, but does not wait for the cores, unless a core has the kubeconfig of the cell.
func (p *Plugin) FindCell(ctx context.Context, cell string) (CellAccess, error) {
	cores := p.Clusters.StartCores(ctx)
	var found CellCluster
	var err error
	if cell == "" {
		found, err = p.Clusters.CurrentCell(ctx)
	} else {
		found, err = p.Clusters.Cell(ctx, cell, cores)
	}
	if err != nil {
		return CellAccess{}, err
	}
	return newCellAccess(found, cores)
}

// FindCellOrHere is like FindCell, but returns the cluster of the current context as an unknown cell if the cell cannot be found. Its cores are unknown
// for the same reason.
func (p *Plugin) FindCellOrHere(ctx context.Context, cell string) (CellAccess, error) {
	at, err := p.FindCell(ctx, cell)
	if err == nil {
		return at, nil
	}
	config, configErr := p.Clusters.CurrentConfig()
	if configErr != nil {
		return CellAccess{}, configErr
	}
	at = CellAccess{Config: config, Source: FromCurrentContext, Cores: func() ([]live.Core, error) { return nil, err }}
	at.Cluster, configErr = live.NewCluster("", config)
	return at, configErr
}

func newCellAccess(found CellCluster, cores CoreFuture) (at CellAccess, err error) {
	at = CellAccess{Config: found.Config, Source: found.Source, Cores: func() (all []live.Core, err error) {
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
