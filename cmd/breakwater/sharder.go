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
	authorityFile   string
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
		Short: "Spread the objects of ClusterRings over the shards of their controllers",
		Long: `The sharder gives the objects of each ClusterRing to the shards of its controller: instances that all work, each on the objects
that have its name in their label breakwater.dev/shard-<ring>. Which shards there are it knows by their Leases.

It assigns objects in the moment in which they are stored: for each ring it makes a MutatingWebhookConfiguration
breakwater-ring-<ring>, by which the apiserver asks it at /rings/<ring> about objects that no shard has. It allows
everything. While it is away objects are stored unassigned, and it finds them when it is back: it looks at all objects of a
ring whenever shards come and go, and at least once an hour; every spec.resyncPeriodSeconds it asks for those that no shard
has, or that cannot be where they are. It keeps no objects in memory.

It needs to get, list and patch the resources that rings name. The chart grants it what ClusterRoles grant that have the
label breakwater.dev/aggregate-to-sharder: "true".

All replicas answer reviews. One of them, the leader, moves objects and makes certain that shards which have fallen silent
do not work.`,
		Example: `  breakwater sharder --service breakwater-system/breakwater-sharder --tls-cert tls.crt --tls-key tls.key --tls-ca ca.crt`,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	flags := command.Flags()
	bindCluster(flags, &f.cluster, "", "the cluster of the rings")
	bindUser(flags, &f.cluster, "", "that cluster")
	flags.StringSliceVar(&f.shardNamespaces, "shard-namespaces", nil, "`namespaces` whose Leases are heeded; a ring whose spec.shardNamespace is another one has no shards; empty: all")
	flags.StringVar(&f.listen, "listen", ":9443", "`address` to serve reviews on")
	flags.StringVar(&f.certFile, "tls-cert", "", "PEM `file` of the serving certificate; reloaded when it changes (required)")
	flags.StringVar(&f.keyFile, "tls-key", "", "PEM `file` of its key (required)")
	flags.StringVar(&f.authorityFile, "tls-ca", "", "PEM `file` of the authorities that vouch for it, which are written into the webhook configurations, again whenever they change; empty: caBundle is left to others, such as --inject-ca-from, or to the apiserver's own trust")
	flags.StringVar(&f.injectFrom, "inject-ca-from", "", "`NAMESPACE/NAME` of the cert-manager Certificate whose authority cert-manager puts into the webhook configurations")
	flags.StringVar(&f.service, "service", "", "Service by which the apiserver reaches all replicas, as `NAMESPACE/NAME[:PORT]` (port 443 if left out)")
	flags.StringVar(&f.url, "url", "", "`address` by which it does, as https://HOST:PORT, in place of --service")
	flags.DurationVar(&f.drain, "drain", 0, "how long to go on answering reviews after SIGTERM, while the endpoint is taken out of service: what is made while nobody answers is assigned minutes later")
	f.electionFlags.bind(flags)
	f.componentFlags.bind(flags)
	return command
}

func (f *sharderFlags) validate() error {
	var all []error
	if f.certFile == "" || f.keyFile == "" {
		all = append(all, errors.New("--tls-cert and --tls-key are required: apiservers speak only TLS to webhooks"))
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
		if f.authorityFile != "" {
			all = append(all, errors.New("--tls-ca and --inject-ca-from exclude each other: they would write the same field in turn"))
		}
		if !isNamespacedName(f.injectFrom) {
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
	mgr, err := f.manager("sharder", config, f.change(sharder.Name), func(options *manager.Options) {
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
	roll, err := members.NewRoll(ctx, mgr, func() bool {
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
	kicks := newKicks()
	authority, err := f.authority(mgr, kicks)
	if err != nil {
		return err
	}
	options := sharder.Options{Roll: roll, Kicks: kicks, ClientConfig: authority.clientConfig, Registry: metrics.Registry}
	if f.injectFrom != "" {
		options.Annotations = map[string]string{injectAnnotation: f.injectFrom}
	}
	if err := sharder.Setup(ctx, mgr, options); err != nil {
		return fmt.Errorf("set up the sharder: %w", err)
	}
	err = sharding.Setup(ctx, mgr, sharding.Options{Roll: roll, Kick: kicks.kick, Stopping: stopping, Registry: metrics.Registry})
	if err != nil {
		return fmt.Errorf("set up the admission of rings: %w", err)
	}
	return nil
}
