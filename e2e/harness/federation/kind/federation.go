package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/kind/pkg/cluster"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// maxName is the longest name of a cluster that leaves room for our prefix and kind's suffix in the name of a host.
const maxName = 40

// Federation is a running federation. Its clusters contain no objects of Breakwater, not even CRDs.
type Federation struct {
	federation.Members[*Cluster]

	topology  *federation.Topology
	options   Options
	provider  *cluster.Provider
	temporary bool

	once    sync.Once
	stopErr error
}

// Start starts a federation and returns when it is usable. When ctx ends before that, Start deletes its clusters.
// The clusters run until Stop, or until a user deletes them: they outlive this program. After an error
// no cluster is left.
func Start(ctx context.Context, topology *federation.Topology, options Options) (*Federation, error) {
	options.setDefaults()
	patch, err := readPatch(options.Patch)
	if err != nil {
		return nil, err
	}
	patch.ContainerdConfigPatches = append(patch.ContainerdConfigPatches, mirrorConfiguration)
	// kind would try for minutes to pull a missing image on a machine without a registry.
	if err := Missing(ctx, options); err != nil {
		return nil, err
	}
	f := &Federation{
		topology: topology, options: options, temporary: options.Dir == "",
		provider: cluster.NewProvider(cluster.ProviderWithDocker(), cluster.ProviderWithLogger(progress{options.Log})),
	}
	if err := f.makeFolder(); err != nil {
		return nil, err
	}
	prefix := "bw-" + rand.String(5) + "-"
	for _, spec := range topology.Clusters {
		if len(spec.Name) > maxName {
			return nil, fmt.Errorf("cluster %s: the name is longer than %d characters", spec.Name, maxName)
		}
		f.Members = append(f.Members, &Cluster{
			spec: spec, name: prefix + spec.Name, provider: f.provider, image: options.Image,
			folder: filepath.Join(f.options.Dir, spec.Name), log: options.Log.WithValues("cluster", spec.Name),
		})
	}
	ctx, cancel := context.WithTimeoutCause(ctx, options.Timeout, fmt.Errorf("not usable after %s", options.Timeout))
	defer cancel()
	if err := f.start(ctx, patch); err != nil {
		return nil, errors.Join(fmt.Errorf("start the federation %s: %w", topology.Name, err), f.Stop(context.WithoutCancel(ctx)))
	}
	return f, nil
}

func (f *Federation) makeFolder() (err error) {
	if f.temporary {
		f.options.Dir, err = os.MkdirTemp("", "breakwater-kind-")
	} else {
		err = os.MkdirAll(f.options.Dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("create a directory for the federation: %w", err)
	}
	return nil
}

func (f *Federation) start(ctx context.Context, patch v1alpha4.Cluster) error {
	began := time.Now()
	starts, ctx := errgroup.WithContext(ctx)
	for _, c := range f.Members {
		starts.Go(func() error {
			if err := c.start(ctx, configuration(patch, c.spec, f.options.Nodes)); err != nil {
				return fmt.Errorf("cluster %s: %w", c.spec.Name, err)
			}
			return nil
		})
	}
	if err := starts.Wait(); err != nil {
		return err
	}
	f.options.Log.Info("Federation is usable", "topology", f.topology.Name, "clusters", len(f.Members),
		"after", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// LoadImage loads the images of an archive in Docker or OCI format into all nodes.
func (f *Federation) LoadImage(ctx context.Context, archive string) error {
	loads, ctx := errgroup.WithContext(ctx)
	for _, c := range f.Members {
		loads.Go(func() error { return c.LoadImage(ctx, archive) })
	}
	return loads.Wait()
}

// Topology returns the topology of the federation.
func (f *Federation) Topology() *federation.Topology { return f.topology }

// Dir returns the directory with a subdirectory of kubeconfigs for each cluster.
func (f *Federation) Dir() string { return f.options.Dir }

// Stop deletes all clusters and returns when none is left.
func (f *Federation) Stop(ctx context.Context) error {
	f.once.Do(func() {
		errs := make([]error, len(f.Members))
		var stops sync.WaitGroup
		for i, c := range f.Members {
			stops.Go(func() { errs[i] = c.stop(ctx) })
		}
		stops.Wait()
		if f.temporary {
			errs = append(errs, os.RemoveAll(f.options.Dir))
		}
		f.stopErr = errors.Join(errs...)
	})
	return f.stopErr
}
