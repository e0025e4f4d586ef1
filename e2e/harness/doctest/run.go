package doctest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
)

// DefaultTimeout is the default timeout of a page, including commands that are repeated until their output is right.
const DefaultTimeout = time.Minute

// Options is the configuration that a test gives the pages that it runs.
type Options struct {
	// Environments are the environments whose blocks this test runs. Other tests run the other blocks.
	Environments []Environment
	// Folder is the directory in which commands run; empty for a temporary directory of the page.
	Folder string
	// Variables of the environment, "NAME=value".
	Variables []string
	// Prelude is a script that the shell runs first. It defines functions for the preparations of pages.
	Prelude string
	// Hooks are the functions that "do:" in the page refers to. A page fails if it names another one, or does not name all of
	// them.
	Hooks map[string]func(t *testing.T, s *Session)
	// Timeout is the timeout; 0 means the constant Patience.
	Timeout time.Duration
}

// Runs reports whether some block of the page runs in one of the environments.
func (p Page) Runs(all ...Environment) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Run != nil && slices.Contains(all, s.Run.Environment) })
}

// Run runs the steps of the page in order, in one shell. It fails the test at the first step whose result is not as shown.
func (p Page) Run(t *testing.T, setting Options) {
	t.Helper()
	binaries.LogVersionOnFailure(t, "bash")
	if err := p.Try(t, setting); err != nil {
		t.Fatal(err)
	}
}

// Try is Run, but returns an error.
func (p Page) Try(t *testing.T, setting Options) error {
	if !p.Runs(setting.Environments...) {
		return fmt.Errorf("%s has no block to run in %q", p.Path, setting.Environments)
	}
	if unused := p.unusedHooks(setting.Hooks); len(unused) > 0 {
		return fmt.Errorf("%s does not use the hooks %q", p.Path, unused)
	}
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(setting.Timeout, DefaultTimeout))
	defer cancel()
	s, err := Begin(ctx, cmp.Or(setting.Folder, t.TempDir()), setting.Variables)
	if err != nil {
		return err
	}
	defer s.End()
	if err := s.runExpecting(setting.Prelude, 0); err != nil {
		return fmt.Errorf("prelude: %w", err)
	}
	for i, step := range p.Steps {
		if !slices.Contains(setting.Environments, p.environment(i)) {
			continue
		}
		if err := step.run(ctx, t, s, setting); err != nil {
			return fmt.Errorf("%s:%d: %w", p.Path, step.Line, err)
		}
	}
	return nil
}

// environment returns the environment of a step. A step that is not a console block belongs to the next block that runs, or,
// after all of them, to the last.
func (p Page) environment(step int) Environment {
	is := func(s Step) bool { return s.Run != nil && s.Run.Environment != "" }
	if s := p.Steps[step]; s.Run != nil {
		return s.Run.Environment
	}
	if next := slices.IndexFunc(p.Steps[step:], is); next >= 0 {
		return p.Steps[step+next].Run.Environment
	}
	for i := step; i >= 0; i-- {
		if is(p.Steps[i]) {
			return p.Steps[i].Run.Environment
		}
	}
	return ""
}

func (p Page) unusedHooks(hooks map[string]func(*testing.T, *Session)) (unusedHooks []string) {
	for name := range hooks {
		if !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Hook == name }) {
			unusedHooks = append(unusedHooks, name)
		}
	}
	return unusedHooks
}

func (step Step) run(ctx context.Context, t *testing.T, s *Session, setting Options) error {
	switch {
	case step.File != "":
		return s.Write(step.File, step.Content)
	case step.Hook != "":
		hook, ok := setting.Hooks[step.Hook]
		if !ok {
			return fmt.Errorf("the test has no hook %q", step.Hook)
		}
		hook(t, s)
		return nil
	case step.Prepare != "":
		return s.runExpecting("(\nset -e\n"+step.Prepare+"\n)", 0)
	}
	return step.Run.run(ctx, s)
}

func (s *Session) runExpecting(command string, runExpecting int) error {
	out, code, err := s.Do(command)
	if err == nil && code != runExpecting {
		err = fmt.Errorf("exit code %d, want %d", code, runExpecting)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s\n%s", err, command, out)
	}
	return nil
}

func (b *Block) run(ctx context.Context, s *Session) error {
	for i, command := range b.Commands {
		want := 0
		if i == len(b.Commands)-1 {
			want = b.Exit
		}
		if err := b.try(ctx, s, command, want); err != nil {
			return err
		}
	}
	return nil
}

// retryInterval is the interval between two tries of a repeated command.
const retryInterval = 200 * time.Millisecond

func (b *Block) try(ctx context.Context, s *Session, command Command, want int) error {
	complaint := ""
	for {
		out, code, err := s.Do(command.Text)
		if err != nil {
			return fmt.Errorf("line %d: %s\n%w\n%s%s", command.Line, command.Text, err, out, complaint)
		}
		complaint = ""
		switch {
		case code != want:
			complaint = fmt.Sprintf("exit code %d, want %d\n%s", code, want, out)
		case command.Output != "":
			complaint = Compare(command.Output, out, b.Wrapped)
		}
		if complaint == "" {
			return nil
		}
		if !b.Eventually {
			return fmt.Errorf("line %d: %s\n%s", command.Line, command.Text, complaint)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("line %d, retried until the timeout: %s\n%s", command.Line, command.Text, complaint)
		case <-time.After(retryInterval):
		}
	}
}
