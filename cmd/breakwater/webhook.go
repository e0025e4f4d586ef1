package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/webhook/reserve"
	"github.com/breakwater-k8s/breakwater/webhook/review"
	"github.com/breakwater-k8s/breakwater/webhook/server"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/attribute"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
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
	server       server.Server
	peers        []string
	advertise    string
	retryDenied  bool
	cellsOf      []string
	scheduling   bool
	rootGuard    string
	onCascade    string
	ownerKinds   []string
	nodeGuard    bool
	home         string
	renewed      []string
}

func webhookCommand() *cobra.Command {
	f := &webhookFlags{}
	command := &cobra.Command{
		Use:   "webhook --core NAME=KUBECONFIG ... --tls-cert FILE --tls-key FILE",
		Short: "Deny removals of pods that would break a protector's floor",
		Long: `The webhook answers admission reviews of the API servers of all cells, at /cells/<cell>/validate. It records a reservation for each
removal that it allows in the status of the protectors that cover the pod, in every core cluster.

The webhook serves Cells with a kubeconfigSecretRef as they are created and deleted. Name other cells with --cell, which takes
precedence over a Secret. Replicas need no leader; run as many as you like. Set --peer to the addresses of the other replicas, so that
they forward requests for one protector to one of them. Replicas recognize each other by their serving certificate, which must be the
same.

With --scheduling the webhook also applies PodSchedulingPolicies and ClusterPodSchedulingPolicies, at /cells/<cell>/schedule, and the
spreads of PodProtectors with enforcement Schedule; without it, such a spread is only audited. With --root-guard it also answers, at
/roots/..., deletions of namespaces, workloads, owners of workloads, CustomResourceDefinitions, PodProtectors and Cells that live
floors depend on (docs/concepts/overview.md). breakwater webhook-config prints the configurations that make an API server call
the webhook.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringArrayVar(&f.cores, "core", nil, "`NAME=KUBECONFIG` of a core cluster (or NAME=in-cluster); may be repeated")
	flags.StringArrayVar(&f.cells, "cell", nil, "`NAME=KUBECONFIG` of a cell's cluster (or NAME=in-cluster) for reading evicted pods, instead of the kubeconfig of its Cell; may be repeated")
	flags.StringSliceVar(&f.cellsOf, "cells-of", []string{allCores}, "`cores` whose Cells with a kubeconfigSecretRef are served, in addition to --cell; Secrets of other cores are not read; none: --cells-of=")
	flags.StringVar(&f.as, "as", "", "`user` to impersonate in all clusters")
	flags.StringSliceVar(&f.asGroups, "as-group", nil, "`group` to impersonate in all clusters; may be repeated")
	flags.StringVar(&f.server.Listen, "listen", ":9443", "`address` to serve reviews on")
	flags.StringVar(&f.server.CertFile, "tls-cert", "", "PEM `file` of the serving certificate; reloaded when it changes (required)")
	flags.StringVar(&f.server.KeyFile, "tls-key", "", "PEM `file` of its key (required)")
	flags.StringVar(&f.server.ClientCAFile, "client-ca", "", "PEM `file` of the CA that must have signed client certificates; empty: any client may call")
	flags.StringSliceVar(&f.server.ClientNames, "client-name", nil, "common `name` or DNS name in the certificate of an allowed client, for certificates signed by --client-ca; may be repeated; none: all of them")
	flags.StringVar(&f.server.CallerKeys, "caller-keys", "", "`folder` with the keys of caller tokens (current, previous), which authenticate API servers without a client certificate; changes are read again. "+
		"If a file named required has the content true, all other callers are denied; otherwise they are counted. Not used with --client-ca, which authenticates every caller")
	flags.DurationVar(&f.server.Drain, "drain", 0, "how long to continue accepting reviews after SIGTERM, while the endpoint is removed")
	flags.StringArrayVar(&f.peers, "peer", nil, "`HOST:PORT` of other replicas; HOST may resolve to several addresses (a headless Service); may be repeated")
	flags.StringVar(&f.advertise, "advertise", "", "`IP:PORT` at which other replicas reach this one; required with --peer")
	flags.StringVar(&f.server.HelpURL, "refusal-help-url", "", "`URL` of a page of yours that each refusal names")
	flags.BoolVar(&f.server.Audit, "audit", false, "allow every removal that would be denied, and every pod that a scheduling policy rejects, with a warning for the client: a trial mode that protects nothing")
	flags.BoolVar(&f.retryDenied, "nudge", true, "when budget returns, wake the controllers whose removals were denied (an annotation on their objects), and retry abandoned evictions: from tainted nodes and devices, and of pods whose owner was deleted; release pods to a controller that was deleted and created again")
	flags.BoolVar(&f.scheduling, "scheduling", false, "apply PodSchedulingPolicies and ClusterPodSchedulingPolicies to pods and workloads, and the spreads of PodProtectors to pods")
	flags.StringVar(&f.rootGuard, "root-guard", string(rootguard.Warn), "response to the deletion of an object that live floors depend on: `Off|Warn|Deny`")
	flags.StringVar(&f.onCascade, "on-cascade", string(v1alpha1.CascadeHold), "--on-cascade of the generator, for what the root guard tells clients: `Hold|Release`")
	flags.StringSliceVar(&f.ownerKinds, "root-guard-owner-kinds", nil, "`resources` whose objects own source workloads in the core clusters, such as rollouts.argoproj.io: the root guard also answers their deletion")
	flags.BoolVar(&f.nodeGuard, "node-guard", false, "record each admitted removal of a protected pod without a grace period as an Event in the cell, for node guards; "+
		"a removal that cannot be recorded is denied")
	flags.StringVar(&f.home, "home", clusters.InCluster, "`KUBECONFIG` of the webhook's own cluster (or in-cluster), which has the Secrets of --renew-token")
	flags.StringArrayVar(&f.renewed, "renew-token", nil, "`SECRET/KEY` of --home, in the namespace of the pod, with the kubeconfig of a --core, from breakwater join: "+
		"its token is renewed before it expires; may be repeated")
	f.traceFlags.bind(flags)
	f.componentFlags.bind(flags)
	return command
}

func (f *webhookFlags) validate() error {
	var all []error
	if _, err := rootguard.ParseMode(f.rootGuard); err != nil {
		all = append(all, fmt.Errorf("--root-guard: %w", err))
	}
	if of := v1alpha1.CascadePolicy(f.onCascade); of != v1alpha1.CascadeHold && of != v1alpha1.CascadeRelease {
		all = append(all, fmt.Errorf("--on-cascade %q: must be %s or %s", f.onCascade, v1alpha1.CascadeHold, v1alpha1.CascadeRelease))
	}
	if len(f.cores) == 0 {
		all = append(all, errors.New("--core is required at least once: protectors are read from core clusters"))
	}
	if f.server.CertFile == "" || f.server.KeyFile == "" {
		all = append(all, errors.New("--tls-cert and --tls-key are required: API servers use only TLS for webhooks"))
	}
	if len(f.server.ClientNames) > 0 && f.server.ClientCAFile == "" {
		all = append(all, errors.New("--client-name needs --client-ca, the CA that signed the certificates of these clients"))
	}
	if at, err := url.Parse(f.server.HelpURL); f.server.HelpURL != "" && (err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "") {
		all = append(all, fmt.Errorf("--refusal-help-url %q: want https://HOST/PATH", f.server.HelpURL))
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
		all = append(all, fmt.Errorf("--advertise %q: want the IP:PORT at which other replicas reach this one, such as $(POD_IP):9443", f.advertise))
	}
	for _, renewed := range f.renewed {
		if secret, key, ok := strings.Cut(renewed, "/"); !ok || secret == "" || key == "" {
			all = append(all, fmt.Errorf("--renew-token %q: want SECRET/KEY", renewed))
		}
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
	cores, reloaders, err := namedConfigs("core", f.cores, as, "webhook")
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
	detectors := map[string]*clusters.RestoreDetector{}
	for _, name := range names {
		detectors[name] = &clusters.RestoreDetector{}
	}
	tracer, endTraces, err := f.traceCores(ctx, names, cores)
	if err != nil {
		return err
	}
	defer endTraces()
	stopTime := f.server.ShutdownTimeout()
	mgr, err := f.manager("webhook", cores[names[0]], func(o *manager.Options) {
		o.GracefulShutdownTimeout, o.Cache = &stopTime, clusters.CacheOptionsOf(detectors[names[0]])
	}, enableExemplars(tracer))
	if err != nil {
		return err
	}
	if err := addReloaders(mgr, append(reloaders, more...)...); err != nil {
		return err
	}
	connected, err := connectCores(mgr, names, cores, detectors)
	if err != nil {
		return err
	}
	options := webhook.Options{
		Cores: connected, RestoreDetectors: detectors, Cells: cells, CellRegistries: f.cellRegistries(connected, mgr.GetLogger()), Server: &f.server, EnableRetrier: f.retryDenied,
		NodeGuard: f.nodeGuard, Metrics: metrics.Registry, ProbeInterval: clusters.ProbeEvery, Tracer: tracer,
	}
	if options.Peers, err = f.newPeers(mgr); err != nil {
		return err
	}
	protection, err := webhook.SetupWithManager(mgr, options)
	if err != nil {
		return err
	}
	if err := errors.Join(f.schedule(mgr, connected, protection), f.guardRoots(mgr, connected, protection), f.addTokenRenewal(mgr)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// connectCores returns the core clusters by name. The first one is the cluster of the manager.
func connectCores(
	mgr manager.Manager, names []string, cores map[string]*rest.Config, detectors map[string]*clusters.RestoreDetector,
) (connected map[string]cluster.Cluster, err error) {
	connected = map[string]cluster.Cluster{names[0]: mgr}
	for _, name := range names[1:] {
		connected[name], err = cluster.New(cores[name], func(o *cluster.Options) {
			o.Scheme, o.Cache = mgr.GetScheme(), clusters.CacheOptionsOf(detectors[name])
		})
		if err != nil {
			return nil, fmt.Errorf("--core %s: %w", name, err)
		}
	}
	return connected, nil
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
		tracer.WrapConfig(config)
	}
	return tracer, end, nil
}

// newPeers returns the other replicas, or nil if none are configured.
func (f *webhookFlags) newPeers(mgr manager.Manager) (*reserve.Peers, error) {
	if len(f.peers) == 0 {
		return nil, nil
	}
	addresses := &server.PeerAddresses{Names: f.peers, Log: mgr.GetLogger()}
	if err := mgr.Add(addresses); err != nil {
		return nil, err
	}
	return reserve.NewPeers(&f.server, f.advertise, addresses.All), nil
}

// schedule adds the handler of scheduling policies to the server, if enabled.
func (f *webhookFlags) schedule(mgr manager.Manager, cores map[string]cluster.Cluster, protection *review.Protection) error {
	if !f.scheduling {
		return nil
	}
	handler, err := scheduling.Setup(mgr, scheduling.Options{
		Cores: cores, Cells: protection, Audit: f.server.Audit, Registry: metrics.Registry,
	})
	if err != nil {
		return err
	}
	f.server.Scheduling = handler
	return nil
}

// guardRoots adds the handler of the root guard to the server, unless it is off.
func (f *webhookFlags) guardRoots(mgr manager.Manager, cores map[string]cluster.Cluster, protection *review.Protection) error {
	mode := rootguard.Mode(f.rootGuard)
	if mode == rootguard.Off {
		return nil
	}
	handler, err := guarding.Setup(mgr, guarding.Options{
		Mode: mode, Audit: f.server.Audit, OnCascade: v1alpha1.CascadePolicy(f.onCascade), Cores: cores, Protection: protection,
		OwnerKinds: groupResources(f.ownerKinds), Registry: metrics.Registry,
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

func (f *webhookFlags) cellRegistries(cores map[string]cluster.Cluster, log logr.Logger) map[string]*clusters.CellRegistry {
	registries := map[string]*clusters.CellRegistry{}
	for name, core := range cores {
		registries[name] = clusters.NewCellRegistry(core, "webhook", log.WithValues("core", name))
		registries[name].NamesOnly = !slices.Contains(f.cellsOf, allCores) && !slices.Contains(f.cellsOf, name)
	}
	return registries
}
