package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/internal/cli"
)

func statusCommand(flags *federationFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: fmt.Sprintf("Show the processes of the federation (exit code %d: no federation)", exitNotRunning),
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			target, err := flags.resolve()
			if err != nil {
				return err
			}
			state, runs, err := target.running()
			switch {
			case err != nil:
				return err
			case !runs && state != nil:
				return cli.ExitError{Code: exitNotRunning, Err: fmt.Errorf("the federation in %s was killed: run `breakwater-dev up%s` to clean "+
					"up and start it again", target.dir, target.repeatFlags)}
			case !runs:
				return target.notRunning()
			}
			return printStatus(command.OutOrStdout(), state, breakwaterStatus(target.dir), time.Now())
		},
	}
}

func printStatus(out io.Writer, state *local.State, breakwater string, now time.Time) error {
	phase := "usable"
	if !state.Usable {
		phase = "starting"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "federation %s: %s, supervisor %d, up %s\n%s\n\n", state.Topology, phase, state.Supervisor.PID,
		uptime(state.Supervisor, now), breakwater)
	fmt.Fprintln(&text, "CLUSTER\tROLES\tSERVER\tCOMPONENT\tPID\tSTATUS\tUP")
	for _, cluster := range state.Clusters {
		roles := make([]string, 0, len(cluster.Roles))
		for _, role := range cluster.Roles {
			roles = append(roles, string(role))
		}
		for _, component := range cluster.Components {
			status, up := component.Process.Status(), "-"
			if status != local.Gone {
				up = uptime(component.Process, now)
			}
			fmt.Fprintf(&text, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", cluster.Name, strings.Join(roles, ","), cluster.Server,
				component.Name, component.Process.PID, status, up)
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(table, text.String()); err != nil {
		return err
	}
	return table.Flush()
}

func uptime(process local.Process, now time.Time) string {
	return now.Sub(process.Started).Round(time.Second).String()
}
