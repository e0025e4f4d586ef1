package main

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/crds"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/doctor"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

// read reads the state of all clusters concurrently.
func (f *doctorFlags) read(ctx context.Context) (*doctor.Reading, error) {
	var cores []core
	var err error
	bounded(ctx, f.timeout, func(ctx context.Context) { cores, err = f.clusters.Cores(ctx) })
	if err != nil {
		return nil, err
	}
	r := &doctor.Reading{Version: version.String(), Cores: make([]doctor.Core, len(cores))}
	if r.Definitions, err = ownDefinitions(); err != nil {
		return nil, err
	}
	each(cores, func(i int, c core) {
		bounded(ctx, f.timeout, func(ctx context.Context) { r.Cores[i] = f.readCore(ctx, c) })
	})
	r.Cells = f.wanted(r.Cores)
	if len(r.Cells) == 0 { // no core reports Cells
		bounded(ctx, f.timeout, func(ctx context.Context) {
			if here, err := f.clusters.CellHere(ctx); err == nil {
				r.Cells = []doctor.Cell{{Name: here.Cell}}
			}
		})
	}
	each(r.Cells, func(i int, c doctor.Cell) {
		bounded(ctx, f.timeout, func(ctx context.Context) { r.Cells[i] = f.readCell(ctx, c, cores) })
	})
	r.Now = f.now()
	return r, nil
}

// wanted returns the cells to check: those of the flags, or all Cells of the cores.
func (f *doctorFlags) wanted(cores []doctor.Core) (all []doctor.Cell) {
	for _, name := range f.cells {
		all = append(all, doctor.Cell{Name: name})
	}
	for i := range cores {
		for j := range cores[i].Cells.Value {
			c := &cores[i].Cells.Value[j]
			at := slices.IndexFunc(all, func(had doctor.Cell) bool { return had.Name == c.Name })
			if at < 0 && len(f.cells) == 0 {
				all = append(all, doctor.Cell{Name: c.Name, Namespaces: c.Spec.Namespaces})
			} else if at >= 0 {
				all[at].Namespaces = c.Spec.Namespaces
			}
		}
	}
	return all
}

// ownDefinitions returns the CRDs of this version.
func ownDefinitions() (all []apiextensionsv1.CustomResourceDefinition, err error) {
	names, err := fs.Glob(crds.FS, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		raw, err := crds.FS.ReadFile(name)
		if err != nil {
			return nil, err
		}
		definition := apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, &definition); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		all = append(all, definition)
	}
	return all, nil
}

// each runs do concurrently for all items and waits.
func each[T any](all []T, do func(i int, one T)) {
	var doing sync.WaitGroup
	for i, one := range all {
		doing.Go(func() { do(i, one) })
	}
	doing.Wait()
}

// together runs all functions concurrently and waits.
func together(all ...func()) { each(all, func(_ int, do func()) { do() }) }

func bounded(ctx context.Context, timeout time.Duration, do func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	do(ctx)
}

func read[T any](value T, err error) doctor.Read[T] { return doctor.Read[T]{Value: value, Err: err} }

// clockOf measures the clock of an API server with the Date header of a response, which has a resolution of one second. An error
// response has that header as well.
func clockOf(ctx context.Context, config *rest.Config) (doctor.Clock, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return doctor.Clock{}, err
	}
	defer client.CloseIdleConnections()
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return doctor.Clock{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return doctor.Clock{}, err
	}
	asked := time.Now()
	response, err := client.Do(request)
	took := time.Since(asked)
	if err != nil {
		return doctor.Clock{}, err
	}
	defer response.Body.Close()
	date, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return doctor.Clock{}, fmt.Errorf("%s does not tell the time: %w", config.Host, err)
	}
	const half = time.Second / 2
	return doctor.Clock{Ahead: date.Add(half).Sub(asked.Add(took / 2)), Within: half + took/2}, nil
}
