package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/console"
)

type consoleFlags struct {
	componentFlags
	core    clusters.Connection
	others  []string
	options console.Options
}

func consoleCommand() *cobra.Command {
	f := &consoleFlags{options: console.Default()}
	command := &cobra.Command{
		Use:   "console --tls-cert FILE --tls-key FILE",
		Short: "Serve a page that shows protectors, cells and denials",
		Long: `The console serves a page with the protectors and cells of one or more core clusters, live: floors, budgets, timelines and denials. It
only reads, and needs no Secrets and no access to other clusters. Timelines begin when the console starts, unless --history-file names a
file that survives restarts.

Users authenticate with a token of the core's API server: in the header Authorization, which proxies send, or pasted into the page
to sign in. Each user sees what the user may list in the core cluster: podprotectors of breakwater.dev and events of events.k8s.io,
in all namespaces or in some, and cells. Each core authenticates and authorizes the users for its own objects.`,
		Example: `  breakwater console --tls-cert tls.crt --tls-key tls.key
  breakwater console --core-name east --core west=/etc/breakwater/west --tls-cert tls.crt --tls-key tls.key
  kubectl create token -n breakwater-system viewer --duration 1h`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	flags := command.Flags()
	bindCluster(flags, &f.core, "", "the core cluster")
	bindUser(flags, &f.core, "", "the core cluster")
	o := &f.options
	flags.StringVar(&o.Core, "core-name", o.Core, "name of the core cluster on the page")
	flags.StringArrayVar(&f.others, "core", nil, "`NAME=KUBECONFIG` of another core cluster; may be repeated")
	flags.StringVar(&o.Listen, "listen", o.Listen, "`address` to serve the page on")
	flags.StringVar(&o.CertFile, "tls-cert", "", "PEM `file` of the serving certificate; reloaded when it changes (required)")
	flags.StringVar(&o.KeyFile, "tls-key", "", "PEM `file` of its key (required)")
	flags.StringVar(&o.RunbookURL, "runbook-url", o.RunbookURL, "base `URL` of the runbooks to which the page links: URL/core-down.md")
	flags.DurationVar(&o.SessionIdle, "session-idle", o.SessionIdle, "how long a browser stays signed in without activity")
	flags.DurationVar(&o.SessionLifetime, "session-lifetime", o.SessionLifetime, "how long a browser stays signed in at most")
	flags.DurationVar(&o.ReviewLifetime, "reviews-for", o.ReviewLifetime, "how long responses of the API server about tokens and permissions are cached")
	flags.StringVar(&o.HistoryFile, "history-file", "", "`file` that keeps the timelines across restarts, saved every minute")
	f.bind(flags)
	return command
}

func (f *consoleFlags) run(ctx context.Context) error {
	others, reloaders, err := namedConfigs("core", f.others, f.core, "console")
	if err != nil {
		return err
	}
	f.options.Others = others
	if err := f.options.Validate(); err != nil {
		return err
	}
	if err := checkAddress("listen", f.options.Listen); err != nil {
		return err
	}
	config, err := f.core.Config("console")
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	mgr, err := f.manager("console", config)
	if err != nil {
		return err
	}
	if err := addReloaders(mgr, reloaders...); err != nil {
		return err
	}
	f.options.Registry = metrics.Registry
	if err := console.Setup(mgr, f.options); err != nil {
		return fmt.Errorf("set up the console: %w", err)
	}
	return mgr.Start(ctx)
}
