package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

func upCommand(flags *federationFlags) *cobra.Command {
	var bare, shares bool
	command := &cobra.Command{
		Use:   "up",
		Short: "Start a federation with Breakwater in the background and wait until it is usable",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			target, err := flags.resolve()
			if err != nil {
				return err
			}
			if !bare {
				if target.breakwater, err = componentProgram(); err != nil {
					return err
				}
			}
			target.shares = shares
			return up(command.Context(), command.OutOrStdout(), target)
		},
	}
	command.Flags().BoolVar(&bare, "bare", false, "do not start Breakwater: only its CustomResourceDefinitions are installed")
	command.Flags().BoolVar(&shares, "shares", false, "let PodProtectors with coreOutage: LocalShare have shares in the workers")
	command.MarkFlagsMutuallyExclusive("bare", "shares")
	return command
}

func up(ctx context.Context, out io.Writer, target federationTarget) error {
	state, runs, err := target.running()
	switch {
	case err != nil:
		return err
	case runs && !state.Usable:
		return fmt.Errorf("a federation is being started in %s by process %d: wait for it, or stop it with "+
			"`breakwater-dev down`", target.dir, state.Supervisor.PID)
	case runs:
		_, err := fmt.Fprintf(out, "The federation %s already runs in %s (process %d).\n", state.Topology, target.dir,
			state.Supervisor.PID)
		return err
	case state != nil:
		if _, err := fmt.Fprintf(out, "An earlier federation in %s was killed: cleaning up after it.\n", target.dir); err != nil {
			return err
		}
	}
	names := make([]string, 0, len(target.topology.Clusters))
	for _, cluster := range target.topology.Clusters {
		names = append(names, cluster.Name)
	}
	content := " with Breakwater"
	if target.breakwater == "" {
		content = " without Breakwater"
	}
	if _, err := fmt.Fprintf(out, "Starting the federation %s%s: %s.\n", target.topology.Name, content, strings.Join(names, ", ")); err != nil {
		return err
	}
	began := time.Now()
	if err := startSupervisor(ctx, target); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, `It is usable after %.1f s; logs and kubeconfigs are in %s.

  eval "$(%[3]s env%[4]s)"    # KUBECONFIG with a context for each cluster, and kubectl
  kubectl --context %[5]s get nodes,pods -A
  kubectl breakwater console --context %[6]s    # the page with protectors, cells and denials
  %[3]s status%[4]s
  %[3]s down%[4]s
`, time.Since(began).Seconds(), target.dir, os.Args[0], target.repeatFlags, names[len(names)-1], coreName(target.topology))
	return err
}

// coreName returns the name of the first core cluster, which is also its context.
func coreName(topology *federation.Topology) string {
	for _, cluster := range topology.Clusters {
		if cluster.HasRole(federation.Core) {
			return cluster.Name
		}
	}
	return ""
}

// startSupervisor starts this program as a supervisor in its own session, so that it outlives this command and its terminal.
func startSupervisor(ctx context.Context, target federationTarget) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the path of this program: %w", err)
	}
	if err := local.Claim(target.dir); err != nil {
		return err
	}
	logPath := filepath.Join(target.dir, "supervisor.log")
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the supervisor's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	result, resultWriter, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create a pipe: %w", err)
	}
	defer func() { _ = result.Close() }()
	cmd := exec.Command(self, "supervise", "--topology="+target.source, "--dir="+target.dir, "--breakwater="+target.breakwater,
		"--shares="+strconv.FormatBool(target.shares), "--binaries="+strings.Join(target.binaries, string(filepath.ListSeparator)))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{resultWriter} // resultDescriptor
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = resultWriter.Close() // the supervisor keeps its end, which closes when it dies
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	return awaitStart(ctx, cmd, result, logPath)
}

// awaitStart reads the supervisor's result. Ctrl-C ends the supervisor as well.
func awaitStart(ctx context.Context, cmd *exec.Cmd, result *os.File, logPath string) error {
	stopWaiting := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stopWaiting()
	var message startResult
	err := json.NewDecoder(result).Decode(&message)
	switch {
	case err != nil:
		return fmt.Errorf("the supervisor ended without a result (%w): %w; see %s", err, cmd.Wait(), logPath)
	case message.Error != "":
		_ = cmd.Wait() // the message contains its error
		return errors.New(message.Error)
	case ctx.Err() != nil:
		return errors.Join(context.Cause(ctx), cmd.Wait())
	}
	return cmd.Process.Release()
}
