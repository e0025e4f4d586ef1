package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

const (
	// frameInterval is the minimum time between two frames on a terminal. lineInterval is the minimum time between two lines of one protector.
	frameInterval = 250 * time.Millisecond
	lineInterval  = 200 * time.Millisecond
	// cpuDivisor limits the CPU use to 1/cpuDivisor of a CPU core: with thousands of protectors, frames and lines are less frequent.
	cpuDivisor = 20
)

type watchFlags struct {
	plugin.ScopeFlags
}

// WatchCommand returns the command watch.
func WatchCommand(p *plugin.Plugin) *cobra.Command {
	f := &watchFlags{plugin.ScopeFlags{Plugin: p}}
	command := &cobra.Command{
		Use:   "watch [PROTECTOR]",
		Short: "Watch protectors live: available pods, floors, budgets, reservations and denials",
		Long: `Draws protectors on a terminal, those with the least budget first, until you press q or ctrl-c. For a single protector it shows all cells,
reservations and denials. If the output is not a terminal, the command prints a line for each change.`,
		Example: `  kubectl breakwater watch -A
  kubectl breakwater watch -n shop deployment-web
  kubectl breakwater watch -n shop deployment-web | tee storm.log`,
		RunE: func(command *cobra.Command, names []string) error { return f.run(command.Context(), names) },
	}
	f.Bind(command)
	return command
}

func (f *watchFlags) run(ctx context.Context, names []string) error {
	of, cores, states, failed := f.ReadStates(ctx, names)
	if len(states) == 0 {
		return failed
	}
	if of.Name != "" && !slices.ContainsFunc(states, func(s plugin.CoreState) bool { return len(s.Protectors) > 0 }) {
		return plugin.ProtectorNotFound(of)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := newWatchState(of, len(cores) > 1)
	for _, c := range cores {
		b.startWatches(ctx, c)
	}
	out, ok := plugin.Underneath(f.Out).(*os.File)
	in, okToo := f.In.(*os.File)
	if ok && okToo && term.IsTerminal(int(out.Fd())) && term.IsTerminal(int(in.Fd())) && os.Getenv("TERM") != "dumb" {
		return f.draw(ctx, b, in, out)
	}
	return f.printChanges(ctx, b)
}

// printChanges writes a line for each change, until ctx ends or a write fails.
func (f *watchFlags) printChanges(ctx context.Context, b *watchState) error {
	printed := map[string]string{}
	for {
		began := time.Now()
		for _, line := range b.changes(printed, f.Now()) {
			if _, err := fmt.Fprintln(f.Out, line); err != nil {
				return nil // the reader closed the pipe
			}
		}
		if !sleep(ctx, interval(lineInterval, time.Since(began))) {
			return nil
		}
	}
}

// interval returns the time to wait after work that took the given time.
func interval(every, took time.Duration) time.Duration { return max(every, (cpuDivisor-1)*took) }

// sleep waits. It returns false if ctx ends.
func sleep(ctx context.Context, interval time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(interval):
		return true
	}
}

// draw draws on a terminal until the user presses q or ctrl-c. It restores the terminal at the end.
func (f *watchFlags) draw(ctx context.Context, b *watchState, in, out *os.File) (err error) {
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return fmt.Errorf("read keys from the terminal: %w", err)
	}
	defer func() { err = errors.Join(err, term.Restore(int(in.Fd()), before)) }()
	if _, err := io.WriteString(out, "\x1b[?1049h\x1b[?25l"); err != nil { // alternate screen, hidden cursor
		return err
	}
	defer func() { _, _ = io.WriteString(out, "\x1b[?25h\x1b[?1049l") }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		waitForQuit(in)
		cancel()
	}()
	for {
		began := time.Now()
		width, height, err := term.GetSize(int(out.Fd()))
		if err != nil {
			return err
		}
		screen := screenText(b.frame(width, height, f.Now()))
		if !f.Colored(out) {
			screen = plugin.WithoutStyles(screen)
		}
		if _, err := io.WriteString(out, screen); err != nil {
			return err
		}
		if !sleep(ctx, interval(frameInterval, time.Since(began))) {
			return nil
		}
	}
}

// screenText formats lines that overwrite the screen without flicker.
func screenText(lines []string) string {
	text := "\x1b[H"
	for i, line := range lines {
		if i > 0 {
			text += "\r\n"
		}
		text += line + "\x1b[K"
	}
	return text + "\x1b[J"
}

// waitForQuit reads keys until q, Q, ctrl-c, ctrl-d or the end of the input.
func waitForQuit(in io.Reader) {
	keys := make([]byte, 16)
	for {
		n, err := in.Read(keys)
		for _, key := range keys[:n] {
			if key == 'q' || key == 'Q' || key == 3 || key == 4 {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
