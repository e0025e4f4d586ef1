package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// downPatience is how long `dev down` waits for the supervisor to end before it kills it. It is longer than stopPatience.
const downPatience = stopPatience + 10*time.Second

func downCommand(flags *federationFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the federation and remove all but its logs",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			target, err := flags.resolve()
			if err != nil {
				return err
			}
			return down(command.Context(), command.OutOrStdout(), target)
		},
	}
}

func down(ctx context.Context, out io.Writer, target federationTarget) error {
	state, runs, err := target.running()
	switch {
	case err != nil:
		return err
	case state == nil:
		_, err := fmt.Fprintf(out, "No federation runs in %s.\n", target.dir)
		return err
	case runs:
		if err := endSupervisor(ctx, state); err != nil {
			return err
		}
	}
	// The supervisor has done this already, unless it was killed.
	if err := local.Clean(target.dir, false); err != nil {
		return err
	}
	ending, cancel := context.WithTimeout(ctx, downPatience)
	defer cancel()
	for _, cluster := range state.Clusters {
		for _, component := range cluster.Components {
			if err := awaitGone(ending, component.Process); err != nil {
				return fmt.Errorf("%s of cluster %s (process %d) does not end: %w", component.Name, cluster.Name,
					component.Process.PID, err)
			}
		}
	}
	_, err = fmt.Fprintf(out, "The federation %s is down, nothing of it runs any more. Its logs are in %s.\n",
		state.Topology, target.dir)
	return err
}

// endSupervisor asks the supervisor to stop all components, and kills it if that takes too long. Its components die with it.
func endSupervisor(ctx context.Context, state *local.State) error {
	if err := state.Supervisor.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("end the supervisor (process %d): %w", state.Supervisor.PID, err)
	}
	patience, cancel := context.WithTimeout(ctx, downPatience)
	defer cancel()
	err := awaitGone(patience, state.Supervisor)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err := state.Supervisor.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the supervisor (process %d): %w", state.Supervisor.PID, err)
	}
	return awaitGone(ctx, state.Supervisor)
}

// awaitGone polls, because only the parent of a process is notified of its end.
func awaitGone(ctx context.Context, process local.Process) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for process.Status() != local.Gone {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}
