package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/sharding"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ownership"
)

// ringFlags are the flags of components that can be sharded.
type ringFlags struct {
	ring, shard string
	returns     bool
}

// bind adds the flags. work names what the shards divide.
func (f *ringFlags) bind(flags *pflag.FlagSet, work string) {
	flags.StringVar(&f.ring, "ring", "", "`name` of the ClusterRing whose shards share the "+work+"; empty: none, and one leader does all work")
	flags.StringVar(&f.shard, "shard", "", "`name` of this shard, unique among the processes of the ring (default: the host name)")
	flags.BoolVar(&f.returns, "shard-returns", false,
		"when this shard stops, keep its slots for two lease durations of the ring, for example for a pod of a StatefulSet "+
			"that restarts; otherwise other shards take them over at once")
}

func (f *ringFlags) validate() error {
	if f.ring == "" {
		if f.shard != "" || f.returns {
			return errors.New("--shard and --shard-returns need a ring: set --ring")
		}
		return nil
	}
	if problems := validation.IsDNS1123Label(f.shard); f.shard != "" && len(problems) > 0 {
		return fmt.Errorf("--shard %q is not valid as the name of a Lease and the value of a label: %s", f.shard, problems[0])
	}
	return nil
}

// readRing reads the ring. It returns nil if no ring is configured.
func (f *ringFlags) readRing(ctx context.Context, config *rest.Config) (*v1alpha1.ClusterRing, error) {
	if f.ring == "" {
		return nil, nil //nolint:nilnil // nil means that no ring is configured
	}
	live, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	clusterRing := &v1alpha1.ClusterRing{}
	err = live.Get(ctx, client.ObjectKey{Name: f.ring}, clusterRing)
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("--ring %s: %s has no ClusterRing with that name: create it, or correct the flag", f.ring, config.Host)
	}
	if err != nil {
		return nil, fmt.Errorf("--ring %s: %w", f.ring, err)
	}
	return clusterRing, nil
}

// newShardManager creates a manager that works while the shard holds its Lease, and the shard's slots.
func (f *ringFlags) newShardManager(
	ctx context.Context, component string, config *rest.Config, common *componentFlags, change ...func(*manager.Options),
) (manager.Manager, *ownership.Slots, error) {
	shard, err := sharding.New(ctx, config, sharding.Options{Ring: f.ring, Name: f.shard, Stable: f.returns})
	if err != nil {
		return nil, nil, fmt.Errorf("--ring %s: %w", f.ring, err)
	}
	var configured error
	change = append(change, func(options *manager.Options) {
		members.Select(&options.Cache, shard.Namespace())
		configured = shard.Configure(options)
	})
	mgr, err := common.manager(component, config, change...)
	if err := errors.Join(configured, err); err != nil {
		return nil, nil, err
	}
	if err := mgr.Add(shard); err != nil {
		return nil, nil, err
	}
	shards, err := members.NewShardTracker(ctx, mgr, shard.Held)
	if err != nil {
		return nil, nil, err
	}
	slots := ownership.New(ownership.Options{
		Ring: f.ring, Shard: shard.Name(), Holder: shard.Identity(), IsHeld: shard.Held, Shards: shards.Shards, IsDead: shards.IsGone,
		Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Log: mgr.GetLogger().WithName("slots"),
	})
	shards.OnChange(func(string) { slots.RequestCheck() })
	informer, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.ClusterRing{})
	if err != nil {
		return nil, nil, fmt.Errorf("watch ClusterRings: %w", err)
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { slots.RequestCheck() }, UpdateFunc: func(any, any) { slots.RequestCheck() },
	}); err != nil {
		return nil, nil, fmt.Errorf("watch ClusterRings: %w", err)
	}
	return mgr, slots, mgr.Add(slots)
}
