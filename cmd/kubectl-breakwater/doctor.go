package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/doctor"
)

type doctorFlags struct {
	*plugin
	output
	cells   []string
	checks  []string
	timeout time.Duration
}

// Exit codes of doctor.
const (
	exitProblem = 1
	exitUnseen  = 2
)

func doctorCommand(p *plugin) *cobra.Command {
	f := &doctorFlags{plugin: p}
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Look whether all parts of Breakwater are as they should be, and say what to do",
		Long: `Looks at every core cluster and at the cluster of every cell, writes nothing, and gives each thing a verdict:

  problem   pods are not guarded, or removals are refused that have budget
  unknown   it could not be looked at
  warning   it is not as it should be; floors hold
  ok        all else, which -o wide shows

In core clusters: CustomResourceDefinitions and their version, Cells and who counts them, protectors that refuse what they need not or that are gone,
objects that wait for finalizers of Breakwater, whether the apiserver asks about protectors that name a workload (by a second one for the workload of
one that is there, as a dry run), ClusterRings: their shards, their sharder and how the apiserver asks it. In the clusters of cells: webhook
configurations of removals and of scheduling policies, the webhook's answer to the apiserver (by an eviction, as a dry run, of a pod that is not
there), namespaces that are exempt and have protectors. In both: certificates and caBundles, pods, versions and rights of components, your own
rights, and clocks.

The exit code is 0 if there is no problem, 1 if there is one, and 2 if there is none but something could not be looked at.`,
		Example: `  kubectl breakwater doctor
  kubectl breakwater doctor --cell worker-1 -o json`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	f.output.bind(command)
	flags := command.Flags()
	flags.StringArrayVar(&f.cells, "cell", nil, "look at the cluster of this `cell` alone, besides core clusters; may be repeated")
	flags.StringSliceVar(&f.checks, "check", nil, "judge by these `checks` alone: "+strings.Join(doctor.Checks(), ", "))
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long each look at a cluster may take; they are taken at the same time")
	_ = command.RegisterFlagCompletionFunc("cell", p.completeCells)
	_ = command.RegisterFlagCompletionFunc("check", cobra.FixedCompletions(doctor.Checks(), cobra.ShellCompDirectiveNoFileComp))
	return command
}

// diagnosis is the JSON form of findings.
type diagnosis struct {
	Verdict  doctor.Verdict   `json:"verdict"`
	Findings []doctor.Finding `json:"findings"`
}

func (f *doctorFlags) run(ctx context.Context) error {
	if err := f.output.check(); err != nil {
		return err
	}
	for _, name := range f.checks {
		if !slices.Contains(doctor.Checks(), name) {
			return exitError{exitUnseen, fmt.Errorf("--check %q: want some of %s", name, strings.Join(doctor.Checks(), ", "))}
		}
	}
	reading, err := f.read(ctx)
	if err != nil {
		return exitError{exitUnseen, err}
	}
	all := doctor.Of(doctor.Judge(reading), f.checks)
	doctor.Order(all)
	worst := doctor.Worst(all)
	if err := write(&f.output, f.Out, diagnosis{worst, all}, func(d diagnosis) string { return f.findings(d.Findings) }); err != nil {
		return err
	}
	switch worst {
	case doctor.Problem:
		return exitError{exitProblem, fmt.Errorf("not all is well (%s)", tally(all))}
	case doctor.Unknown:
		return exitError{exitUnseen, fmt.Errorf("not all could be looked at (%s)", tally(all))}
	}
	return nil
}

// tally counts verdicts, from worst to best.
func tally(all []doctor.Finding) string {
	var parts []string
	for _, v := range []doctor.Verdict{doctor.Problem, doctor.Unknown, doctor.Warning, doctor.OK} {
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

// findings formats the findings that are not OK, with remedies. With -o wide it formats all.
func (f *doctorFlags) findings(all []doctor.Finding) string {
	coloured := f.coloured(f.Out)
	shown := slices.Clone(all)
	if !f.wide() {
		shown = slices.DeleteFunc(shown, func(one doctor.Finding) bool { return one.Verdict == doctor.OK })
	}
	text := ""
	for i := range shown {
		text += f.finding(&shown[i], coloured)
	}
	if well := len(all) - len(shown); well > 0 {
		text += count(well, "check") + " found nothing wrong: -o wide shows them.\n"
	}
	return text
}

func (f *doctorFlags) finding(one *doctor.Finding, coloured bool) string {
	as := map[doctor.Verdict]paint{doctor.OK: good, doctor.Warning: warn, doctor.Unknown: warn, doctor.Problem: bad}[one.Verdict]
	const indent = "  "
	text := as.on(strings.ToUpper(string(one.Verdict)), coloured) + "  " + strong.on(one.Where+": "+one.Check, coloured) + "\n"
	said := []string{one.Found}
	if one.Do != "" {
		said = append(said, "-> "+one.Do)
	}
	if one.Runbook != "" {
		said = append(said, "-> docs/runbooks/"+one.Runbook+".md")
	}
	for _, line := range said {
		for _, part := range wrap(line, max(0, widthOf(f.Out)-len(indent)), 0) {
			text += indent + part + "\n"
		}
	}
	return text
}
