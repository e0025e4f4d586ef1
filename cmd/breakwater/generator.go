package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
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
	"github.com/breakwater-k8s/breakwater/internal/sharding/ownership"
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
}

func generatorCommand() *cobra.Command {
	f := &generatorFlags{}
	command := &cobra.Command{
		Use:   "generator",
		Short: "Generate protectors for the workloads of a core cluster",
		Long: `The generator creates PodProtectors for workloads of a core cluster: for those that a ProtectionPolicy or ClusterProtectionPolicy
selects, and for those with the label ` + v1alpha1.LabelProtect + `=true. The protector of a
Deployment web is deployment-web. Its floor is the number of pods that a rollout keeps available, unless the policy sets another
floor. You can set all fields of the protector that neither the workload nor the policy determines.

The generator deletes a protector when its workload is deleted or opts out (` + v1alpha1.LabelProtect + `=false, or the label =true removed), or when its policy is
deleted and has the targetRemovalPolicy Release. If a workload, a policy or a whole kind is lost without a deletion, its protectors
stay in force, with the condition TargetResolved=False. Before you uninstall the generator, release its protectors
(docs/how-to/upgrade.md); "breakwater release" removes finalizers that are left.

A large decrease is the release of a protector, or a decrease of a floor by half or more. It takes effect after
--decrease-quiet-period. When more are pending than --decrease-count and --decrease-percent allow in a --decrease-window, or in a
cascade, the generator holds them until a user confirms them (docs/concepts/disasters.md).

The generator also adds the finalizer breakwater.dev/hold to all other PodProtectors. It recreates a PodProtector that is lost without a
deletion, including its reservations. While no generator runs, a deleted PodProtector remains until its finalizers are removed.

Replicas elect a leader. Run one set of replicas for each core cluster. With --ring all replicas work, as shards of the ClusterRing
with that name, which needs no resources (docs/concepts/sharding.md). Either all replicas have the same --ring, or none has a --ring.`,
		Example: `  breakwater generator --kubeconfig core.kubeconfig --leader-elect=false
  kubectl label deployment web ` + v1alpha1.LabelProtect + `=true`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	flags := command.Flags()
	bindCluster(flags, &f.core, "", "the core cluster")
	bindUser(flags, &f.core, "", "the core cluster")
	flags.StringVar(&f.selector, "workload-selector", v1alpha1.LabelProtect+"=true",
		"label `selector` of the workloads that get protectors without a policy; workloads that it does not match lose theirs")
	f.electionFlags.bind(flags)
	f.ringFlags.bind(flags, "namespaces")
	f.decreases.Bind(flags)
	f.traceFlags.bind(flags)
	f.componentFlags.bind(flags)
	return command
}

func (f *generatorFlags) run(ctx context.Context) error {
	selector, err := f.workloadSelector()
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
	tracer.WrapConfig(config)
	mgr, slots, err := f.newManager(ctx, config, tracer)
	if err != nil {
		return err
	}
	namespace, err := f.grantsNamespace(ctx, config)
	if err != nil {
		return err
	}
	releaseBrake, err := brake.Setup(ctx, mgr, brake.Options{Limits: limits, Namespace: namespace, Registry: metrics.Registry})
	if err != nil {
		return fmt.Errorf("set up the brake: %w", err)
	}
	losses := keeper.NewLosses()
	options := generator.Options{Selector: selector, Kinds: generator.AllKinds(), Registry: metrics.Registry, Losses: losses, Slots: slots, Brake: releaseBrake, Tracer: tracer}
	if err := generator.Setup(ctx, mgr, options); err != nil {
		return fmt.Errorf("set up the generator: %w", err)
	}
	if err := keeper.Setup(ctx, mgr, metrics.Registry, losses, slots, releaseBrake); err != nil {
		return fmt.Errorf("set up the keeper: %w", err)
	}
	if err := overlap.Setup(mgr, slots); err != nil {
		return fmt.Errorf("set up the controller of overlaps: %w", err)
	}
	return mgr.Start(ctx)
}

// newManager creates the manager of a replica with leader election, or of a shard and its slots.
func (f *generatorFlags) newManager(ctx context.Context, config *rest.Config, tracer *tracing.Tracer) (manager.Manager, *ownership.Slots, error) {
	withCache := func(options *manager.Options) {
		options.Cache = generator.CacheOptions()
		enableExemplars(tracer)(options)
	}
	if f.ring != "" {
		return f.newShardManager(ctx, "generator", config, &f.componentFlags, withCache)
	}
	if err := f.resolve(ctx, config); err != nil {
		return nil, nil, err
	}
	mgr, err := f.manager("generator", config, f.configure(generator.Name), withCache)
	return mgr, nil, err
}

// workloadSelector parses --workload-selector. It rejects an empty selector, which would give every Deployment of the cluster a protector. A
// user who wants that can select with a label that no workload has, such as !example.com/none.
func (f *generatorFlags) workloadSelector() (labels.Selector, error) {
	selector, err := labels.Parse(f.selector)
	if err != nil {
		return nil, fmt.Errorf("--workload-selector %q: %w", f.selector, err)
	}
	if selector.Empty() {
		return nil, fmt.Errorf("--workload-selector is empty and would match every Deployment of the cluster: set a selector such as %s=true", v1alpha1.LabelProtect)
	}
	return selector, nil
}
