package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
)

// maxPendingDeaths bounds how many deaths wait to be read. No federation has more components.
const maxPendingDeaths = 256

// Federation is a running federation.
type Federation struct {
	federation.Members[*Cluster]

	topology  *federation.Topology
	options   Options
	spawner   *subprocess.Spawner
	lock      *os.File
	temporary bool
	deaths    chan *Death
	abort     context.CancelCauseFunc // aborts a start when a component dies

	stateMu sync.Mutex
	state   State // the content of the state file

	once    sync.Once
	stopErr error
}

// Start starts a federation and returns when it is usable. ctx bounds only the start. The components run until Stop,
// or until this program exits or is killed. After an error only the logs in Options.Dir are left.
func Start(ctx context.Context, topology *federation.Topology, options Options) (*Federation, error) {
	options.setDefaults()
	programs, err := options.programs(topology)
	if err != nil {
		return nil, err
	}
	f := &Federation{topology: topology, options: options, deaths: make(chan *Death, maxPendingDeaths)}
	if err := f.claimFolder(); err != nil {
		return nil, err
	}
	f.spawner = subprocess.NewSpawner()
	for _, spec := range topology.Clusters {
		f.Members = append(f.Members, f.newCluster(spec, programs))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, options.Timeout,
		fmt.Errorf("not usable after %s", options.Timeout))
	defer cancel()
	ctx, f.abort = context.WithCancelCause(ctx)
	if err := f.start(ctx); err != nil {
		if death := (*Death)(nil); errors.As(context.Cause(ctx), &death) {
			err = death // it is the cause of the other error
		}
		return nil, errors.Join(fmt.Errorf("start the federation %s: %w", topology.Name, err), f.Stop(ctx))
	}
	return f, nil
}

func (f *Federation) newCluster(spec federation.ClusterSpec, programs map[federation.Component]string) *Cluster {
	c := &Cluster{
		spec: spec, options: &f.options, layout: layout{folder: filepath.Join(f.options.Dir, "clusters", spec.Name)},
		log: f.options.Log.WithValues("cluster", spec.Name), ports: map[purpose]*port.Reservation{},
	}
	c.identities = &identities{cluster: spec.Name, layout: c.layout, ports: c.ports}
	c.components = &components{
		cluster: spec.Name, layout: c.layout, order: f.options.componentsOf(spec), programs: programs,
		flags: &flags{spec: spec, options: c.options, layout: c.layout, ports: c.ports},
		grace: f.options.Grace, spawner: f.spawner, probes: map[federation.Component]func(context.Context) error{}, onDeath: f.reportDeath,
		onLaunch: func(component federation.Component, p *subprocess.Process) error {
			return f.recordLaunch(c, component, p)
		},
		processes: map[federation.Component]*subprocess.Process{},
	}
	return c
}

func (f *Federation) start(ctx context.Context) error {
	began := time.Now()
	if err := f.record(func(s *State) { *s = f.initialState() }); err != nil {
		return err
	}
	starts, ctx := errgroup.WithContext(ctx)
	for _, cluster := range f.Members {
		starts.Go(func() error { return cluster.start(ctx) })
	}
	if err := starts.Wait(); err != nil {
		return err
	}
	merged := clientcmdapi.NewConfig()
	for _, cluster := range f.Members {
		one := federation.Kubeconfig(cluster.spec.Name, cluster.identities.admin)
		merged.Clusters[cluster.spec.Name] = one.Clusters[cluster.spec.Name]
		merged.AuthInfos[cluster.spec.Name] = one.AuthInfos[cluster.spec.Name]
		merged.Contexts[cluster.spec.Name] = one.Contexts[cluster.spec.Name]
	}
	merged.CurrentContext = f.Members[0].spec.Name
	if err := writeKubeconfig(f.Kubeconfig(), merged); err != nil {
		return err
	}
	if err := f.record(func(s *State) { s.Usable = true }); err != nil {
		return err
	}
	f.options.Log.Info("Federation is usable", "topology", f.topology.Name, "clusters", len(f.Members),
		"after", time.Since(began).Round(time.Millisecond).String())
	return nil
}

func (f *Federation) reportDeath(death *Death) {
	f.abort(death)
	f.options.Log.Error(death, "Component died", "cluster", death.Cluster, "component", death.Component)
	select {
	case f.deaths <- death:
	default: // the caller does not read them, and the log has them
	}
}

// Deaths returns a channel of the components that exited by themselves, not by Stop or an injected fault.
func (f *Federation) Deaths() <-chan *Death { return f.deaths }

// Topology returns the topology of the federation.
func (f *Federation) Topology() *federation.Topology { return f.topology }

// Dir returns the directory with kubeconfigs and logs.
func (f *Federation) Dir() string { return f.options.Dir }

// Kubeconfig returns the path of an administrator's kubeconfig with one context for each cluster, with the cluster's name.
func (f *Federation) Kubeconfig() string { return filepath.Join(f.options.Dir, "kubeconfig") }

// Stop ends all components, those of a cluster in the reverse order of their start, and returns when none is
// left. It kills components that do not exit within the grace period, and all of them when ctx ends.
func (f *Federation) Stop(ctx context.Context) error {
	f.once.Do(func() {
		errs := make([]error, len(f.Members))
		var stops sync.WaitGroup
		for i, cluster := range f.Members {
			stops.Go(func() { errs[i] = cluster.stop(ctx) })
		}
		stops.Wait()
		f.spawner.Close()
		f.stopErr = errors.Join(append(errs, f.cleanFolder())...)
	})
	return f.stopErr
}
