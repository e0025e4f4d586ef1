package status

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
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

type denialsFlags struct {
	plugin.ScopeFlags
	plugin.Output
	auditLog auditLog
	since    time.Duration
	cell     string
}

// DenialsCommand returns the command denials.
func DenialsCommand(p *plugin.Plugin) *cobra.Command {
	f := &denialsFlags{ScopeFlags: plugin.ScopeFlags{Plugin: p}}
	command := &cobra.Command{
		Use:     "denials [PROTECTOR]",
		Aliases: []string{"denied"},
		Short:   "Show denied removals and break-glass removals, and which users requested them",
		Long: `Shows denied removals and break-glass removals. The command reads them from events in the core clusters, or, with --audit-log, from the
audit log of a cell's API server. It groups equal denials into one line. A denial without a responsible protector is an event on the Cell.

In a deletion storm, each replica of the webhook writes one event per protector every 10 seconds, and five events per second for all protectors. An
event contains the number of further denials. API servers keep events for an hour by default. The counts from events are therefore lower bounds (+); ` +
			`an audit log contains all denials.`,
		Example: `  kubectl breakwater denials -A --since 10m
  kubectl breakwater denials -n shop deployment-web -o wide
  kubectl breakwater denials -A --audit-log /var/log/kubernetes/audit.log`,
		RunE: func(command *cobra.Command, names []string) error { return f.run(command.Context(), names) },
	}
	f.ScopeFlags.Bind(command)
	f.Output.Bind(command)
	f.auditLog.bind(command, "read instead of events")
	flags := command.Flags()
	flags.DurationVar(&f.since, "since", time.Hour, "maximum age (how long `ago`); 0 shows all")
	flags.StringVar(&f.cell, "cell", "", "only denials in the cell of this `name`, and audit log entries that do not name a cell")
	_ = command.RegisterFlagCompletionFunc("cell", p.CompleteCells)
	return command
}

// denialList is the JSON form of denials.
type denialList struct {
	Denials []denial.Denial `json:"denials"`
}

func (f *denialsFlags) run(ctx context.Context, names []string) error {
	if err := f.Check(); err != nil {
		return err
	}
	of, err := f.Scope(names)
	if err != nil {
		return err
	}
	all, read, several, failed := f.read(ctx, of)
	if failed != nil && read == 0 {
		return failed
	}
	if f.since > 0 {
		all = denial.Since(all, f.Now().Add(-f.since))
	}
	return cmp.Or(f.writeDenials(denial.Group(all), of, several), plugin.IncompleteError(read, failed))
}

// read reads the events of the core clusters, or an audit log.
func (f *denialsFlags) read(ctx context.Context, of plugin.Scope) (all []denial.Denial, read int, several bool, err error) {
	if f.auditLog.path != "" {
		all, err := f.readAudit(of)
		return all, 0, false, err
	}
	cores, err := f.Clusters.Cores(ctx)
	if err != nil {
		return nil, 0, false, err
	}
	answers, failed := plugin.FromEachCore(cores, func(c plugin.Core) ([]denial.Denial, error) { return plugin.ReadDenials(ctx, c, of.Namespace, of.Name) })
	all = slices.DeleteFunc(slices.Concat(answers...), func(d denial.Denial) bool { return f.cell != "" && d.Cell != f.cell })
	return all, len(answers), len(cores) > 1, failed
}

func (f *denialsFlags) writeDenials(all []denial.Denial, of plugin.Scope, several bool) error {
	if len(all) == 0 && f.IsTable() {
		_, err := fmt.Fprintln(f.ErrOut, f.emptyMessage(of))
		return err
	}
	o := plugin.TableOptions{Namespaces: of.Namespace == "", Cores: several, Wide: f.Wide(), Now: f.Now()}
	return plugin.Write(&f.Output, f.Out, denialList{all}, func(l denialList) string { return denialTable(l.Denials, o).Text() })
}

func (f *denialsFlags) emptyMessage(of plugin.Scope) string {
	where := "in any namespace"
	if of.Namespace != "" {
		where = strings.TrimSuffix("for "+of.Namespace+"/"+of.Name, "/")
	}
	if f.since > 0 {
		where += " in the last " + duration.HumanDuration(f.since)
	}
	source := "events. API servers keep events for an hour by default; an audit log (--audit-log) contains all denials."
	if f.auditLog.path != "" {
		source = "the audit log. The log must be from an API server that calls Breakwater, with level Metadata or higher."
	}
	return "No removal was denied or overridden " + where + ", according to " + source
}

func denialTable(all []denial.Denial, o plugin.TableOptions) *plugin.Table {
	t := plugin.NewTable(o.Row("NAMESPACE", "CORE", []string{"LAST", "COUNT", "VERDICT", "PROTECTOR", "CELL", "PODS", "ASKED BY"},
		"FIRST", "OPERATION", "MESSAGE")...)
	t.AlignRight("COUNT")
	names := 1
	if o.Wide {
		names = 4
	}
	for i := range all {
		d := &all[i]
		verdict, as := cmp.Or(d.Verdict, "?"), plugin.Warn
		switch {
		case d.Forced:
			verdict, as = "OVERRIDDEN "+verdict, plugin.Bad
		case d.Trial:
			verdict, as = verdict+" (trial)", plugin.Soft
		}
		cells := []string{
			plugin.Ago(o.Now, d.Last), countText(d), as.Of(verdict), cmp.Or(d.Protector, "-"), cmp.Or(d.Cell, "?"), cmp.Or(podsText(d, names), "?"), cmp.Or(d.User, "?"),
		}
		t.Add(o.Row(d.Namespace, d.Core, cells, plugin.Ago(o.Now, d.First), cmp.Or(d.Operation, "?"), d.Message)...)
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

// podsText names at most limit pods, the most recent first.
func podsText(d *denial.Denial, limit int) string {
	named := d.Pods[:min(limit, len(d.Pods))]
	text := strings.Join(named, ", ")
	if more := len(d.Pods) - len(named) + d.MorePods; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
