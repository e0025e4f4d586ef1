// Package doctor contains the commands that check clusters: doctor reads all clusters of an installation and lets the package judge judge them, and
// check runs before an installation.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

type doctorFlags struct {
	*plugin.Plugin
	plugin.Output
	cells   []string
	checks  []string
	timeout time.Duration
}

// Exit codes of doctor.
const (
	exitProblem    = 1
	exitIncomplete = 2
)

// Command returns the command doctor.
func Command(p *plugin.Plugin) *cobra.Command {
	f := &doctorFlags{Plugin: p}
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check all parts of Breakwater, and report problems with their remedies",
		Long: `Checks every core cluster and the cluster of every cell. The command writes nothing. Each finding has a verdict:

  problem   pods are not protected, or removals are denied although budget exists
  unknown   the check could not be completed
  warning   a part needs attention, but floors hold
  ok        no problem; shown with -o wide

Checks in core clusters: CustomResourceDefinitions and their version; Cells and their aggregators; protectors that deny more removals than
necessary, or that do not exist; objects that wait for finalizers of Breakwater; whether the API server calls the webhook for protectors that name
a workload (a dry run creates a second protector for the same workload); ClusterRings with their shards, sharder and webhook.
Checks in clusters of cells: webhook configurations for removals and for scheduling policies; the webhook's response to the API server (a dry run
evicts a pod that does not exist); exempt namespaces that have protectors; workloads whose label breakwater.dev/protect has no effect there;
protectors that cover running pods of Jobs, which repeat work when they are suspended and resumed.
Checks in both: labels and annotations of Breakwater that are misspelt; certificates and caBundles; pods, versions and permissions of components; ` +
			`your own permissions; clocks.

The exit code is 0 without problems, 1 with a problem, and 2 without problems if a check could not be completed.`,
		Example: `  kubectl breakwater doctor
  kubectl breakwater doctor --cell worker-1 -o json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	f.Output.Bind(command)
	flags := command.Flags()
	flags.StringArrayVar(&f.cells, "cell", nil, "check only the cluster of this `cell`, and the core clusters; may be repeated")
	flags.StringSliceVar(&f.checks, "check", nil, "run only these `checks`: "+strings.Join(findings.Checks(), ", "))
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "timeout of all checks, which run concurrently; "+
		"a cluster that does not answer within --request-timeout (5s) ends its own checks")
	_ = command.RegisterFlagCompletionFunc("cell", p.CompleteCells)
	_ = command.RegisterFlagCompletionFunc("check", cobra.FixedCompletions(findings.Checks(), cobra.ShellCompDirectiveNoFileComp))
	return command
}

// diagnosis is the JSON form of findings.
type diagnosis struct {
	Verdict  findings.Verdict   `json:"verdict"`
	Findings []findings.Finding `json:"findings"`
}

func (f *doctorFlags) run(ctx context.Context) error {
	if err := f.Check(); err != nil {
		return err
	}
	for _, name := range f.checks {
		if !slices.Contains(findings.Checks(), name) {
			return cli.ExitError{Code: exitIncomplete, Err: fmt.Errorf("--check %q: want some of %s", name, strings.Join(findings.Checks(), ", "))}
		}
	}
	reading, err := f.read(ctx)
	if err != nil {
		return cli.ExitError{Code: exitIncomplete, Err: err}
	}
	all := findings.OfChecks(findings.Judge(reading), f.checks)
	findings.SortByVerdict(all)
	worst := findings.Worst(all)
	if err := plugin.Write(&f.Output, f.Out, diagnosis{worst, all}, func(d diagnosis) string { return f.findings(d.Findings) }); err != nil {
		return err
	}
	switch worst {
	case findings.Problem:
		return cli.ExitError{Code: exitProblem, Err: fmt.Errorf("problems found (%s)", verdictCounts(all))}
	case findings.Unknown:
		return cli.ExitError{Code: exitIncomplete, Err: fmt.Errorf("some checks could not be completed (%s)", verdictCounts(all))}
	}
	return nil
}

// verdictCounts counts verdicts, from worst to best.
func verdictCounts(all []findings.Finding) string {
	var parts []string
	for _, v := range []findings.Verdict{findings.Problem, findings.Unknown, findings.Warning, findings.OK} {
		n := 0
		for i := range all {
			if all[i].Verdict == v {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", v, n))
		}
	}
	return strings.Join(parts, ", ")
}

// findings formats the findings that are not OK, with remedies, and missing permissions once for each cluster. With -o wide it formats all.
func (f *doctorFlags) findings(all []findings.Finding) string {
	shown, passed := slices.Clone(all), 0
	if !f.Wide() {
		shown = slices.DeleteFunc(shown, func(one findings.Finding) bool { return one.Verdict == findings.OK })
		passed = len(all) - len(shown)
		shown = findings.MergeForbidden(shown)
	}
	text := ""
	for i := range shown {
		text += f.finding(&shown[i])
	}
	if passed > 0 {
		text += printable.Count(passed, "check") + " found no problem; -o wide shows them.\n"
	}
	return text
}

func (f *doctorFlags) finding(one *findings.Finding) string {
	as := map[findings.Verdict]plugin.Style{
		findings.OK: plugin.Good, findings.Warning: plugin.Warn, findings.Unknown: plugin.Warn, findings.Problem: plugin.Bad,
	}[one.Verdict]
	const indent = "  "
	text := as.Of(strings.ToUpper(string(one.Verdict))) + "  " + plugin.Strong.Of(one.Where+": "+one.Check) + "\n"
	lines := []string{one.Found}
	if one.Do != "" {
		lines = append(lines, "-> "+one.Do)
	}
	if one.Runbook != "" {
		lines = append(lines, plugin.RunbookHint(one.Runbook))
	}
	for _, line := range lines {
		for _, part := range plugin.Wrap(line, max(0, plugin.WidthOf(f.Out)-len(indent)), 0) {
			text += indent + part + "\n"
		}
	}
	return text
}
