package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/inventory"
	"github.com/breakwater-k8s/breakwater/controllers/topology"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

type topologyFlags struct {
	componentFlags
	electionFlags
	core  clusters.Connection
	cells []string

	inventory                       inventory.Options
	argoCDSelector, profileSelector string
}

func topologyCommand() *cobra.Command {
	f := &topologyFlags{}
	command := &cobra.Command{
		Use:   "topology",
		Short: "Manage the Cells of a core cluster",
		Long: `The topology controller manages the Cells of a core cluster, and reports their state in conditions: whether their clusters are reachable
(Connected), their aggregators report (AggregationFresh), their API servers call the webhook (Guarded), and whether two Cells can
include the same pods (Overlapping).

If spec.whenStale is Discount, the controller informs protectors about cells whose aggregator does not report. It holds a deleted Cell
until no protector has counts or reservations of the cell, which the aggregator of the cell removes. If a cell is lost for good, remove
its counts and reservations from a protector at once with an annotation:

  kubectl annotate podprotector -n shop web ` + v1alpha1.AnnotationRemoveCell + `=worker-2

With --inventory-argocd or --inventory-cluster-profiles it also creates Cells from an inventory, and keeps their kubeconfigs up to date
(docs/how-to/inventory.md). It never deletes a Cell.

Replicas elect a leader. Run one set of replicas for each core cluster.`,
		Example: `  breakwater topology --kubeconfig core.kubeconfig --leader-elect=false`,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	flags := command.Flags()
	bindCluster(flags, &f.core, "", "the core cluster")
	bindUser(flags, &f.core, "", "the core cluster")
	flags.StringArrayVar(&f.cells, "cell", nil, "`NAME=KUBECONFIG` of the cluster of a Cell without a kubeconfigSecretRef (or NAME=in-cluster); may be repeated")
	flags.StringVar(&f.inventory.ArgoCD.Namespace, "inventory-argocd", "", "`namespace` of Argo CD cluster Secrets to create Cells from; empty: none")
	flags.StringVar(&f.argoCDSelector, "inventory-argocd-selector", defaultInventorySelector, "label `selector` of these Secrets; empty: all")
	flags.StringVar(&f.inventory.ClusterProfiles.Namespace, "inventory-cluster-profiles", "", "`namespace` of ClusterProfiles to create Cells from; empty: none")
	flags.StringVar(&f.profileSelector, "inventory-cluster-profiles-selector", defaultInventorySelector, "label `selector` of these ClusterProfiles; empty: all")
	flags.StringVar(&f.inventory.SecretNamespace, "inventory-secret-namespace", "",
		"`namespace` for the kubeconfigs of these Cells (default: the namespace of the pod, otherwise "+defaultNamespace+")")
	f.electionFlags.bind(flags)
	f.componentFlags.bind(flags)
	return command
}

// defaultInventorySelector makes each cluster opt in: the pods of a Cell count for floors before its cluster calls the webhook.
const defaultInventorySelector = "breakwater.dev/inventory=true"

// resolveInventory parses the selectors, and fills in the namespace.
func (f *topologyFlags) resolveInventory() error {
	for flag, i := range map[string]struct {
		text     string
		selector *labels.Selector
	}{
		"inventory-argocd-selector":           {f.argoCDSelector, &f.inventory.ArgoCD.Selector},
		"inventory-cluster-profiles-selector": {f.profileSelector, &f.inventory.ClusterProfiles.Selector},
	} {
		selector, err := labels.Parse(i.text)
		if err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
		*i.selector = selector
	}
	if f.inventory.SecretNamespace != "" {
		return nil
	}
	namespace, err := ownNamespace(inClusterNamespace)
	f.inventory.SecretNamespace = namespace
	return err
}

func (f *topologyFlags) run(ctx context.Context) error {
	config, err := f.core.Config("topology")
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	if err := f.resolve(ctx, config); err != nil {
		return err
	}
	if err := f.resolveInventory(); err != nil {
		return err
	}
	cells, reloaders, err := namedConfigs("cell", f.cells, clusters.Connection{}, "topology")
	if err != nil {
		return err
	}
	mgr, err := f.manager("topology", config, f.configure(topology.Name))
	if err != nil {
		return err
	}
	if err := addReloaders(mgr, reloaders...); err != nil {
		return err
	}
	if err := topology.Setup(ctx, mgr, cells, metrics.Registry); err != nil {
		return fmt.Errorf("set up the topology controller: %w", err)
	}
	f.inventory.Cells = cells
	if err := inventory.Setup(mgr, f.inventory); err != nil {
		return fmt.Errorf("set up the inventory controller: %w", err)
	}
	return mgr.Start(ctx)
}
