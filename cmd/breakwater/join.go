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
		Short: "Give a core and a worker cluster the way into each other",
		Long: `Join makes what Breakwater's components in a core and in a worker need to reach each other:

  in the core    Secret cell-<cell> with a kubeconfig of the worker, and a Cell that names it
  in the worker  Secret core-<core> with a kubeconfig of the core

Each has a token of a ServiceAccount that may do the least that is needed: in the worker the one that the chart makes for that
(access.enabled: true), in the core one of the cell's own, breakwater-access-<cell>, which join makes and binds to a ClusterRole of
the chart. Policies of the chart confine it to the entries of its cell. Tokens are valid for 30 days, unless --token-lifetime says
otherwise: run join again before. A token is revoked by deleting the Secret that it is bound to in the cluster that it is for,
labelled breakwater.dev/joined-by=token. Run by an administrator of both clusters.

No kubeconfig is written before it has been tried from here. Run again it makes new tokens, and ends the former
ones --grace later. It never moves a Cell to another cluster, and leaves all but spec.kubeconfigSecretRef of one as it is. A
Cell of a part of the cluster is made before, since its part cannot be changed.`,
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
	flags.StringVar(&f.Cell, "cell", "", "`name` of the Cell that the worker is, or is to be (required)")
	flags.StringVar(&f.CoreName, "core", "core", "`name` by which the worker knows the core")
	flags.StringVarP(&f.Namespace, "namespace", "n", defaultNamespace, "`namespace` of Breakwater, in both clusters")
	flags.StringVar(&f.ServiceAccount, "service-account", "breakwater-access", "`name` of the ServiceAccount for the core's components in the worker; with -<cell> after it, of the worker's in the core")
	flags.StringVar(&f.Identity, "identity", "", "`name` of another cell of the same worker, whose ServiceAccount in the core is this one's too (default: --cell)")
	flags.StringVar(&f.Core.Server, "core-server", "", "`URL` by which the worker reaches the core's apiserver (default: that of --core-kubeconfig)")
	flags.StringVar(&f.Worker.Server, "worker-server", "", "`URL` by which the core reaches the worker's apiserver (default: that of --kubeconfig)")
	flags.StringVar(&f.coreCA, "core-ca", "", "PEM `file` of the CA that vouches for --core-server (default: that of --core-kubeconfig)")
	flags.StringVar(&f.workerCA, "worker-ca", "", "PEM `file` of the CA that vouches for --worker-server (default: that of --kubeconfig)")
	flags.DurationVar(&f.Lifetime, "token-lifetime", 30*24*time.Hour, "ask for tokens that are valid so long; 0: until they are revoked")
	flags.StringVar(&f.only, "only", "", "one `direction` alone: core-to-worker or worker-to-core")
	flags.BoolVar(&f.Scheduling, "scheduling", false, "the webhook of the worker runs with --scheduling: try whether it could read the core's scheduling policies, too")
	flags.BoolVar(&f.NoCell, "no-cell", false, "do not make or change the Cell")
	flags.BoolVar(&f.SkipCheck, "skip-check", false, "do not try the new kubeconfigs; for addresses that cannot be reached from here")
	flags.BoolVar(&f.KeepOld, "keep-old", false, "leave former tokens valid")
	flags.DurationVar(&f.Grace, "grace", 5*time.Minute, "how long to wait before former tokens are ended, while those who have them take up the new ones; 0 if one was stolen")
	flags.StringVar(&f.output, "output", "", "yaml: print what would be written into the clusters; the tokens are made all the same")
	flags.StringVar(&f.callerValues, "caller-values", "", "`file` to write values of the chart for the worker to, with the caller token by which its API server asks the webhook in the core; it is a secret")
	flags.StringVar(&f.callerSecret, "caller-secret", "breakwater-webhook-callers", "`name` of the Secret with the caller keys of the webhook in the core")
	flags.BoolVar(&f.revoke, "revoke", false, "end all tokens and delete the kubeconfigs and the account of the cell that join has made; the Cell stays")
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

func (f *joinFlags) joiner(command *cobra.Command) (*join.Joiner, error) {
	f.Only = join.Direction(f.only)
	joiner := &join.Joiner{Out: command.OutOrStdout(), Warn: command.ErrOrStderr()}
	switch {
	case f.output == "yaml" && !f.revoke:
		joiner.Print, joiner.Out = joiner.Out, joiner.Warn
	case f.output != "":
		return nil, fmt.Errorf("--output %q: want yaml, and not with --revoke", f.output)
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
		if c.ca == "" {
			continue
		}
		if c.cluster.CA, err = os.ReadFile(c.ca); err != nil {
			return nil, fmt.Errorf("the CA of an apiserver: %w", err)
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
