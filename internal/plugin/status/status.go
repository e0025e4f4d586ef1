// Package status contains the commands that show protectors, Cells and denials: status, cells, denials and watch.
package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

type statusFlags struct {
	plugin.ScopeFlags
	plugin.Output
	auditLog auditLog
	denying  bool
}

// Command returns the command status.
func Command(p *plugin.Plugin) *cobra.Command {
	f := &statusFlags{ScopeFlags: plugin.ScopeFlags{Plugin: p}}
	command := &cobra.Command{
		Use:     "status [PROTECTOR]",
		Aliases: []string{"st"},
		Short:   "Show the floors, counts and budgets of protectors",
		Long: `Without a name, the command prints a table of the protectors of a namespace, or of all namespaces. With a name it prints all details of the
protector, and why it denies removals. It computes all numbers like a decision of the webhook.

A reservation is an admitted removal that the cell's aggregator has not yet seen. Reservations do not record the user; the audit log of the cell's
API server does (--audit-log).`,
		Example: `  kubectl breakwater status -A --refusing        # protectors that deny removals now
  kubectl breakwater status -n shop deployment-web
  kubectl breakwater status -n shop deployment-web -o json`,
		RunE: func(command *cobra.Command, names []string) error { return f.run(command.Context(), names) },
	}
	f.ScopeFlags.Bind(command)
	f.Output.Bind(command)
	f.auditLog.bind(command, "which contains the users who requested the removals under way")
	command.Flags().BoolVar(&f.denying, "refusing", false, "only protectors that deny the next removal")
	return command
}

func (f *statusFlags) run(ctx context.Context, names []string) error {
	if err := f.Check(); err != nil {
		return err
	}
	of, cores, states, failed := f.ReadStates(ctx, names)
	if len(states) == 0 {
		return failed
	}
	f.warnAboutCells(states)
	all := f.views(states)
	if of.Name == "" {
		return cmp.Or(f.writeTable(all, alarmsOf(states, f.Now()), of, len(cores) > 1), plugin.IncompleteError(len(states), failed))
	}
	if len(all) == 0 {
		return cmp.Or(failed, plugin.ProtectorNotFound(of))
	}
	return cmp.Or(f.writeEach(ctx, all, states), plugin.IncompleteError(len(states), failed))
}

func (f *statusFlags) views(states []plugin.CoreState) (all []status.Protector) {
	now := f.Now()
	for i := range states {
		all = append(all, states[i].Views(now)...)
	}
	if f.denying {
		all = slices.DeleteFunc(all, func(v status.Protector) bool { return v.Denies == "" })
	}
	slices.SortFunc(all, func(a, b status.Protector) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Core, b.Core))
	})
	return all
}

func (f *statusFlags) warnAboutCells(states []plugin.CoreState) {
	for i := range states {
		if states[i].Cells == nil {
			f.Note("you may not list Cells%s, so stale counts are not marked: ask for permission to list cells, or use --as", plugin.InCore(states[i].Core.Name))
		}
	}
}

func (f *statusFlags) writeTable(all []status.Protector, alarms []status.Alarm, of plugin.Scope, several bool) error {
	if len(all) == 0 && f.IsTable() {
		_, err := fmt.Fprintln(f.ErrOut, f.emptyMessage(of)+alarmText(alarms, plugin.WidthOf(f.ErrOut)))
		return err
	}
	return plugin.Write(&f.Output, f.Out, protectorList{all, alarms}, func(l protectorList) string {
		return protectorTable(l.Protectors, plugin.TableOptions{Namespaces: of.Namespace == "", Cores: several, Wide: f.Wide(), Now: f.Now()}).Text() +
			alarmText(l.Alarms, plugin.WidthOf(f.Out))
	})
}

// protectorList is the JSON form of protectors.
type protectorList struct {
	Protectors []status.Protector `json:"protectors"`
	// Alarms are the problems of cells. The details of one protector have none.
	Alarms []status.Alarm `json:"alarms,omitempty"`
}

func (f *statusFlags) emptyMessage(of plugin.Scope) string {
	switch {
	case f.denying:
		return "No protector denies the next removal."
	case of.Namespace != "":
		return fmt.Sprintf("No PodProtectors in namespace %s. List all: kubectl breakwater status -A. If a workload has the label %s, "+
			"find out why it has no effect: kubectl breakwater doctor", of.Namespace, v1alpha1.LabelProtect)
	default:
		return "No PodProtectors: nothing is protected. Create a ProtectionPolicy to generate them for workloads; see docs/concepts/overview.md."
	}
}

func protectorTable(all []status.Protector, o plugin.TableOptions) *plugin.Table {
	t := plugin.NewTable(o.Row("NAMESPACE", "CORE", []string{"NAME", "FLOOR", "AVAILABLE", "UNDER WAY", "ALLOWED", "STATE"},
		"TOTAL", "CELLS", "FLOOR FROM", "SOURCE", "POLICY", "AGE")...)
	t.AlignRight("FLOOR", "AVAILABLE", "UNDER WAY", "ALLOWED", "TOTAL", "CELLS")
	for i := range all {
		v := &all[i]
		state, as := stateText(v)
		cells := []string{v.Name, plugin.NumberText(v.Floor.Pods), strconv.Itoa(v.Available), strconv.Itoa(v.UnderWay), strconv.Itoa(v.Allowed), as.Of(state)}
		t.Add(o.Row(v.Namespace, v.Core, cells, strconv.Itoa(v.Total), strconv.Itoa(len(v.Cells)), v.Floor.Text(), cmp.Or(v.Source, "-"), cmp.Or(v.Policy, "-"),
			plugin.Age(o.Now, v.Created))...)
	}
	return t
}

// writeEach writes the protectors with one name. Each core cluster can have one.
func (f *statusFlags) writeEach(ctx context.Context, all []status.Protector, states []plugin.CoreState) error {
	var requesters map[string]string
	if f.auditLog.path != "" {
		var err error
		if requesters, err = f.requesters(); err != nil {
			return err
		}
	}
	if !f.IsTable() {
		return plugin.Write(&f.Output, f.Out, protectorList{Protectors: all}, nil)
	}
	shown := printable.Value(all) // with other names of cores, if these have control characters
	requesters = printable.Value(requesters)
	for i := range all {
		at := slices.IndexFunc(states, func(s plugin.CoreState) bool { return s.Core.Name == all[i].Core })
		denials, err := plugin.ReadDenials(ctx, states[at].Core, all[i].Namespace, all[i].Name)
		tree := statusTree{
			Protector: &shown[i], denials: printable.Value(denial.Group(denial.Since(denials, f.Now().Add(-recentPeriod)))), denialsErr: err,
			requesters: requesters, showAll: f.Wide(), now: f.Now(),
			width: plugin.WidthOf(f.Out),
		}
		if _, err := fmt.Fprint(f.Out, tree.text()); err != nil {
			return err
		}
	}
	return nil
}
