package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/generator"
	"github.com/breakwater-k8s/breakwater/controllers/keeper"
	"github.com/breakwater-k8s/breakwater/controllers/overlap"
	"github.com/breakwater-k8s/breakwater/internal/fleet"
)

type generatorFlags struct {
	componentFlags
	electionFlags
	core     fleet.Connection
	selector string
}

func generatorCommand() *cobra.Command {
	f := &generatorFlags{}
	command := &cobra.Command{
		Use:   "generator",
		Short: "Derive protectors from the workloads of a core cluster",
		Long: `The generator gives each selected Deployment of a core cluster a PodProtector deployment-<name>. Its floor is
replicas - maxUnavailable, rounded as the Deployment controller rounds. It keeps floor, selector and
minReadySeconds as the Deployment has them; everything else in the protector is yours to tune.

A protector goes when its Deployment is deleted, or is not selected any more. A finalizer on the Deployment makes
sure that a deletion is seen; a Deployment that vanishes without one leaves its protector in force, with the
condition TargetResolved=False. Before you uninstall the generator take the label off the Deployments: it then
removes its protectors and finalizers.

The generator also holds every other PodProtector by the finalizer breakwater.dev/hold until its deletion is asked
for, and makes anew any that vanishes without, with what was reserved. While no generator runs, a PodProtector that
is deleted stays until its finalizers are taken off.

Several replicas elect a leader. Run one set for each core cluster.`,
		Example: `  breakwater generator --kubeconfig core.kubeconfig --leader-elect=false
  kubectl label deployment web ` + v1alpha1.LabelProtect + `=true`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringVar(&f.core.Kubeconfig, "kubeconfig", "", "kubeconfig `file` of the core cluster, or in-cluster; empty: as kubectl would choose")
	flags.StringVar(&f.core.Context, "context", "", "`context` of --kubeconfig")
	flags.StringVar(&f.core.As, "as", "", "`user` to impersonate")
	flags.StringSliceVar(&f.core.AsGroups, "as-group", nil, "`group` to impersonate; may be repeated")
	flags.StringVar(&f.selector, "workload-selector", v1alpha1.LabelProtect+"=true",
		"label `selector` of the Deployments that have protectors; those that it does not choose lose theirs")
	f.electionFlags.bind(flags)
	f.componentFlags.bind(flags)
	return command
}

func (f *generatorFlags) run(ctx context.Context) error {
	selector, err := f.workloads()
	if err != nil {
		return err
	}
	config, err := f.core.Config("generator")
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	if err := f.resolve(ctx, config); err != nil {
		return err
	}
	mgr, err := f.manager("generator", config, f.change(generator.Name), func(options *manager.Options) {
		options.Cache = generator.CacheOptions()
	})
	if err != nil {
		return err
	}
	losses := keeper.NewLosses()
	if err := generator.Setup(ctx, mgr, generator.Options{Selector: selector, Registry: metrics.Registry, Losses: losses}); err != nil {
		return fmt.Errorf("set up the generator: %w", err)
	}
	if err := keeper.Setup(ctx, mgr, metrics.Registry, losses); err != nil {
		return fmt.Errorf("set up the keeper: %w", err)
	}
	if err := overlap.Setup(mgr); err != nil {
		return fmt.Errorf("set up the controller of overlaps: %w", err)
	}
	return mgr.Start(ctx)
}

// workloads reads --workload-selector. The empty selector would give every Deployment of the cluster a
// protector; who really wants that can say it with a label that none has, as in !example.com/none.
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
