package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/cli/join"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

type joinFlags struct {
	join.Options
	core, worker     clusters.Connection
	coreCA, workerCA string
	only, output     string
	revoke           bool
	// callerValues is the file to write the worker's caller token to. callerSecret holds the caller keys.
	callerValues, callerSecret string
}

func joinCommand() *cobra.Command {
	f := &joinFlags{}
	command := &cobra.Command{
		Use:   "join --cell NAME --core-kubeconfig FILE --kubeconfig FILE",
		Short: "Give a core and a worker cluster access to each other",
		Long: `Creates the objects that Breakwater's components in a core and in a worker need to reach each other:

  in the core    Secret cell-<cell> with a kubeconfig of the worker, and a Cell that names it
  in the worker  Secret core-<core> with a kubeconfig of the core, and ConfigMap breakwater-core, with which kubectl breakwater finds the core:
                 its URL, the UID of its kube-system and the name of your context. All authenticated users of the worker may read it

Each kubeconfig has a token of a ServiceAccount with the least permissions. In the worker it is the ServiceAccount of the chart
(access.enabled: true). In the core it is one for this cell, breakwater-access-<cell>, which join creates and binds to a ClusterRole
of the chart; policies of the chart restrict it to the entries of its cell. Tokens are valid for 30 days, or for --token-lifetime. The
components renew them before they expire: join permits each account to request tokens of itself. To revoke a token, delete the Secret that it is bound to, in the cluster that the token is for
(label breakwater.dev/joined-by=token). The user of join must be an administrator of both clusters.

Join tests a kubeconfig from this machine before it writes it. Another run creates new tokens, and revokes the previous ones after
--grace. Join never moves a Cell to another cluster, and changes only spec.kubeconfigSecretRef of an existing Cell. Create the Cell of
a part of a cluster before you run join, because the part cannot be changed later.`,
		Example: `  breakwater join --cell worker-1 --core-kubeconfig core.kubeconfig --kubeconfig worker-1.kubeconfig \
    --core-server https://core.example:6443 --worker-server https://worker-1.example:6443
  breakwater join --cell worker-1 ... --only core-to-worker --output yaml | kubeseal ...   # for Git
  breakwater join --cell worker-1 ... --revoke`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context(), command) },
	}
	flags := command.Flags()
	bindCluster(flags, &f.core, "core-", "the core cluster")
	bindCluster(flags, &f.worker, "", "the worker cluster")
	flags.StringVar(&f.Cell, "cell", "", "`name` of the worker's Cell (required)")
	flags.StringVar(&f.CoreName, "core", "core", "`name` of the core in the worker")
	flags.StringVarP(&f.Namespace, "namespace", "n", defaultNamespace, "`namespace` of Breakwater, in both clusters")
	flags.StringVar(&f.ServiceAccount, "service-account", "breakwater-access", "`name` of the ServiceAccount of the core's components in the worker; with the suffix -<cell>, of the worker's components in the core")
	flags.StringVar(&f.Identity, "identity", "", "`name` of another cell of the same worker, whose ServiceAccount in the core this cell shares (default: --cell)")
	flags.StringVar(&f.Core.Server, "core-server", "", "`URL` at which the worker reaches the core's API server (default: that of --core-kubeconfig)")
	flags.StringVar(&f.Worker.Server, "worker-server", "", "`URL` at which the core reaches the worker's API server (default: that of --kubeconfig)")
	flags.StringVar(&f.coreCA, "core-ca", "", "PEM `file` of the CA of --core-server (default: that of --core-kubeconfig)")
	flags.StringVar(&f.workerCA, "worker-ca", "", "PEM `file` of the CA of --worker-server (default: that of --kubeconfig)")
	flags.DurationVar(&f.Lifetime, "token-lifetime", 30*24*time.Hour, "requested lifetime of tokens; 0: valid until they are revoked")
	flags.StringVar(&f.only, "only", "", "only one `direction`: core-to-worker or worker-to-core")
	flags.BoolVar(&f.Scheduling, "scheduling", false, "the webhook of the worker runs with --scheduling: also test whether it can read the core's scheduling policies")
	flags.BoolVar(&f.NoCell, "no-cell", false, "do not create or change the Cell")
	flags.BoolVar(&f.SkipCheck, "skip-check", false, "do not test the new kubeconfigs; for addresses that are unreachable from this machine")
	flags.BoolVar(&f.KeepOld, "keep-old", false, "do not revoke previous tokens")
	flags.DurationVar(&f.Grace, "grace", 5*time.Minute, "how long to wait before previous tokens are revoked, while their users switch to the new ones; 0 if a token was stolen")
	flags.StringVar(&f.output, "output", "", "yaml: print the objects instead of writing them into the clusters; the tokens are created nevertheless")
	flags.StringVar(&f.callerValues, "caller-values", "", "`file` for chart values of the worker, with the caller token for its API server's requests to the webhook in the core; the file is secret")
	flags.StringVar(&f.callerSecret, "caller-secret", "breakwater-webhook-callers", "`name` of the Secret with the caller keys of the webhook in the core")
	flags.BoolVar(&f.revoke, "revoke", false, "revoke all tokens, and delete the kubeconfigs and the cell's account that join created; the Cell stays")
	return command
}

