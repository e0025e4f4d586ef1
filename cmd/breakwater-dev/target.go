package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/internal/cli"
)

const (
	defaultTopology = "federated"
	// exitNotRunning is the exit code of a command that needs a running federation.
	exitNotRunning = 3
)

type federationFlags struct {
	topology string
	dir      string
	binaries string
}

func (f *federationFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&f.topology, "topology", defaultTopology,
		"`name` of a topology ("+strings.Join(federation.EmbeddedNames(), ", ")+"), or the path of a topology file")
	flags.StringVar(&f.dir, "dir", "", "`folder` for kubeconfigs, logs and data (default .federation/TOPOLOGY)")
	flags.StringVar(&f.binaries, "binaries", os.Getenv(local.BinariesVariable),
		"`folders` of the control planes' programs, separated as in PATH; the default is $"+local.BinariesVariable)
}

// federationTarget is the resolved form of the flags: a topology and its folder.
type federationTarget struct {
	topology    *federation.Topology
	source      string // name or absolute path of the topology
	dir         string // absolute
	binaries    []string
	breakwater  string // the program of Breakwater's components; empty to start none
	shares      bool   // whether the workers can have shares of floors
	repeatFlags string // flags, quoted for a shell, with which other commands select the same federation
}

func (f *federationFlags) resolve() (federationTarget, error) {
	topology, err := loadTopology(f.topology)
	if err != nil {
		return federationTarget{}, fmt.Errorf("--topology: %w", err)
	}
	target := federationTarget{
		topology: topology,
		source:   f.topology,
		dir:      filepath.Join(".federation", topology.Name),
		binaries: filepath.SplitList(f.binaries),
	}
	if f.topology != defaultTopology {
		target.repeatFlags += " --topology " + cli.ShellWord(f.topology)
	}
	if f.dir != "" {
		target.dir = f.dir
		target.repeatFlags += " --dir " + cli.ShellWord(f.dir)
	}
	if target.dir, err = filepath.Abs(target.dir); err != nil {
		return federationTarget{}, fmt.Errorf("--dir: %w", err)
	}
	if isPath(f.topology) {
		if target.source, err = filepath.Abs(f.topology); err != nil {
			return federationTarget{}, fmt.Errorf("--topology: %w", err)
		}
	}
	return target, nil
}

// isPath reports whether an argument looks like a path. Otherwise it is a name.
func isPath(topology string) bool {
	return strings.ContainsRune(topology, filepath.Separator) || filepath.Ext(topology) != ""
}

func loadTopology(nameOrFile string) (*federation.Topology, error) {
	if isPath(nameOrFile) {
		return federation.LoadTopology(nameOrFile)
	}
	return federation.Embedded(nameOrFile)
}

// running reads the state of the federation in the folder and reports whether it runs. If it does not, the state is that of a killed
// supervisor, or nil.
func (t federationTarget) running() (*local.State, bool, error) {
	state, err := local.ReadState(t.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w: remove the folder if no federation runs in it", err)
	}
	return state, state.Supervisor.Status() != local.Gone, nil
}

func (t federationTarget) notRunning() error {
	return cli.ExitError{Code: exitNotRunning, Err: fmt.Errorf("no federation runs in %s: start one with `breakwater-dev up%s`", t.dir, t.repeatFlags)}
}
