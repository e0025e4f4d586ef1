package doctest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Environment is the environment in which commands run.
type Environment string

const (
	// Shell has breakwater, kubectl, helm and the charts, and no cluster. Tests of e2e/operate run it.
	Shell Environment = "shell"
	// Federation has in addition a core and two workers with Breakwater, with the contexts core, worker-1 and worker-2. Tests of
	// e2e/operate run it.
	Federation Environment = "federation"
	// Runbook is a Federation with a fault that a test has injected. Tests of e2e/runbooks run it.
	Runbook Environment = "runbook"
	// Cluster is a cluster without Breakwater, as a reader has one, with kubectl, helm and the charts. e2e/kind runs it with real kubelets, and
	// e2e/charts on a local control plane.
	Cluster Environment = "cluster"
	// Kind is a Cluster of kind, with docker and kind. It also has a checkout, with make and Go. Only e2e/kind runs it.
	Kind Environment = "kind"
	// Tree is a checkout, with make and Go. Only make docs-all runs it, because it takes minutes.
	Tree Environment = "tree"
)

// environments are the environments that pages may name.
var environments = []Environment{Shell, Federation, Runbook, Cluster, Kind, Tree} //nolint:gochecknoglobals // a constant

// Directive is the content of the comment before a console block.
type Directive struct {
	// Environment is where the block runs. If it is empty, the block does not run, and Reason says why.
	Environment Environment
	Reason      string
	// Exit is the expected exit code of the last command. The others must return 0.
	Exit int
	// Eventually repeats each command until its output is as shown.
	Eventually bool
	// Wrapped compares only words, because the page wraps lines that the output does not.
	Wrapped bool
}

// parseDirective parses "run: ENVIRONMENT; OPTION; ..." and "not run: REASON". It returns false for other comments.
func parseDirective(content string) (Directive, bool, error) {
	if reason, ok := strings.CutPrefix(content, "not run:"); ok {
		reason = strings.TrimSpace(reason)
		if reason == "" {
			return Directive{}, false, errors.New("not run: want a reason")
		}
		return Directive{Reason: reason}, true, nil
	}
	rest, ok := strings.CutPrefix(content, "run:")
	if !ok {
		return Directive{}, false, nil
	}
	name, options, _ := strings.Cut(rest, ";")
	d := Directive{Environment: Environment(strings.TrimSpace(name))}
	if !slices.Contains(environments, d.Environment) {
		return Directive{}, false, fmt.Errorf("run: environment %q: want one of %q", d.Environment, environments)
	}
	for option := range strings.SplitSeq(options, ";") {
		if err := d.set(strings.TrimSpace(option)); err != nil {
			return Directive{}, false, err
		}
	}
	return d, true, nil
}

func (d *Directive) set(option string) (err error) {
	if code, ok := strings.CutPrefix(option, "exit:"); ok {
		d.Exit, err = strconv.Atoi(strings.TrimSpace(code))
		return err
	}
	switch option {
	case "":
	case "eventually":
		d.Eventually = true
	case "wrapped":
		d.Wrapped = true
	default:
		return fmt.Errorf("run: option %q: want eventually, wrapped or exit: CODE", option)
	}
	return nil
}
