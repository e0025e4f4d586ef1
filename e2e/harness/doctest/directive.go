package doctest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Environment is what commands are run in.
type Environment string

const (
	// Shell has breakwater, kubectl, helm and the charts, and no cluster. Tests of e2e/operate run it.
	Shell Environment = "shell"
	// Federation has a core and two workers besides, of the contexts core, worker-1 and worker-2, with Breakwater. Tests of e2e/operate
	// run it.
	Federation Environment = "federation"
	// Runbook is a Federation in which a test has broken something. Tests of e2e/runbooks run it.
	Runbook Environment = "runbook"
	// Tree is a checkout, with make and Go. make docs-all runs it, and nothing else does: it takes minutes.
	Tree Environment = "tree"
)

// environments are those that pages may name.
var environments = []Environment{Shell, Federation, Runbook, Tree} //nolint:gochecknoglobals // a constant

// Directive is what the comment before a console block says about it.
type Directive struct {
	// Environment is where it is run; empty if it is not, and then Reason says why.
	Environment Environment
	Reason      string
	// Exit is the exit code of the last command; the others have 0.
	Exit int
	// Eventually has each command repeated until its output is as shown.
	Eventually bool
	// Wrapped compares words alone: the page breaks lines where the output has none.
	Wrapped bool
}

// parseDirective understands "run: ENVIRONMENT; OPTION; ..." and "not run: REASON". It is false for other comments.
func parseDirective(said string) (Directive, bool, error) {
	if reason, ok := strings.CutPrefix(said, "not run:"); ok {
		reason = strings.TrimSpace(reason)
		if reason == "" {
			return Directive{}, false, errors.New("not run: want a reason")
		}
		return Directive{Reason: reason}, true, nil
	}
	rest, ok := strings.CutPrefix(said, "run:")
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
