package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/attribute"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
	"github.com/breakwater-k8s/breakwater/webhook"
	guarding "github.com/breakwater-k8s/breakwater/webhook/rootguard"
	"github.com/breakwater-k8s/breakwater/webhook/scheduling"
)

// allCores matches every core.
const allCores = "*"

type webhookFlags struct {
	componentFlags
	traceFlags
	cores, cells []string
	as           string
	asGroups     []string
	server       webhook.Server
	peers        []string
	advertise    string
	nudge        bool
	cellsOf      []string
	scheduling   bool
	rootGuard    string
	ownerKinds   []string
}

func webhookCommand() *cobra.Command {
	f := &webhookFlags{}
	command := &cobra.Command{
		Use:   "webhook --core NAME=KUBECONFIG ... --tls-cert FILE --tls-key FILE",
		Short: "Refuse removals of pods that would break a protector's floor",
		Long: `The webhook answers the admission reviews of the apiservers of all cells, at /cells/<cell>/validate. It
reserves each removal that it allows in the status of the protectors that cover the pod, in every core cluster.

It follows the Cells of the core clusters: those with a kubeconfigSecretRef are reviewed as they come and go, and their
kubeconfigs may be rotated. Name others by --cell, which also wins over what a Secret says.

Replicas need no leader; run as many as you like. Tell each by --peer where the others are: when several are asked about
one protector, they then hand over to one of them instead of contending for it. They know each other by their serving
certificate, which must be the same. Print the configuration that makes an apiserver ask it with
breakwater webhook-config.

With --scheduling it adds what PodSchedulingPolicies and ClusterPodSchedulingPolicies of the core clusters ask for to pods and
workloads of the cells, at /cells/<cell>/schedule, and to pods what PodProtectors whose spread has enforcement Schedule ask for:
print that configuration with breakwater webhook-config --scheduling. Without it such a spread is audited and no more.

With --root-guard it also answers, at /roots/..., when a namespace, a workload, an owner of a workload, a CustomResourceDefinition, a
PodProtector or a Cell is deleted that live floors depend on: Warn allows the deletion with a warning, Deny refuses it until the object
or its namespace has the annotation breakwater.dev/confirm-release=true, or the workload is scaled to 0. Print that configuration with
breakwater webhook-config --root-guard.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringArrayVar(&f.cores, "core", nil, "`NAME=KUBECONFIG` of a core cluster (or NAME=in-cluster); may be repeated")
	flags.StringArrayVar(&f.cells, "cell", nil, "`NAME=KUBECONFIG` of a cell's cluster (or NAME=in-cluster), to read pods that are evicted, in place of the kubeconfig of its Cell; may be repeated")
	flags.StringSliceVar(&f.cellsOf, "cells-of", []string{allCores}, "`cores` whose Cells with a kubeconfigSecretRef are reviewed, besides those of --cell; Secrets of other cores are not read; none: --cells-of=")
	flags.StringVar(&f.as, "as", "", "`user` to impersonate in all clusters")
	flags.StringSliceVar(&f.asGroups, "as-group", nil, "`group` to impersonate in all clusters; may be repeated")
	flags.StringVar(&f.server.Listen, "listen", ":9443", "`address` to serve reviews on")
	flags.StringVar(&f.server.CertFile, "tls-cert", "", "PEM `file` of the serving certificate; reloaded when it changes (required)")
	flags.StringVar(&f.server.KeyFile, "tls-key", "", "PEM `file` of its key (required)")
	flags.StringVar(&f.server.ClientCAFile, "client-ca", "", "PEM `file` of the CA that must have signed the certificates of clients; empty: any client may ask")
	flags.StringSliceVar(&f.server.ClientNames, "client-name", nil, "common `name` or DNS name of the certificate of a client that may ask, of those that --client-ca signed; may be repeated; none: all of them")
	flags.StringVar(&f.server.CallerKeys, "caller-keys", "", "`folder` with the keys of caller tokens (current, previous), by which API servers without a client certificate are authenticated; read again when they change. "+
		"A file named required with the content true refuses all other callers; until then they are counted. Not used with --client-ca, which authenticates every caller")
	flags.DurationVar(&f.server.Drain, "drain", 0, "how long to go on accepting reviews after SIGTERM, while the endpoint is taken out of service")
	flags.StringArrayVar(&f.peers, "peer", nil, "`HOST:PORT` of other replicas, of which HOST may be a name of many addresses (a headless Service); may be repeated")
	flags.StringVar(&f.advertise, "advertise", "", "`IP:PORT` by which other replicas reach this one; required with --peer")
	flags.BoolVar(&f.server.Audit, "audit", false, "admit every removal that would be refused, and every pod that a scheduling policy rejects, with a warning to who asked: for a trial, in which nothing is protected")
	flags.BoolVar(&f.nudge, "nudge", true, "when budget returns, wake the controllers whose removals were refused (an annotation on their objects), and take up evictions that were given up: from tainted nodes, and of pods whose owner is gone")
	flags.BoolVar(&f.scheduling, "scheduling", false, "add what PodSchedulingPolicies and ClusterPodSchedulingPolicies ask for to pods and workloads as well, and the spreads of PodProtectors to pods")
	flags.StringVar(&f.rootGuard, "root-guard", string(rootguard.Warn), "what to answer to the deletion of an object that live floors depend on: `Off|Warn|Deny`")
	flags.StringSliceVar(&f.ownerKinds, "root-guard-owner-kinds", nil, "`resources` whose objects own source workloads in the core clusters, as rollouts.argoproj.io: their deletion is answered for the floors of those workloads")
	f.traceFlags.bind(flags)
	f.componentFlags.bind(flags)
	return command
}

func (f *webhookFlags) validate() error {
	var all []error
	if _, err := rootguard.ParseMode(f.rootGuard); err != nil {
		all = append(all, fmt.Errorf("--root-guard: %w", err))
	}
	if len(f.cores) == 0 {
		all = append(all, errors.New("--core is required at least once: protectors are read from core clusters"))
	}
	if f.server.CertFile == "" || f.server.KeyFile == "" {
		all = append(all, errors.New("--tls-cert and --tls-key are required: apiservers speak only TLS to webhooks"))
	}
	if len(f.server.ClientNames) > 0 && f.server.ClientCAFile == "" {
		all = append(all, errors.New("--client-name needs --client-ca, the CA that signs the certificates of these clients"))
	}
	if f.server.Drain < 0 || f.server.Drain > time.Minute {
		all = append(all, fmt.Errorf("--drain %s: want from 0s to 1m", f.server.Drain))
	}
	for _, peer := range f.peers {
		if _, _, err := net.SplitHostPort(peer); err != nil {
			all = append(all, fmt.Errorf("--peer %q: %w: want HOST:PORT", peer, err))
		}
	}
	f.advertise = plainAddress(f.advertise)
	if _, err := netip.ParseAddrPort(f.advertise); err != nil && (len(f.peers) > 0 || f.advertise != "") {
		all = append(all, fmt.Errorf("--advertise %q: want the IP:PORT by which other replicas reach this one, such as $(POD_IP):9443", f.advertise))
	}
	return errors.Join(all...)
}

// plainAddress removes the brackets around an IPv4 address, so that [$(POD_IP)]:9443 works for both IP families.
func plainAddress(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip, bad := netip.ParseAddr(host); err != nil || bad != nil || !ip.Is4() {
		return address
	}
	return net.JoinHostPort(host, port)
}

func (f *webhookFlags) run(ctx context.Context) error {
	if err := f.validate(); err != nil {
		return err
	}
	as := clusters.Connection{As: f.as, AsGroups: f.asGroups}
	cores, followers, err := namedConfigs("core", f.cores, as, "webhook")
	if err != nil {
		return err
	}
	for _, name := range f.cellsOf {
		if name != allCores && cores[name] == nil {
			return fmt.Errorf("--cells-of %s: no --core has that name", name)
		}
	}
	cells, more, err := namedConfigs("cell", f.cells, as, "webhook")
	if err != nil {
		return err
	}
	// The manager's own cluster is the first core by name. The manager also runs the others.
	names := slices.Sorted(maps.Keys(cores))
	pasts := map[string]*clusters.Past{}
	for _, name := range names {
		pasts[name] = &clusters.Past{}
	}
	tracer, endTraces, err := f.traceCores(ctx, names, cores)
	if err != nil {
		return err
	}
	defer endTraces()
	stopTime := f.server.StopTime()
	mgr, err := f.manager("webhook", cores[names[0]], func(o *manager.Options) {
		o.GracefulShutdownTimeout, o.Cache = &stopTime, clusters.CacheOptionsOf(pasts[names[0]])
	}, offerExemplars(tracer))
	if err != nil {
		return err
	}
	if err := follow(mgr, append(followers, more...)...); err != nil {
		return err
	}
	connected := map[string]cluster.Cluster{names[0]: mgr}
	for _, name := range names[1:] {
		connected[name], err = cluster.New(cores[name], func(o *cluster.Options) {
			o.Scheme, o.Cache = mgr.GetScheme(), clusters.CacheOptionsOf(pasts[name])
		})
		if err != nil {
			return fmt.Errorf("--core %s: %w", name, err)
		}
	}
	options := webhook.Options{
		Cores: connected, Pasts: pasts, Cells: cells, Rosters: f.rosters(connected, mgr.GetLogger()), Server: &f.server, Nudge: f.nudge,
		Metrics: metrics.Registry, ProbeEvery: clusters.ProbeEvery, Tracer: tracer,
	}
	if options.Peers, err = f.others(mgr); err != nil {
		return err
	}
	if err := webhook.SetupWithManager(mgr, options); err != nil {
		return err
	}
	if err := errors.Join(f.schedule(mgr, connected), f.guardRoots(mgr, connected)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// traceCores starts tracing, and makes clients of the cores send their span context.
func (f *webhookFlags) traceCores(ctx context.Context, names []string, cores map[string]*rest.Config) (tracer *tracing.Tracer, end func(), err error) {
	log, err := f.logger("webhook")
	if err != nil {
		return nil, nil, err
	}
	if tracer, end, err = f.trace(ctx, "webhook", log, attribute.StringSlice(tracing.Core, names)); err != nil {
		return nil, nil, err
	}
	for _, config := range cores {
		tracer.Through(config)
	}
	return tracer, end, nil
}

// others returns the other replicas, or nil if none are configured.
func (f *webhookFlags) others(mgr manager.Manager) (*webhook.Peers, error) {
	if len(f.peers) == 0 {
		return nil, nil
	}
	addresses := &webhook.PeerAddresses{Names: f.peers, Log: mgr.GetLogger()}
	if err := mgr.Add(addresses); err != nil {
		return nil, err
	}
	return f.server.NewPeers(f.advertise, addresses.All), nil
}

// schedule adds the handler of scheduling policies to the server, if enabled.
func (f *webhookFlags) schedule(mgr manager.Manager, cores map[string]cluster.Cluster) error {
	if !f.scheduling {
		return nil
	}
	handler, err := scheduling.Setup(mgr, scheduling.Options{
		Cores: cores, Cells: f.server.Protection, Audit: f.server.Audit, Registry: metrics.Registry,
	})
	if err != nil {
		return err
	}
	f.server.Scheduling = handler
	return nil
}

// guardRoots adds the handler of the root guard to the server, unless it is off.
func (f *webhookFlags) guardRoots(mgr manager.Manager, cores map[string]cluster.Cluster) error {
	mode := rootguard.Mode(f.rootGuard)
	if mode == rootguard.Off {
		return nil
	}
	handler, err := guarding.Setup(mgr, guarding.Options{
		Mode: mode, Audit: f.server.Audit, Cores: cores, Protection: f.server.Protection, OwnerKinds: groupResources(f.ownerKinds), Registry: metrics.Registry,
	})
	if err != nil {
		return err
	}
	f.server.Roots = handler
	return nil
}

// groupResources parses resources as kubectl does: RESOURCE.GROUP, or RESOURCE for the core API group.
func groupResources(names []string) (all []schema.GroupResource) {
	for _, name := range names {
		all = append(all, schema.ParseGroupResource(name))
	}
	return all
}

// rosters returns a cell registry per core.
func (f *webhookFlags) rosters(cores map[string]cluster.Cluster, log logr.Logger) map[string]*clusters.Roster {
	rosters := map[string]*clusters.Roster{}
	for name, core := range cores {
		rosters[name] = clusters.NewRoster(core, "webhook", log.WithValues("core", name))
		rosters[name].NamesOnly = !slices.Contains(f.cellsOf, allCores) && !slices.Contains(f.cellsOf, name)
	}
	return rosters
}
