package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/brake"
	"github.com/breakwater-k8s/breakwater/controllers/generator"
	"github.com/breakwater-k8s/breakwater/controllers/keeper"
	"github.com/breakwater-k8s/breakwater/controllers/overlap"
	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/sharding/share"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

type generatorFlags struct {
	componentFlags
	traceFlags
	electionFlags
	ringFlags
	decreases cli.DecreaseFlags
	core      clusters.Connection
	selector  string
	kinds     []string
}

func generatorCommand() *cobra.Command {
	f := &generatorFlags{}
	command := &cobra.Command{
		Use:   "generator",
		Short: "Derive protectors from the workloads of a core cluster",
		Long: `The generator gives workloads of a core cluster their PodProtectors: those that a ProtectionPolicy or a
ClusterProtectionPolicy selects, and those that ask for one by the label ` + v1alpha1.LabelProtect + `=true. The protector of a
Deployment web is deployment-web. Its floor is what a rollout keeps available, unless the policy says otherwise. What
neither workload nor policy says is yours to tune on the protector.

A protector goes when its workload is deleted, or opts out (` + v1alpha1.LabelProtect + `=false, or the label =true taken off), or when
its policy is deleted whose targetRemovalPolicy is Release. Finalizers make sure that deletions are seen; what vanishes
without one, workload, policy or the whole kind, leaves its protectors in force, with the condition TargetResolved=False.
Before you uninstall the generator make it let go: release the policies and take the labels off. "breakwater release"
shows what is held, and lets go of it when the generator is gone.

A large decrease, which is a protector that is released or a floor that falls by half or more, takes effect after a quiet
period of --decrease-quiet-period. When more of them are pending than --decrease-count and --decrease-percent allow in a
--decrease-window, all are held: the old floors stay in force, with the condition DecreasePending, until someone confirms them
("kubectl breakwater release --pending", or the annotation ` + v1alpha1.AnnotationConfirmRelease + `=true on the workload, its namespace or the
protector), or until the window allows them. A cascade, by which a workload is deleted because its owner, its kind or its
namespace is, is held until it is confirmed.

Policies may name any kind with a scale subresource, or with whole workloads in it. For such a kind the generator needs
to get, list, watch and patch its objects, and to get their scale.

The generator also holds every other PodProtector by the finalizer breakwater.dev/hold until its deletion is asked
for, and makes anew any that vanishes without, with what was reserved. While no generator runs, a PodProtector that
is deleted stays until its finalizers are taken off.

Several replicas elect a leader. Run one set for each core cluster.

With --ring all replicas work: they are shards of the ClusterRing of that name, which needs no resources, each under a --shard of
its own. A namespace is in one of 256 slots, and each slot with one shard, which has the protectors, workloads and policies of
its namespaces; another takes over from a shard that dies. All remember all protectors all the same, so that one which vanishes
is made anew whichever shards are left. All replicas need the same --ring, or none of them any.`,
		Example: `  breakwater generator --kubeconfig core.kubeconfig --leader-elect=false
  kubectl label deployment web ` + v1alpha1.LabelProtect + `=true`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	flags := command.Flags()
	bindCluster(flags, &f.core, "", "the core cluster")
	bindUser(flags, &f.core, "", "the core cluster")
	flags.StringVar(&f.selector, "workload-selector", v1alpha1.LabelProtect+"=true",
		"label `selector` of the workloads that have protectors also without a policy; those that it does not choose lose them")
	flags.StringSliceVar(&f.kinds, "kinds", kindNames(), "`kinds` of Kubernetes' own workloads that are watched; a protector of any other stays as it is")
	f.electionFlags.bind(flags)
	f.ringFlags.bind(flags, "namespaces")
	f.decreases.Bind(flags)
	f.traceFlags.bind(flags)
	f.componentFlags.bind(flags)
	return command
}

func (f *generatorFlags) run(ctx context.Context) error {
	selector, err := f.workloads()
	if err != nil {
		return err
	}
	kinds, err := f.watched()
	if err != nil {
		return err
	}
	config, err := f.core.Config("generator")
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	if err := f.validate(); err != nil {
		return err
	}
	limits, err := f.decreases.Validate()
	if err != nil {
		return err
	}
	log, err := f.logger("generator")
	if err != nil {
		return err
	}
	tracer, endTraces, err := f.trace(ctx, "generator", log)
	if err != nil {
		return err
	}
	defer endTraces()
	tracer.Through(config)
	mgr, own, err := f.set(ctx, config, tracer)
	if err != nil {
		return err
	}
	namespace, err := f.grantsNamespace(ctx, config)
	if err != nil {
		return err
	}
	held, err := brake.Setup(ctx, mgr, brake.Options{Limits: limits, Namespace: namespace, Registry: metrics.Registry})
	if err != nil {
		return fmt.Errorf("set up the brake: %w", err)
	}
	losses := keeper.NewLosses()
	options := generator.Options{Selector: selector, Kinds: kinds, Registry: metrics.Registry, Losses: losses, Share: own, Brake: held, Tracer: tracer}
	if err := generator.Setup(ctx, mgr, options); err != nil {
		return fmt.Errorf("set up the generator: %w", err)
	}
	if err := keeper.Setup(ctx, mgr, metrics.Registry, losses, own, held); err != nil {
		return fmt.Errorf("set up the keeper: %w", err)
	}
	if err := overlap.Setup(mgr, own); err != nil {
		return fmt.Errorf("set up the controller of overlaps: %w", err)
	}
	return mgr.Start(ctx)
}

// set creates the manager of a replica with leader election, or of a shard and its share.
func (f *generatorFlags) set(ctx context.Context, config *rest.Config, tracer *tracing.Tracer) (manager.Manager, *share.Share, error) {
	cached := func(options *manager.Options) {
		options.Cache = generator.CacheOptions()
		offerExemplars(tracer)(options)
	}
	if f.ring != "" {
		return f.share(ctx, "generator", config, &f.componentFlags, cached)
	}
	if err := f.resolve(ctx, config); err != nil {
		return nil, nil, err
	}
	mgr, err := f.manager("generator", config, f.change(generator.Name), cached)
	return mgr, nil, err
}

// workloads parses --workload-selector. It rejects an empty selector, which would give every Deployment of the cluster a protector. A
// user who wants that can select with a label that no workload has, such as !example.com/none.
func (f *generatorFlags) workloads() (labels.Selector, error) {
	selector, err := labels.Parse(f.selector)
	if err != nil {
		return nil, fmt.Errorf("--workload-selector %q: %w", f.selector, err)
	}
	if selector.Empty() {
		return nil, fmt.Errorf("--workload-selector is empty and would choose every Deployment of the cluster: give a selector such as %s=true", v1alpha1.LabelProtect)
	}
	return selector, nil
}

func kindNames() []string {
	var names []string
	for _, kind := range generator.AllKinds() {
		names = append(names, kind.Kind)
	}
	return names
}

// watched parses --kinds.
func (f *generatorFlags) watched() ([]schema.GroupVersionKind, error) {
	var kinds []schema.GroupVersionKind
	for _, name := range f.kinds {
		at := slices.Index(kindNames(), name)
		if at < 0 {
			return nil, fmt.Errorf("--kinds %q: want some of %s; other kinds are named by policies", name, strings.Join(kindNames(), ", "))
		}
		kinds = append(kinds, generator.AllKinds()[at])
	}
	return kinds, nil
}
