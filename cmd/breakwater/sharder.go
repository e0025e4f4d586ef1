package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/breakwater-k8s/breakwater/controllers/sharder"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
	"github.com/breakwater-k8s/breakwater/webhook/sharding"
)

// injectAnnotation makes cert-manager inject a CA bundle into a webhook configuration.
const injectAnnotation = "cert-manager.io/inject-ca-from"

type sharderFlags struct {
	componentFlags
	electionFlags
	cluster         clusters.Connection
	shardNamespaces []string
	listen          string
	certFile        string
	keyFile         string
	caFile          string
	injectFrom      string
	service, url    string
	drain           time.Duration

	host   string
	port   int
	client admissionregistrationv1.WebhookClientConfig
}

func sharderCommand() *cobra.Command {
	f := &sharderFlags{}
	command := &cobra.Command{
		Use:   "sharder --tls-cert FILE --tls-key FILE --service NAMESPACE/NAME[:PORT]|--url URL",
		Short: "Distribute the objects of ClusterRings among the shards of their controllers",
		Long: `The sharder distributes the objects of each ClusterRing among the shards of its controller. Shards are instances of the controller that
work at the same time, each on the objects whose label breakwater.dev/shard-<ring> has its name. The sharder finds shards by their
Leases.

The sharder assigns objects when they are stored: for each ring it creates a MutatingWebhookConfiguration breakwater-ring-<ring>, with
which the API server calls the sharder at /rings/<ring> for objects without a shard. The sharder allows all requests. While it is
unreachable, objects are stored without a shard, and the sharder assigns them later (docs/concepts/sharding.md).

The sharder needs permission to get, list and patch the resources of rings. In the chart, it has the permissions of ClusterRoles with the
label breakwater.dev/aggregate-to-sharder: "true".

All replicas answer reviews. One of them, the leader, moves objects, and ensures that shards without a renewed Lease do not work.`,
		Example: `  breakwater sharder --service breakwater-system/breakwater-sharder --tls-cert tls.crt --tls-key tls.key --tls-ca ca.crt`,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	flags := command.Flags()
	bindCluster(flags, &f.cluster, "", "the cluster of the rings")
	bindUser(flags, &f.cluster, "", "that cluster")
	flags.StringSliceVar(&f.shardNamespaces, "shard-namespaces", nil, "`namespaces` whose Leases are watched; a ring with another spec.shardNamespace has no shards; empty: all")
	flags.StringVar(&f.listen, "listen", ":9443", "`address` to serve reviews on")
	flags.StringVar(&f.certFile, "tls-cert", "", "PEM `file` of the serving certificate; reloaded when it changes (required)")
	flags.StringVar(&f.keyFile, "tls-key", "", "PEM `file` of its key (required)")
	flags.StringVar(&f.caFile, "tls-ca", "", "PEM `file` of the CAs that signed the serving certificate; the sharder writes them into the webhook configurations and updates them when the file changes; empty: another client sets caBundle, such as --inject-ca-from, or the API server trusts the certificate itself")
	flags.StringVar(&f.injectFrom, "inject-ca-from", "", "`NAMESPACE/NAME` of the cert-manager Certificate whose CA cert-manager writes into the webhook configurations")
	flags.StringVar(&f.service, "service", "", "Service at which the API server reaches all replicas, as `NAMESPACE/NAME[:PORT]` (default port 443)")
	flags.StringVar(&f.url, "url", "", "`address` at which the API server reaches all replicas, as https://HOST:PORT, instead of --service")
	flags.DurationVar(&f.drain, "drain", 0, "how long to continue answering reviews after SIGTERM, while the endpoint is removed; objects that are created without an answer are assigned minutes later")
	f.electionFlags.bind(flags)
	f.componentFlags.bind(flags)
	return command
}

func (f *sharderFlags) validate() error {
	var all []error
	if f.certFile == "" || f.keyFile == "" {
		all = append(all, errors.New("--tls-cert and --tls-key are required: API servers use only TLS for webhooks"))
	}
	host, port, err := net.SplitHostPort(f.listen)
	if err == nil {
		f.host = host
		f.port, err = strconv.Atoi(port)
	}
	if err != nil || f.port < 1 || f.port > 65535 {
		all = append(all, fmt.Errorf("--listen %q: want [HOST]:PORT", f.listen))
	}
	if f.client, err = sharderEndpoint(f.service, f.url); err != nil {
		all = append(all, err)
	}
	if f.injectFrom != "" {
		if f.caFile != "" {
			all = append(all, errors.New("--tls-ca and --inject-ca-from exclude each other: both would write the same field"))
		}
		if _, ok := parseNamespacedName(f.injectFrom); !ok {
			all = append(all, fmt.Errorf("--inject-ca-from %q: want NAMESPACE/NAME of a Certificate", f.injectFrom))
		}
	}
	for _, namespace := range f.shardNamespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			all = append(all, fmt.Errorf("--shard-namespaces %q: %s", namespace, problems[0]))
		}
	}
	if f.drain < 0 || f.drain > time.Minute {
		all = append(all, fmt.Errorf("--drain %s: want from 0s to 1m", f.drain))
	}
	return errors.Join(all...)
}

func (f *sharderFlags) run(ctx context.Context) error {
	if err := f.validate(); err != nil {
		return err
	}
	config, err := f.cluster.Config("sharder")
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	if err := f.resolve(ctx, config); err != nil {
		return err
	}
	certificate, err := certwatcher.New(f.certFile, f.keyFile)
	if err != nil {
		return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", f.certFile, f.keyFile, err)
	}
	mgr, err := f.manager("sharder", config, f.configure(sharder.Name), func(options *manager.Options) {
		members.Select(&options.Cache, f.shardNamespaces...)
		options.WebhookServer = ctrlwebhook.NewServer(ctrlwebhook.Options{Host: f.host, Port: f.port, TLSOpts: []func(*tls.Config){
			func(c *tls.Config) {
				c.GetCertificate, c.NextProtos = certificate.GetCertificate, []string{"h2", "http/1.1"}
			},
		}})
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(certificate); err != nil {
		return err
	}
	// The manager stops its server immediately. Reviews arrive until all API servers have observed that this replica stops.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() { time.AfterFunc(f.drain, stop) })
	if err := f.setUp(serving, mgr, ctx.Done()); err != nil {
		return err
	}
	return mgr.Start(serving)
}

// setUp adds the parts of the sharder to a manager. stopping is closed when the process should stop.
func (f *sharderFlags) setUp(ctx context.Context, mgr manager.Manager, stopping <-chan struct{}) error {
	shards, err := members.NewShardTracker(ctx, mgr, func() bool {
		select {
		case <-mgr.Elected():
			return true
		default:
			return false
		}
	})
	if err != nil {
		return fmt.Errorf("set up the shards: %w", err)
	}
	endpoint, err := f.newEndpointCA(mgr)
	if err != nil {
		return err
	}
	queue := newRingQueue()
	options := sharder.Options{Roll: shards, PassRequests: queue, ClientConfig: endpoint.clientConfig, Registry: metrics.Registry}
	if f.injectFrom != "" {
		options.Annotations = map[string]string{injectAnnotation: f.injectFrom}
	}
	if err := sharder.Setup(ctx, mgr, options); err != nil {
		return fmt.Errorf("set up the sharder: %w", err)
	}
	err = sharding.Setup(ctx, mgr, sharding.Options{Members: shards, TriggerResync: queue.enqueue, Stopping: stopping, Registry: metrics.Registry})
	if err != nil {
		return fmt.Errorf("set up the webhook of rings: %w", err)
	}
	return nil
}
