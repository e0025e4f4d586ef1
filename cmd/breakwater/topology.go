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
		Short: "Manage the Cells of a core cluster",
		Long: `The topology controller manages the Cells of a core cluster, and reports their state in conditions:

  Connected         the kubeconfig in the Cell's Secret works for its cluster; if not, the reason
  AggregationFresh  the aggregator of the cell reports
  Guarded           the cluster's API server calls the webhook for removals of the cell's pods
  Overlapping       another Cell of the same cluster can include the same pods

If spec.whenStale is Discount, the controller informs protectors about cells whose aggregator does not report. It holds a deleted Cell
until no protector has counts or reservations of the cell, which the aggregator of the cell removes. If a cell is lost for good, remove
its counts and reservations from a protector at once with an annotation:

  kubectl annotate podprotector -n shop web ` + v1alpha1.AnnotationRemoveCell + `=worker-2

Replicas elect a leader. Run one set of replicas for each core cluster.`,
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
	mgr, err := f.manager("topology", config, f.configure(topology.Name))
	if err != nil {
		return err
	}
	if err := addFollowers(mgr, followers...); err != nil {
		return err
	}
	if err := topology.Setup(ctx, mgr, cells, metrics.Registry); err != nil {
		return fmt.Errorf("set up the topology controller: %w", err)
	}
	return mgr.Start(ctx)
}
