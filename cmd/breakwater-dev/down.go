package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// downTimeout is how long `dev down` waits for the supervisor to end before it kills it. It is longer than stopTimeout.
const downTimeout = stopTimeout + 10*time.Second

func downCommand(flags *federationFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the federation and remove everything except its logs",
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
		if err := stopSupervisor(ctx, state); err != nil {
			return err
		}
	}
	// The supervisor has done this already, unless it was killed.
	if err := errors.Join(local.Clean(target.dir, false), cleanBreakwater(target.dir)); err != nil {
		return err
	}
	ending, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	for _, cluster := range state.Clusters {
		for _, component := range cluster.Components {
			if err := awaitExit(ending, component.Process); err != nil {
				return fmt.Errorf("%s of cluster %s (process %d) did not exit: %w", component.Name, cluster.Name,
					component.Process.PID, err)
			}
		}
	}
	_, err = fmt.Fprintf(out, "Stopped the federation %s. Its logs are in %s.\n",
		state.Topology, target.dir)
	return err
}

// stopSupervisor asks the supervisor to stop all components, and kills it if that takes too long. Its components die with it.
func stopSupervisor(ctx context.Context, state *local.State) error {
	if err := state.Supervisor.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the supervisor (process %d): %w", state.Supervisor.PID, err)
	}
	waitCtx, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	err := awaitExit(waitCtx, state.Supervisor)
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err := state.Supervisor.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the supervisor (process %d): %w", state.Supervisor.PID, err)
	}
	return awaitExit(ctx, state.Supervisor)
}

// awaitExit polls, because only the parent of a process is notified of its end.
func awaitExit(ctx context.Context, process local.Process) error {
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) { return process.Status() == local.Gone, nil })
}
