package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

const (
	// resultDescriptor is the file descriptor on which the supervisor reports the result of the start to `breakwater-dev up`.
	resultDescriptor = 3
	// stopTimeout is how long the supervisor waits for components to stop before it kills them.
	stopTimeout = 15 * time.Second
)

// startResult is the message on resultDescriptor.
type startResult struct {
	Error string `json:"error,omitempty"`
}

// superviseCommand is the background process of `breakwater-dev up`. It is the parent of all components, which die with it.
func superviseCommand(flags *federationFlags) *cobra.Command {
	var breakwater string
	var shares bool
	command := &cobra.Command{
		Use:    "supervise",
		Short:  "Run a federation until SIGTERM; `breakwater-dev up` starts this command in the background",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			target, err := flags.resolve()
			if err != nil {
				return err
			}
			target.breakwater, target.shares = breakwater, shares
			return supervise(command.Context(), target, os.NewFile(resultDescriptor, "result"))
		},
	}
	command.Flags().BoolVar(&shares, "shares", false, "let the workers have shares")
	command.Flags().StringVar(&breakwater, "breakwater", "", "`path` of the program of Breakwater's components")
	return command
}

func supervise(ctx context.Context, target federationTarget, result *os.File) error {
	log := logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
	f, err := local.Start(ctx, target.topology, local.Options{Binaries: target.binaries, Dir: target.dir, Log: log})
	if err != nil {
		return errors.Join(err, reportStart(result, err))
	}
	breakwater, err := startBreakwater(ctx, f, target, log)
	if reportErr := reportStart(result, err); reportErr != nil && err == nil {
		log.Error(reportErr, "Lost the waiting command, continuing")
	}
	if err == nil {
		// The federation logs each death of a component but continues: its user may want to see how the rest behaves.
		<-ctx.Done()
	}
	log.Info("Stopping federation")
	breakwater.stop()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(err, f.Stop(stop))
}

func reportStart(result *os.File, err error) error {
	if result == nil {
		return nil
	}
	defer func() { _ = result.Close() }()
	var message startResult
	if err != nil {
		message.Error = err.Error()
	}
	if err := json.NewEncoder(result).Encode(message); err != nil {
		return fmt.Errorf("report the result of the start: %w", err)
	}
	return nil
}
