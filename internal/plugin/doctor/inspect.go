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
	answered := f.NoteAfter(f.Clusters.NoticeAfter(), "waiting for the core cluster, for at most %s; cells are checked meanwhile",
		min(f.Clusters.Limit(), f.timeout))
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
	names, namespaces := slices.Clone(f.cells), map[string][]string{}
	for i := range r.Cores {
		for _, c := range r.Cores[i].Cells.Value {
			if namespaces[c.Name] = c.Spec.Namespaces; len(f.cells) == 0 && !slices.Contains(names, c.Name) {
				names = append(names, c.Name)
			}
		}
	}
	if len(names) == 0 && here != "" { // no core reports Cells
		names = []string{here}
	}
	for _, name := range names {
		cell := *cells.started[name]
		cell.Namespaces = namespaces[name]
		r.Cells = append(r.Cells, cell)
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
