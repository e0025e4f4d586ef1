package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

type statusFlags struct {
	scopeFlags
	output
	auditLog auditLog
	refusing bool
}

func statusCommand(p *plugin) *cobra.Command {
	f := &statusFlags{scopeFlags: scopeFlags{plugin: p}}
	command := &cobra.Command{
		Use:     "status [PROTECTOR]",
		Aliases: []string{"st"},
		Short:   "Show what protectors demand, have and allow",
		Long: `Without a name: a table of the protectors of a namespace, or of all. With one: all there is to know of it, and why it refuses removals, if it
does. All numbers are reckoned as the webhook does for a decision.

A reservation is a removal that was admitted and is not yet seen by the aggregator of its cell. Who asked for it is not recorded with it; the
audit log of the cell's apiserver has that (--audit-log).`,
		Example: `  kubectl breakwater status -A --refusing        # what refuses removals now
  kubectl breakwater status -n shop deployment-web
  kubectl breakwater status -n shop deployment-web -o json`,
		RunE: func(command *cobra.Command, names []string) error {
			return f.run(command.Context(), names)
		},
	}
	f.scopeFlags.bind(command)
	f.output.bind(command)
	f.auditLog.bind(command, "which tells who asked for removals that are under way")
	command.Flags().BoolVar(&f.refusing, "refusing", false, "only protectors that refuse the next removal")
	return command
}

func (f *statusFlags) run(ctx context.Context, names []string) error {
	if err := f.check(); err != nil {
		return err
	}
	of, err := f.scope(names)
	if err != nil {
		return err
	}
	cores, err := f.clusters.Cores(ctx)
	if err != nil {
		return err
	}
	states, failed := fromEach(cores, func(c core) (state, error) { return readState(ctx, c, of.namespace, of.name) })
	if len(states) == 0 {
		return failed
	}
	f.warnOfCells(states)
	all := f.views(states)
	if of.name == "" {
		return cmp.Or(f.writeTable(all, of, len(cores) > 1), without(len(states), failed))
	}
	if len(all) == 0 {
		return cmp.Or(failed, missing(ctx, cores, of))
	}
	return cmp.Or(f.writeEach(ctx, all, states), without(len(states), failed))
}

func (f *statusFlags) views(states []state) (all []status.Protector) {
	now := f.now()
	for i := range states {
		all = append(all, states[i].views(now)...)
	}
	if f.refusing {
		all = slices.DeleteFunc(all, func(v status.Protector) bool { return v.Refuses == "" })
	}
	slices.SortFunc(all, func(a, b status.Protector) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Core, b.Core))
	})
	return all
}

func (p *plugin) warnOfCells(states []state) {
	for i := range states {
		if states[i].cells == nil {
			p.note("you may not list Cells%s, so that it is not known which of them are stale", inCore(states[i].core.Name))
		}
	}
}

func inCore(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" in core %q", name)
}

func (f *statusFlags) writeTable(all []status.Protector, of scope, several bool) error {
	if len(all) == 0 && (f.format == "table" || f.format == "wide") {
		_, err := fmt.Fprintln(f.ErrOut, f.nothing(of))
		return err
	}
	return write(&f.output, f.Out, protectorList{all}, func(l protectorList) string {
		return protectorTable(l.Protectors, tableOptions{namespaces: of.namespace == "", cores: several, wide: f.wide(), now: f.now()}).text(f.coloured(f.Out))
	})
}

// protectorList is the JSON form of protectors.
type protectorList struct {
	Protectors []status.Protector `json:"protectors"`
}

func (f *statusFlags) nothing(of scope) string {
	switch {
	case f.refusing:
		return "No protector refuses the next removal."
	case of.namespace != "":
		return fmt.Sprintf("No PodProtectors in namespace %s. All: kubectl breakwater status -A", of.namespace)
	default:
		return "No PodProtectors: nothing is protected. A ProtectionPolicy makes them for workloads; see docs/concepts.md."
	}
}

func protectorTable(all []status.Protector, o tableOptions) *table {
	t := newTable(o.headings("NAME", "FLOOR", "AVAILABLE", "UNDER WAY", "ALLOWED", "STATE")...)
	if o.wide {
		t = newTable(o.headings("NAME", "FLOOR", "AVAILABLE", "UNDER WAY", "ALLOWED", "STATE", "TOTAL", "CELLS", "FLOOR FROM", "SOURCE", "POLICY", "AGE")...)
	}
	t.alignRight("FLOOR", "AVAILABLE", "UNDER WAY", "ALLOWED", "TOTAL", "CELLS")
	for i := range all {
		v := &all[i]
		state, as := stateText(v)
		row := append(o.leading(v.Namespace, v.Core), cell{v.Name, plain}, cell{number(v.Floor.Pods), plain}, cell{strconv.Itoa(v.Available), plain},
			cell{strconv.Itoa(v.UnderWay), plain}, cell{strconv.Itoa(v.Allowed), plain}, cell{state, as})
		if o.wide {
			row = append(row, cell{strconv.Itoa(v.Total), plain}, cell{strconv.Itoa(len(v.Cells)), plain}, cell{floorText(&v.Floor), plain},
				cell{cmp.Or(v.Source, "-"), plain}, cell{cmp.Or(v.Policy, "-"), plain}, cell{age(o.now, v.Created), plain})
		}
		t.add(row...)
	}
	return t
}

// writeEach writes the protectors with one name. Each core cluster can have one.
func (f *statusFlags) writeEach(ctx context.Context, all []status.Protector, states []state) error {
	var who map[string]string
	if f.auditLog.path != "" {
		var err error
		if who, err = f.whoAsked(); err != nil {
			return err
		}
	}
	if f.format == "json" || f.format == "yaml" {
		return write(&f.output, f.Out, protectorList{all}, nil)
	}
	all, who = printable.Value(all), printable.Value(who)
	for i := range all {
		at := slices.IndexFunc(states, func(s state) bool { return s.core.Name == all[i].Core })
		denials, err := readDenials(ctx, states[at].core, all[i].Namespace, all[i].Name)
		tree := statusTree{
			Protector: &all[i], denials: printable.Value(denial.Group(denial.Since(denials, f.now().Add(-lately)))), unread: err, who: who, whole: f.wide(), now: f.now(),
			width: widthOf(f.Out), coloured: f.coloured(f.Out),
		}
		if _, err := fmt.Fprint(f.Out, tree.text()); err != nil {
			return err
		}
	}
	return nil
}
