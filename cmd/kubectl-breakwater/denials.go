package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

type denialsFlags struct {
	scopeFlags
	output
	auditLog auditLog
	since    time.Duration
	cell     string
}

func denialsCommand(p *plugin) *cobra.Command {
	f := &denialsFlags{scopeFlags: scopeFlags{plugin: p}}
	command := &cobra.Command{
		Use:     "denials [PROTECTOR]",
		Aliases: []string{"denied"},
		Short:   "Show which removals were refused, or forced, and who asked for them",
		Long: `Shows removals that were refused, and those that somebody forced. They are read from events in the core clusters, or, with --audit-log,
from the audit log of a cell's apiserver. Equal ones are one line. A refusal that no protector is to blame for is an event on the Cell.

A storm makes no more than an event in 10 seconds for each protector, which tells how many others there were, and an apiserver keeps events
for an hour unless told otherwise. So there were at least as many as events tell (+); an audit log has all of them.`,
		Example: `  kubectl breakwater denials -A --since 10m
  kubectl breakwater denials -n shop deployment-web -o wide
  kubectl breakwater denials -A --audit-log /var/log/kubernetes/audit.log`,
		RunE: func(command *cobra.Command, names []string) error {
			return f.run(command.Context(), names)
		},
	}
	f.scopeFlags.bind(command)
	f.output.bind(command)
	f.auditLog.bind(command, "which is read in place of events")
	flags := command.Flags()
	flags.DurationVar(&f.since, "since", time.Hour, "how long `ago` at most; 0 is all")
	flags.StringVar(&f.cell, "cell", "", "only what is in the cell of this `name`, and in an audit log what does not tell its cell")
	_ = command.RegisterFlagCompletionFunc("cell", p.completeCells)
	return command
}

// denialList is the JSON form of denials.
type denialList struct {
	Denials []denial.Denial `json:"denials"`
}

func (f *denialsFlags) run(ctx context.Context, names []string) error {
	if err := f.check(); err != nil {
		return err
	}
	of, err := f.scope(names)
	if err != nil {
		return err
	}
	all, read, several, failed := f.read(ctx, of)
	if failed != nil && read == 0 {
		return failed
	}
	if f.since > 0 {
		all = denial.Since(all, f.now().Add(-f.since))
	}
	return cmp.Or(f.writeDenials(denial.Group(all), of, several), without(read, failed))
}

// read reads the events of the core clusters, or an audit log.
func (f *denialsFlags) read(ctx context.Context, of scope) (all []denial.Denial, read int, several bool, err error) {
	if f.auditLog.path != "" {
		all, err := f.readAudit(of)
		return all, 0, false, err
	}
	cores, err := f.clusters.Cores(ctx)
	if err != nil {
		return nil, 0, false, err
	}
	answers, failed := fromEach(cores, func(c core) ([]denial.Denial, error) { return readDenials(ctx, c, of.namespace, of.name) })
	all = slices.DeleteFunc(slices.Concat(answers...), func(d denial.Denial) bool { return f.cell != "" && d.Cell != f.cell })
	return all, len(answers), len(cores) > 1, failed
}

func (f *denialsFlags) writeDenials(all []denial.Denial, of scope, several bool) error {
	if len(all) == 0 && (f.format == "table" || f.format == "wide") {
		_, err := fmt.Fprintln(f.ErrOut, f.nothing(of))
		return err
	}
	o := tableOptions{namespaces: of.namespace == "", cores: several, wide: f.wide(), now: f.now()}
	return write(&f.output, f.Out, denialList{all}, func(l denialList) string { return denialTable(l.Denials, o).text(f.coloured(f.Out)) })
}

func (f *denialsFlags) nothing(of scope) string {
	where := "in any namespace"
	if of.namespace != "" {
		where = "in namespace " + of.namespace
	}
	if of.name != "" {
		where = fmt.Sprintf("by PodProtector %s/%s", of.namespace, of.name)
	}
	when := "in the last " + duration.HumanDuration(f.since)
	switch f.since {
	case 0:
		when = "ever"
	case time.Hour:
		when = "in the last hour"
	}
	if f.auditLog.path != "" {
		return fmt.Sprintf("Nothing was refused or forced %s %s, as the audit log has it. It must be of an apiserver that asks Breakwater, and of level Metadata at least.", where, when)
	}
	return fmt.Sprintf("Nothing was refused or forced %s %s, as far as events tell: an apiserver keeps them for an hour, and an audit log (--audit-log) has all.", where, when)
}

func denialTable(all []denial.Denial, o tableOptions) *table {
	t := newTable(o.headings("LAST", "COUNT", "VERDICT", "PROTECTOR", "CELL", "PODS", "ASKED BY")...)
	if o.wide {
		t = newTable(o.headings("LAST", "FIRST", "COUNT", "VERDICT", "OPERATION", "PROTECTOR", "CELL", "PODS", "ASKED BY", "MESSAGE")...)
	}
	t.alignRight("COUNT")
	for i := range all {
		d := &all[i]
		verdict := cell{cmp.Or(d.Verdict, "?"), warn}
		switch {
		case d.Forced:
			verdict = cell{"FORCED over " + verdict.text, bad}
		case d.Trial:
			verdict = cell{verdict.text + " (trial)", soft}
		}
		names := 1
		if o.wide {
			names = 4
		}
		row := append(o.leading(d.Namespace, d.Core), cell{ago(o.now, d.Last), plain})
		if o.wide {
			row = append(row, cell{ago(o.now, d.First), plain})
		}
		row = append(row, cell{countText(d), plain}, verdict)
		if o.wide {
			row = append(row, cell{cmp.Or(d.Operation, "?"), plain})
		}
		row = append(row, cell{cmp.Or(d.Protector, "-"), plain}, cell{cmp.Or(d.Cell, "?"), plain}, cell{cmp.Or(podsText(d, names), "?"), plain}, cell{cmp.Or(d.User, "?"), plain})
		if o.wide {
			row = append(row, cell{d.Message, plain})
		}
		t.add(row...)
	}
	return t
}

// countText formats the number of denials; + means at least.
func countText(d *denial.Denial) string {
	if d.AtLeast {
		return strconv.Itoa(d.Count) + "+"
	}
	return strconv.Itoa(d.Count)
}

// podsText names at most most pods, the most recent first.
func podsText(d *denial.Denial, most int) string {
	named := d.Pods[:min(most, len(d.Pods))]
	text := strings.Join(named, ", ")
	if more := len(d.Pods) - len(named) + d.MorePods; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
