package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

func outputWriters() map[string]func(out, log io.Writer, steps []step) error {
	return map[string]func(out, log io.Writer, steps []step) error{
		"table": writeTable, "yaml": writeObjects, "json": writeJSON, "patch": writePatches,
	}
}

// writeTable writes all details as text.
func writeTable(out, _ io.Writer, steps []step) error {
	var all bytes.Buffer
	for i := range steps {
		s := &steps[i]
		if i > 0 {
			all.WriteString("\n")
		}
		fmt.Fprintf(&all, "%s: %d of %s applied\n", s.title, len(s.Outcomes), printable.Count(s.policyCount, "policy"))
		if err := writePolicyTable(&all, s); err != nil {
			return err
		}
		all.WriteString(spreadText(s))
		all.WriteString(conflictText(s, ""))
		switch {
		case s.Refusal != "":
			fmt.Fprintf(&all, "denied: %s\n", s.Refusal)
		case s.Patch == nil:
			all.WriteString("patch: none, the object stays unchanged\n")
		default:
			fmt.Fprintf(&all, "patch: %s\n", s.Patch)
		}
	}
	_, err := out.Write(all.Bytes())
	return err
}

func writePolicyTable(out io.Writer, s *step) error {
	if len(s.Outcomes) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rows := "ORDER\tPOLICY\tPRIORITY\tON CONFLICT\tINJECTS\tCONFLICTS\tSKIPPED\n"
	for i, o := range s.Outcomes {
		injects := cmp.Or(strings.Join(o.Injected, ","), "nothing")
		rows += fmt.Sprintf("%d\t%s\t%d\t%s\t%s\t%d\t%d\n", i+1, qualifiedName(o.Core, o.Policy), o.Spec.Priority, onConflict(o.Policy), injects, len(o.Conflicts), len(o.Skipped))
	}
	if _, err := io.WriteString(table, rows); err != nil {
		return err
	}
	return table.Flush()
}

func onConflict(p *scheduling.Policy) string {
	if p.Spec.ConflictPolicy == "" {
		return "KeepExisting"
	}
	return string(p.Spec.ConflictPolicy)
}

// qualifiedName formats a policy or a protector, with the name of its core cluster if there are several.
func qualifiedName(core string, of fmt.Stringer) string {
	if core == "" {
		return of.String()
	}
	return core + "/" + of.String()
}

// spreadText describes the protectors that spread their pods, one per line.
func spreadText(s *step) string {
	var b strings.Builder
	for _, p := range s.Spreads {
		fmt.Fprintf(&b, "%s spreads by %s: injects %s\n", qualifiedName(p.Core, p), p.Spread.TopologyKey, cmp.Or(strings.Join(p.Injected, ","), "nothing"))
	}
	return b.String()
}

// conflictText says why the webhook is not called, what contradicts policies and spreads, and what is skipped, one per line. Each
// text begins with prefix.
func conflictText(s *step, prefix string) string {
	var b strings.Builder
	if s.skipReason != "" {
		fmt.Fprintf(&b, "webhook not called: %s%s\n", prefix, s.skipReason)
	}
	add := func(by string, effect *scheduling.Effect) {
		for _, c := range effect.Conflicts {
			fmt.Fprintf(&b, "conflict: %s%s: %s\n", prefix, by, printable.Line(fmt.Sprint(c)))
		}
		for _, c := range effect.Skipped {
			fmt.Fprintf(&b, "skipped: %s%s: %s\n", prefix, by, printable.Line(fmt.Sprint(c)))
		}
	}
	for i := range s.Outcomes {
		add(qualifiedName(s.Outcomes[i].Core, s.Outcomes[i]), &s.Outcomes[i].Effect)
	}
	for i := range s.Spreads {
		add(qualifiedName(s.Spreads[i].Core, s.Spreads[i]), &s.Spreads[i].Effect)
	}
	return b.String()
}

// writeObjects writes the objects as the API server would store them, without those that would be denied.
func writeObjects(out, log io.Writer, steps []step) error {
	return writeWithConflicts(out, log, steps, func(s *step) (string, error) {
		if s.Refusal != "" {
			return "", nil
		}
		raw, err := printable.YAML(json.RawMessage(s.after))
		return fmt.Sprintf("---\n# %s, with the additions of %s.\n%s", printable.Line(s.title), printable.Count(len(s.Outcomes), "policy"), raw), err
	})
}

// writePatches writes the JSON patch of each object on one line, [] for none.
func writePatches(out, log io.Writer, steps []step) error {
	return writeWithConflicts(out, log, steps, func(s *step) (string, error) {
		if s.Patch == nil {
			return "[]\n", nil
		}
		return string(printable.JSON(s.Patch)) + "\n", nil
	})
}

// writeWithConflicts writes the text of each step to out, and its conflicts to log.
func writeWithConflicts(out, log io.Writer, steps []step, text func(*step) (string, error)) error {
	var all strings.Builder
	for i := range steps {
		of, err := text(&steps[i])
		if err != nil {
			return err
		}
		all.WriteString(of)
		if _, err := io.WriteString(log, conflictText(&steps[i], steps[i].title+": ")); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, all.String())
	return err
}
