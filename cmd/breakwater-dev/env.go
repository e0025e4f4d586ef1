package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/internal/cli"
)

func envCommand(flags *federationFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "env",
		Short: "Print environment variables for using the federation",
		Long: `Print environment variables for using the federation from a shell: a kubeconfig with one context per cluster, the kubeconfigs of
the single clusters as comments, and the folders of kubectl and of its plugin.

  eval "$(breakwater-dev env)"`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			target, err := flags.resolve()
			if err != nil {
				return err
			}
			state, runs, err := target.running()
			if err != nil {
				return err
			}
			if !runs || !state.Usable {
				return target.notRunning()
			}
			_, err = io.WriteString(command.OutOrStdout(), shellEnv(state, target.binaries))
			return err
		},
	}
}

func shellEnv(state *local.State, binaries []string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "export KUBECONFIG=%s\n", cli.ShellWord(state.Kubeconfig))
	if kubectl, ok := local.FindProgram(binaries, "kubectl"); ok {
		fmt.Fprintf(&out, "export PATH=%s:\"$PATH\"\n", cli.ShellWord(filepath.Dir(kubectl)))
	} else {
		fmt.Fprintf(&out, "# No folder of --binaries or $%s contains kubectl: use your own\n", local.BinariesVariable)
	}
	out.WriteString(pluginEnv(state))
	fmt.Fprintln(&out, "# One context per cluster: kubectl --context NAME. Kubeconfigs of single clusters:")
	for _, cluster := range state.Clusters {
		fmt.Fprintf(&out, "#   %s: %s\n", cluster.Name, cluster.Kubeconfig)
	}
	return out.String()
}

// pluginEnv adds the kubectl plugin to PATH, if it was built next to this program, and names the core cluster if there is only one.
func pluginEnv(state *local.State) (env string) {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(self), "kubectl-breakwater")); err != nil {
		return ""
	}
	env = fmt.Sprintf("export PATH=\"$PATH\":%s\n", cli.ShellWord(filepath.Dir(self)))
	var cores []string
	for i := range state.Clusters {
		if slices.Contains(state.Clusters[i].Roles, federation.Core) {
			cores = append(cores, state.Clusters[i].Name)
		}
	}
	if len(cores) == 1 {
		env += fmt.Sprintf("export BREAKWATER_CORE_CONTEXT=%s\n", cli.ShellWord(cores[0]))
	}
	return env
}