func (f *joinFlags) run(ctx context.Context, command *cobra.Command) error {
	joiner, err := f.joiner(command)
	if err != nil {
		return err
	}
	if f.revoke {
		if f.callerValues != "" {
			return errors.New("--caller-values excludes --revoke: rotate the caller key to revoke tokens")
		}
		return joiner.Revoke(ctx)
	}
	if err := joiner.Run(ctx); err != nil || f.callerValues == "" {
		return err
	}
	values, err := joiner.CallerValues(ctx, f.callerSecret)
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.callerValues, values, 0o600); err != nil {
		return fmt.Errorf("--caller-values: %w", err)
	}
	return nil
}

// errNoCell shows a complete command to users who do not know the flags yet.
var errNoCell = errors.New(`--cell is missing: pass the name of the worker's Cell and the kubeconfigs of both clusters, as in
  breakwater join --cell worker-1 --core-kubeconfig core.kubeconfig --kubeconfig worker-1.kubeconfig
breakwater join --help describes all flags`)

func (f *joinFlags) joiner(command *cobra.Command) (*join.Joiner, error) {
	if f.Cell == "" {
		return nil, errNoCell
	}
	f.Only = join.Direction(f.only)
	joiner := &join.Joiner{Out: command.OutOrStdout(), Warn: command.ErrOrStderr()}
	switch {
	case f.output == "yaml" && !f.revoke:
		joiner.Print, joiner.Out = joiner.Out, joiner.Warn
	case f.output != "":
		return nil, fmt.Errorf("--output %q: want yaml, without --revoke", f.output)
	}
	if err := f.Validate(); err != nil {
		return nil, err
	}
	for _, c := range []struct {
		connection *clusters.Connection
		cluster    *join.Cluster
		prefix, ca string
	}{{&f.core, &f.Core, "core-", f.coreCA}, {&f.worker, &f.Worker, "", f.workerCA}} {
		var err error
		if c.cluster.Config, err = connection(c.connection); err != nil {
			return nil, fmt.Errorf("--%skubeconfig: %w", c.prefix, err)
		}
		c.cluster.Context = c.connection.ContextName()
		if c.ca == "" {
			continue
		}
		if c.cluster.CA, err = os.ReadFile(c.ca); err != nil {
			return nil, fmt.Errorf("read the CA of an API server: %w", err)
		}
	}
	joiner.Options = f.Options
	return joiner, nil
}

// connection sets a timeout, because an interactive user waits.
func connection(c *clusters.Connection) (*rest.Config, error) {
	config, err := c.Config("join")
	if err == nil {
		config.Timeout = 30 * time.Second
	}
	return config, err
}
