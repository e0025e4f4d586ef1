package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/breakwater-k8s/breakwater/controllers/certificates"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

type certificatesFlags struct {
	componentFlags
	electionFlags
	certificates.Options
	cluster clusters.Connection
	secret  string
	callers string
	lease   string
}

func certificatesCommand() *cobra.Command {
	f := &certificatesFlags{}
	command := &cobra.Command{
		Use:   "certificates [--secret NAMESPACE/NAME --dns-name NAME ...] [--caller-keys NAMESPACE/NAME] --webhook-configuration NAME ...",
		Short: "Make the webhook's certificate where there is no cert-manager, and caller tokens",
		Long: `Keeps a Secret filled with a certificate that the webhook serves (tls.crt, tls.key), and with the authorities that vouch for it
(ca.crt), and makes the named webhook configurations trust those, also such as come later. The sharder has one of its own
for which it needs none: it tells the apiserver itself what is in ca.crt. The key of the authority is
in another Secret, of the same name and -ca, which replicas of the webhook do not need.

Both are replaced before they expire, and no review is lost by that: apiservers trust a new authority for --spread before a
certificate of its is served, and the one before it for --overlap after that. What cannot be served is replaced at once. To
replace the authority empty ca.crt of its Secret; to replace the certificate alone, tls.crt of the other.

Certificates have host names and no IP addresses: where apiservers reach the webhook by an address, use cert-manager, or
bring a certificate of your own.

With --caller-keys it keeps a Secret filled with the keys of caller tokens, which must exist, and puts a token into the path of each named
webhook configuration that has the annotation breakwater.dev/caller-path. With the annotation breakwater.dev/caller-tokens=Required on the
Secret it makes the webhook refuse other callers, once every named configuration has a token and --spread is over. To rotate the key set the
annotation breakwater.dev/rotate-caller-key of the Secret to a value that it has not had. The previous key is dropped --caller-overlap after every
configuration has a token of the new one.

Several replicas elect a leader.`,
		Example: `  breakwater certificates --secret breakwater-system/breakwater-webhook-tls \
    --dns-name breakwater-webhook.breakwater-system.svc --webhook-configuration breakwater-worker-1`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	flags := command.Flags()
	bindCluster(flags, &f.cluster, "", "the cluster that the webhook runs in")
	bindUser(flags, &f.cluster, "", "that cluster")
	flags.StringVar(&f.secret, "secret", "", "`NAMESPACE/NAME` of the Secret of the certificate; it is made if it does not exist")
	flags.StringArrayVar(&f.Names, "dns-name", nil, "host `name` of the webhook, such as SERVICE.NAMESPACE.svc; may be repeated; required with --secret")
	flags.StringArrayVar(&f.Configurations, "webhook-configuration", nil, "`name` of a ValidatingWebhookConfiguration that shall trust it; may be repeated")
	flags.StringArrayVar(&f.MutatingConfigurations, "mutating-webhook-configuration", nil, "`name` of a MutatingWebhookConfiguration that shall trust it; may be repeated")
	flags.DurationVar(&f.Lifetime, "lifetime", 365*24*time.Hour, "how long a serving certificate is valid")
	flags.DurationVar(&f.RenewBefore, "renew-before", 90*24*time.Hour, "how long before its end it is replaced")
	flags.DurationVar(&f.AuthorityLifetime, "authority-lifetime", 10*365*24*time.Hour, "how long an authority is valid; it is replaced when it would not outlive a new certificate")
	flags.DurationVar(&f.Spread, "spread", 2*time.Minute, "how long a new authority is trusted before a certificate of its is served: apiservers must have heard of it")
	flags.DurationVar(&f.Overlap, "overlap", time.Hour, "how long the one before it stays trusted after that: the files of all replicas must have been replaced, and read again")
	flags.StringVar(&f.callers, "caller-keys", "", "`NAMESPACE/NAME` of the Secret with the keys of caller tokens, which must exist")
	flags.DurationVar(&f.CallerOverlap, "caller-overlap", 24*time.Hour, "how long caller tokens of the previous key are accepted after every named configuration has one of the current key")
	f.electionFlags.bind(flags)
	flags.StringVar(&f.lease, "leader-election-lease", certificates.Name, "`name` of the Lease; another one for replicas in the same namespace that look after another Secret")
	f.componentFlags.bind(flags)
	return command
}

func (f *certificatesFlags) validate() error {
	var all []error
	if f.secret == "" && f.callers == "" {
		all = append(all, errors.New("--secret or --caller-keys is required: name the Secret to keep filled"))
	}
	for flag, of := range map[string]struct {
		text string
		key  *client.ObjectKey
	}{"secret": {f.secret, &f.Secret}, "caller-keys": {f.callers, &f.CallerSecret}} {
		namespace, name, ok := strings.Cut(of.text, "/")
		if of.text != "" && (!ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0) {
			all = append(all, fmt.Errorf("--%s %q: want NAMESPACE/NAME", flag, of.text))
		}
		*of.key = client.ObjectKey{Namespace: namespace, Name: name}
	}
	if f.Spread <= 0 || f.CallerOverlap <= 0 {
		all = append(all, fmt.Errorf("--spread %s, --caller-overlap %s: want both more than 0s", f.Spread, f.CallerOverlap))
	}
	if problems := validation.IsDNS1123Subdomain(f.lease); len(problems) > 0 {
		all = append(all, fmt.Errorf("--leader-election-lease %q: %s", f.lease, problems[0]))
	}
	if f.secret == "" {
		return errors.Join(all...)
	}
	if len(f.Names) == 0 {
		all = append(all, errors.New("--dns-name is required at least once"))
	}
	for _, name := range f.Names {
		if net.ParseIP(name) != nil {
			all = append(all, fmt.Errorf("--dns-name %s is an address: certificates that are made here have none; use cert-manager, or bring a certificate of your own", name))
		} else if problems := validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*.")); len(problems) > 0 {
			all = append(all, fmt.Errorf("--dns-name %q: %s", name, problems[0]))
		}
	}
	if f.RenewBefore <= 0 || f.RenewBefore >= f.Lifetime {
		all = append(all, fmt.Errorf("--renew-before %s: want more than 0s and less than --lifetime, which is %s", f.RenewBefore, f.Lifetime))
	}
	if f.Spread <= 0 || f.Overlap <= 0 || f.Spread+f.Overlap >= f.RenewBefore {
		all = append(all, fmt.Errorf("--spread %s, --overlap %s: want both more than 0s, and both together less than --renew-before, which is %s", f.Spread, f.Overlap, f.RenewBefore))
	}
	if f.AuthorityLifetime < 2*(f.Lifetime+f.RenewBefore) {
		all = append(all, fmt.Errorf("--authority-lifetime %s: want at least twice --lifetime and --renew-before together", f.AuthorityLifetime))
	}
	return errors.Join(all...)
}

func (f *certificatesFlags) run(ctx context.Context) error {
	if err := f.validate(); err != nil {
		return err
	}
	config, err := f.cluster.Config("certificates")
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	if err := f.resolve(ctx, config); err != nil {
		return err
	}
	mgr, err := f.manager("certificates", config, f.change(f.lease), func(options *manager.Options) {
		options.Cache = certificates.CacheOptions(f.Secret)
	})
	if err != nil {
		return err
	}
	if err := certificates.Setup(ctx, mgr, f.Options, metrics.Registry); err != nil {
		return fmt.Errorf("set up the certificates: %w", err)
	}
	return mgr.Start(ctx)
}
