package doctor

import (
	"context"
	"slices"
	"sync"

	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

// read reads the state of all clusters concurrently, until the timeout. Cells that are known without a core do not wait for it.
func (f *doctorFlags) read(ctx context.Context) (*findings.Inspection, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	r := &findings.Inspection{Version: version.String()}
	var err error
	if r.Definitions, err = ownDefinitions(); err != nil {
		return nil, err
	}
	cores := f.Clusters.StartCores(ctx)
	cells := &cellReadings{started: map[string]*findings.Cell{}, read: func(name string) findings.Cell {
		return f.readCell(ctx, findings.Cell{Name: name}, cores)
	}}
	here := ""
	if cells.start(f.cells...); len(f.cells) == 0 {
		cells.running.Go(func() {
			if found, err := f.Clusters.CurrentCell(ctx); err == nil {
				here = found.Cell
				cells.start(here)
			}
		})
	}
	answered := f.NoteAfter(f.Clusters.NoticeAfter(), "waiting for the core cluster, for at most %s; cells are checked meanwhile", min(f.Clusters.Limit(), f.timeout))
	defer answered()
	found, err := cores()
	if err != nil {
		return nil, err
	}
	r.Cores = make([]findings.Core, len(found))
	plugin.ForEachConcurrently(found, func(i int, c plugin.Core) {
		r.Cores[i] = f.readCore(ctx, c)
		for j := 0; len(f.cells) == 0 && j < len(r.Cores[i].Cells.Value); j++ {
			cells.start(r.Cores[i].Cells.Value[j].Name)
		}
	})
	answered()
	cells.running.Wait()
	r.Cells = f.cellsToCheck(r.Cores)
	if len(r.Cells) == 0 && here != "" { // no core reports Cells
		r.Cells = []findings.Cell{{Name: here}}
	}
	for i := range r.Cells {
		namespaces := r.Cells[i].Namespaces
		r.Cells[i] = *cells.started[r.Cells[i].Name]
		r.Cells[i].Namespaces = namespaces
	}
	r.Now = f.Now()
	return r, nil
}

// cellReadings reads the clusters of cells while more cells become known.
type cellReadings struct {
	read    func(name string) findings.Cell
	running sync.WaitGroup
	mutex   sync.Mutex
	started map[string]*findings.Cell
}

// start starts to read each cell, unless it is being read.
func (r *cellReadings) start(names ...string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, name := range names {
		if r.started[name] == nil {
			cell := &findings.Cell{}
			r.started[name] = cell
			r.running.Go(func() { *cell = r.read(name) })
		}
	}
}

// cellsToCheck returns the cells to check: those of the flags, or all Cells of the cores.
func (f *doctorFlags) cellsToCheck(cores []findings.Core) (all []findings.Cell) {
	for _, name := range f.cells {
		all = append(all, findings.Cell{Name: name})
	}
	for i := range cores {
		for j := range cores[i].Cells.Value {
			c := &cores[i].Cells.Value[j]
			at := slices.IndexFunc(all, func(other findings.Cell) bool { return other.Name == c.Name })
			if at < 0 && len(f.cells) == 0 {
				all = append(all, findings.Cell{Name: c.Name, Namespaces: c.Spec.Namespaces})
			} else if at >= 0 {
				all[at].Namespaces = c.Spec.Namespaces
			}
		}
	}
	return all
}
