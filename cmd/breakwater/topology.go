package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/topology"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

type topologyFlags struct {
	componentFlags
	electionFlags
	core  clusters.Connection
	cells []string
}

func topologyCommand() *cobra.Command {
	f := &topologyFlags{}
	command := &cobra.Command{
		Use:   "topology",
		Short: "Look after the Cells of a core cluster",
		Long: `The topology controller looks after the Cells of a core cluster and says in their conditions what it finds:

  Connected         the kubeconfig of the Cell's Secret leads to its cluster; if not, why
  AggregationFresh  the aggregator of the cell reports
  Guarded           the cluster asks the webhook about removals of the cell's pods
  Overlapping       another Cell of the cluster can have the same pods

It tells protectors of cells that have gone silent, where spec.whenStale is Discount. It holds a Cell that is deleted until
no protector has anything of it; the aggregator of the cell sees to that. A cell that is dead is cleared out of a protector
at once, with all that is reserved in it, by an annotation:

  kubectl annotate podprotector -n shop web ` + v1alpha1.AnnotationRemoveCell + `=worker-2

Several replicas elect a leader. Run one set for each core cluster.`,
		Example: `  breakwater topology --kubeconfig core.kubeconfig --leader-elect=false`,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	flags := command.Flags()
	bindCluster(flags, &f.core, "", "the core cluster")
	bindUser(flags, &f.core, "", "the core cluster")
	flags.StringArrayVar(&f.cells, "cell", nil, "`NAME=KUBECONFIG` of the cluster of a Cell without a kubeconfigSecretRef (or NAME=in-cluster); may be repeated")
	f.electionFlags.bind(flags)
	f.componentFlags.bind(flags)
	return command
}

func (f *topologyFlags) run(ctx context.Context) error {
	config, err := f.core.Config("topology")
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	if err := f.resolve(ctx, config); err != nil {
		return err
	}
	cells, followers, err := namedConfigs("cell", f.cells, clusters.Connection{}, "topology")
	if err != nil {
		return err
	}
	mgr, err := f.manager("topology", config, f.change(topology.Name))
	if err != nil {
		return err
	}
	if err := follow(mgr, followers...); err != nil {
		return err
	}
	if err := topology.Setup(ctx, mgr, cells, metrics.Registry); err != nil {
		return fmt.Errorf("set up the topology controller: %w", err)
	}
	return mgr.Start(ctx)
}
