package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/attribute"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/breakwater-k8s/breakwater/aggregator"
	"github.com/breakwater-k8s/breakwater/aggregator/modes"
	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

type aggregatorFlags struct {
	componentFlags
	traceFlags
	ringFlags
	core, cell    clusters.Connection
	name          string
	identity      string
	namespace     string
	leaseDuration time.Duration
	heartbeat     time.Duration
	workers       int
	trigger       modes.Trigger
	allCells      bool
	nodeGuard     bool
	guardsIn      string
	shares        bool
	ofShares      bool
}

func aggregatorCommand() *cobra.Command {
	f := &aggregatorFlags{}
	command := &cobra.Command{
		Use:   "aggregator --cell NAME --core-kubeconfig FILE --kubeconfig FILE | aggregator --all-cells --core-kubeconfig FILE",
		Short: "Count the pods of a cell and settle its reservations",
		Long: `The aggregator counts the available pods of one cell for every protector of one core cluster, and settles the reservations
that its counts account for. Run one aggregator for each pair of cell and core cluster, or with --all-cells one for every Cell of a
core cluster that has a kubeconfigSecretRef. Replicas elect a leader with a Lease in the core cluster; the other replicas wait.

With --ring several processes share the work for each cell, as shards of the ClusterRing with that name, which needs no resources
(docs/concepts/sharding.md). Either all processes of a cell have the same --ring, or none has a --ring. With --cell, the ring must
not have shards of other cells.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringVar(&f.name, "cell", "", "`name` of the Cell object in the core cluster (this or --all-cells)")
	flags.BoolVar(&f.allCells, "all-cells", false, "count every Cell of the core cluster that has a kubeconfigSecretRef")
	for _, cluster := range []struct {
		connection          *clusters.Connection
		prefix, description string
	}{{&f.core, "core-", "the core cluster"}, {&f.cell, "", "the cluster that runs the cell's pods"}} {
		bindCluster(flags, cluster.connection, cluster.prefix, cluster.description)
		bindUser(flags, cluster.connection, cluster.prefix, cluster.description)
	}
	flags.StringVar(&f.identity, "identity", "", "`name` of this process in the leader election (default: host name and a random UID)")
	flags.StringVar(&f.namespace, "leader-election-namespace", "breakwater-system", "`namespace` in the core cluster of the Lease aggregator-<cell>")
	flags.DurationVar(&f.leaseDuration, "lease-duration", 15*time.Second, "how long a leader that does not renew its Lease stays the leader")
	flags.DurationVar(&f.heartbeat, "heartbeat", 10*time.Second, "time between two heartbeats in the Cell's status")
	flags.StringVar(&f.trigger.Namespace, "update-trigger-namespace", "",
		"`namespace` in the cell's cluster of a pod that the aggregator changes while a Cell with settlement Clock or Status waits for an event; empty: none")
	flags.DurationVar(&f.trigger.Every, "update-trigger-period", 5*time.Second, "time between two changes of that pod")
	flags.BoolVar(&f.nodeGuard, "node-guard", false, "publish which pods are protected as ConfigMaps in the cell's cluster, for node guards")
	flags.StringVar(&f.guardsIn, "node-guard-namespace", "breakwater-system", "`namespace` of these ConfigMaps, in which node guards look for them")
	flags.BoolVar(&f.shares, "shares", false, "experimental: give the cell shares of protectors with coreOutage LocalShare, as PodProtectors in its cluster, which needs the CustomResourceDefinitions; "+
		"the webhook of the cell must have the cluster as one more --core, and an aggregator must run with --of-shares")
	flags.BoolVar(&f.ofShares, "of-shares", false, "experimental: count for the shares of the cell; both kubeconfigs are those of the cell's cluster")
	flags.IntVar(&f.workers, "workers", 8, "maximum number of protectors that are written concurrently")
	f.ringFlags.bind(flags, "each cell")
	f.traceFlags.bind(flags)
	f.componentFlags.bind(flags)
	return command
}

func (f *aggregatorFlags) validate() error {
	var all []error
	if f.allCells && (f.name != "" || f.cell.Kubeconfig != "" || f.cell.Context != "" || f.cell.As != "") {
		all = append(all, errors.New("--all-cells reads cells and their kubeconfigs from the core cluster: omit --cell, --kubeconfig, --context and --as"))
	}
	if problems := validation.IsDNS1123Label(f.name); !f.allCells && len(problems) > 0 {
		all = append(all, fmt.Errorf("--cell %q is not the name of a Cell: %s", f.name, problems[0]))
	}
	if f.allCells && (f.shares || f.ofShares) || f.shares && f.ofShares {
		all = append(all, errors.New("--shares and --of-shares are for one --cell each: run one aggregator with each of them"))
	}
	if f.leaseDuration < 2*time.Second {
		all = append(all, fmt.Errorf("--lease-duration %s: want at least 2s", f.leaseDuration))
	}
	if f.heartbeat < time.Second {
		all = append(all, fmt.Errorf("--heartbeat %s: want at least 1s", f.heartbeat))
	}
	if f.trigger.Every < time.Second {
		all = append(all, fmt.Errorf("--update-trigger-period %s: want at least 1s", f.trigger.Every))
	}
	if err := f.ringFlags.validate(); err != nil {
		all = append(all, err)
	}
	if f.workers < 1 {
		all = append(all, fmt.Errorf("--workers %d: want at least 1", f.workers))
	}
	return errors.Join(all...)
}

func (f *aggregatorFlags) run(ctx context.Context) error {
	if err := f.validate(); err != nil {
		return err
	}
	f.identity = cmp.Or(f.identity, processIdentity())
	lowerGCPercent()
	core, reloader, err := f.core.ReloadingConfig("aggregator")
	if err != nil {
		return fmt.Errorf("--core-kubeconfig: %w", err)
	}
	tracer, endTraces, err := f.traceCell(ctx)
	if err != nil {
		return err
	}
	defer endTraces()
	tracer.WrapConfig(core)
	ring, err := f.readRing(ctx, core)
	if err != nil {
		return err
	}
	detector, interest := &clusters.RestoreDetector{}, &clusters.CacheFilter{}
	mgr, err := f.manager("aggregator", core, func(o *manager.Options) {
		o.Cache = clusters.CacheOptionsOf(detector)
		if ring != nil {
			members.Select(&o.Cache, ring.Spec.ShardNamespace)
			interest.Select(&o.Cache)
		}
	}, enableExemplars(tracer))
	if err != nil {
		return err
	}
	if err := addReloaders(mgr, reloader); err != nil {
		return err
	}
	options := aggregator.Options{
		Cell: f.name, Identity: f.identity, LeaseNamespace: f.namespace, LeaseDuration: f.leaseDuration, Heartbeat: f.heartbeat,
		Workers: f.workers, Trigger: f.trigger, ReportGaps: true, Metrics: metrics.Registry,
		ProbeEvery: clusters.ProbeEvery, RestoreDetector: detector, Tracer: tracer,
	}
	if f.nodeGuard {
		options.NodeGuardNamespace = f.guardsIn
	}
	if ring != nil {
		options.Interest = interest
		if options.Membership, err = f.joinRing(ctx, mgr); err != nil {
			return err
		}
	}
	if f.allCells {
		err = aggregator.SetupCellsWithManager(mgr, options)
	} else {
		err = f.setUpCell(ctx, mgr, options)
	}
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// traceCell starts tracing. With --cell, the spans carry the name of the cell.
func (f *aggregatorFlags) traceCell(ctx context.Context) (tracer *tracing.Tracer, end func(), err error) {
	log, err := f.logger("aggregator")
	if err != nil {
		return nil, nil, err
	}
	var attributes []attribute.KeyValue
	if !f.allCells {
		attributes = append(attributes, attribute.String(tracing.Cell, f.name))
	}
	return f.trace(ctx, "aggregator", log, attributes...)
}

func (f *aggregatorFlags) joinRing(ctx context.Context, mgr manager.Manager) (*ownership.RingShard, error) {
	name := f.shard
	if name == "" {
		host, err := os.Hostname()
		if problems := validation.IsDNS1123Label(host); err != nil || len(problems) > 0 {
			return nil, fmt.Errorf("the host name %q is not valid as the name of a shard: set --shard", host)
		}
		name = host
	}
	return ownership.NewRingShard(ctx, mgr, ownership.RingShardOptions{Ring: f.ring, Name: name, Returns: f.returns})
}

func (f *aggregatorFlags) setUpCell(ctx context.Context, mgr manager.Manager, options aggregator.Options) error {
	cell, reloader, err := f.cell.ReloadingConfig("aggregator")
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	if err := addReloaders(mgr, reloader); err != nil {
		return err
	}
	options.CellConfig, options.OfShares = cell, f.ofShares
	if f.ofShares { // otherwise alerts would take it for a replica of the aggregator of the core's protectors
		options.Metrics = prometheus.WrapRegistererWith(prometheus.Labels{"of": "shares"}, options.Metrics)
	}
	if f.shares {
		options.Shares, err = cluster.New(cell, func(o *cluster.Options) { o.Scheme = mgr.GetScheme() })
		if err := errors.Join(err, mgr.Add(options.Shares)); err != nil {
			return fmt.Errorf("read shares in the cluster of the cell: %w", err)
		}
	}
	return aggregator.SetupWithManager(ctx, mgr, options)
}

// lowerGCPercent makes the garbage collector run when the heap has grown by a third, instead of Go's default of 100%. The live heap of an
// aggregator is small and fast to scan, and what else it allocates at a start is short-lived. GOGC takes precedence.
func lowerGCPercent() {
	if _, present := os.LookupEnv("GOGC"); !present {
		debug.SetGCPercent(35)
	}
}
