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
	cluster    clusters.Connection
	secret     string
	callerKeys string
	lease      string
}

func certificatesCommand() *cobra.Command {
	f := &certificatesFlags{}
	command := &cobra.Command{
		Use:   "certificates [--secret NAMESPACE/NAME --dns-name NAME ...] [--caller-keys NAMESPACE/NAME] [--webhook-configuration NAME ...]",
		Short: "Create the webhook's certificate in clusters without cert-manager, and caller tokens",
		Long: `With --secret the command maintains a Secret with a serving certificate (tls.crt, tls.key) and the CAs that signed it (ca.crt), and a
second Secret with the suffix -ca, which has the private key of the CA. It writes the CAs into the caBundle of the named webhook
configurations, including those that are created later. It replaces the certificate and the CA before they expire, without losing
reviews.

Certificates have host names and no IP addresses. If API servers reach the webhook by an IP address, use cert-manager or your own
certificate.

With --caller-keys the command maintains the keys of caller tokens in an existing Secret, and adds a token to the path of each named
webhook configuration that has the annotation breakwater.dev/caller-path. docs/how-to/certificates.md describes how to require
tokens, and how to replace keys and CAs.

Replicas elect a leader.`,
		Example: `  breakwater certificates --secret breakwater-system/breakwater-webhook-tls \
    --dns-name breakwater-webhook.breakwater-system.svc --webhook-configuration breakwater-worker-1`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	flags := command.Flags()
	bindCluster(flags, &f.cluster, "", "the cluster that the webhook runs in")
	bindUser(flags, &f.cluster, "", "that cluster")
	flags.StringVar(&f.secret, "secret", "", "`NAMESPACE/NAME` of the Secret of the certificate; created if it does not exist")
	flags.StringArrayVar(&f.Names, "dns-name", nil, "host `name` of the webhook, such as SERVICE.NAMESPACE.svc; may be repeated; required with --secret")
	flags.StringArrayVar(&f.Configurations, "webhook-configuration", nil, "`name` of a ValidatingWebhookConfiguration that must trust the certificate; may be repeated")
	flags.StringArrayVar(&f.MutatingConfigurations, "mutating-webhook-configuration", nil, "`name` of a MutatingWebhookConfiguration that must trust the certificate; may be repeated")
	flags.DurationVar(&f.Lifetime, "lifetime", 365*24*time.Hour, "how long a serving certificate is valid")
	flags.DurationVar(&f.RenewBefore, "renew-before", 90*24*time.Hour, "how long before its expiry a serving certificate is replaced")
	flags.DurationVar(&f.AuthorityLifetime, "authority-lifetime", 10*365*24*time.Hour, "how long a CA is valid; a CA that would expire before a new certificate is replaced")
	flags.DurationVar(&f.Spread, "spread", 2*time.Minute, "how long a new CA is trusted before a certificate that it signed is served: all API servers must have observed it")
	flags.DurationVar(&f.Overlap, "overlap", time.Hour, "how long the previous CA stays trusted after that: all replicas must have read the new files")
	flags.StringVar(&f.callerKeys, "caller-keys", "", "`NAMESPACE/NAME` of the Secret with the keys of caller tokens, which must exist")
	flags.DurationVar(&f.CallerOverlap, "caller-overlap", 24*time.Hour, "how long caller tokens of the previous key are accepted after every named configuration has one of the current key")
	f.electionFlags.bind(flags)
	flags.StringVar(&f.lease, "leader-election-lease", certificates.Name, "`name` of the Lease; use another name for replicas in the same namespace that maintain another Secret")
	f.componentFlags.bind(flags)
	return command
}

func (f *certificatesFlags) validate() error {
	var all []error
	if f.secret == "" && f.callerKeys == "" {
		all = append(all, errors.New("--secret or --caller-keys is required: name the Secret to maintain"))
	}
	for _, of := range []struct {
		flag, text string
		key        *client.ObjectKey
	}{{"secret", f.secret, &f.Secret}, {"caller-keys", f.callerKeys, &f.CallerSecret}} {
		var ok bool
		if *of.key, ok = parseNamespacedName(of.text); !ok && of.text != "" {
			all = append(all, fmt.Errorf("--%s %q: want NAMESPACE/NAME", of.flag, of.text))
		}
	}
	if f.Spread <= 0 {
		all = append(all, fmt.Errorf("--spread %s: want more than 0s", f.Spread))
	}
	if f.callerKeys != "" && f.CallerOverlap <= 0 {
		all = append(all, fmt.Errorf("--caller-overlap %s: want more than 0s", f.CallerOverlap))
	}
	if problems := validation.IsDNS1123Subdomain(f.lease); len(problems) > 0 {
		all = append(all, fmt.Errorf("--leader-election-lease %q: %s", f.lease, problems[0]))
	}
	if f.secret != "" {
		all = append(all, f.validateCertificate()...)
	}
	return errors.Join(all...)
}

// validateCertificate validates the flags that matter only with --secret.
func (f *certificatesFlags) validateCertificate() (all []error) {
	if len(f.Names) == 0 {
		all = append(all, errors.New("--dns-name is required at least once"))
	}
	for _, name := range f.Names {
		if net.ParseIP(name) != nil {
			all = append(all, fmt.Errorf("--dns-name %s is an IP address: these certificates have none; use cert-manager, or your own certificate", name))
		} else if problems := validation.IsDNS1123Subdomain(strings.TrimPrefix(name, "*.")); len(problems) > 0 {
			all = append(all, fmt.Errorf("--dns-name %q: %s", name, problems[0]))
		}
	}
	if f.RenewBefore <= 0 || f.RenewBefore >= f.Lifetime {
		all = append(all, fmt.Errorf("--renew-before %s: want more than 0s and less than --lifetime (%s)", f.RenewBefore, f.Lifetime))
	}
	if f.Overlap <= 0 {
		all = append(all, fmt.Errorf("--overlap %s: want more than 0s", f.Overlap))
	}
	if f.Spread+f.Overlap >= f.RenewBefore {
		all = append(all, fmt.Errorf("--spread %s, --overlap %s: want a sum less than --renew-before (%s)", f.Spread, f.Overlap, f.RenewBefore))
	}
	if f.AuthorityLifetime < 2*(f.Lifetime+f.RenewBefore) {
		all = append(all, fmt.Errorf("--authority-lifetime %s: want at least twice the sum of --lifetime and --renew-before", f.AuthorityLifetime))
	}
	return all
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
	mgr, err := f.manager("certificates", config, f.configure(f.lease), func(options *manager.Options) {
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
