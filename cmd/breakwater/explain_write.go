package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/breakwater-k8s/breakwater/internal/cli/commands"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// explanations maps the formats of --output to writers.
func explanations() map[string]func(out, log io.Writer, steps []step) error {
	return map[string]func(out, log io.Writer, steps []step) error{
		"table": tableOfSteps, "yaml": objectsOfSteps, "json": jsonOfSteps, "patch": patchesOfSteps,
	}
}

// tableOfSteps writes all details as text.
func tableOfSteps(out, _ io.Writer, steps []step) error {
	var all bytes.Buffer
	for i := range steps {
		s := &steps[i]
		if i > 0 {
			all.WriteString("\n")
		}
		fmt.Fprintf(&all, "%s: %d of %s for it\n", s.title, len(s.Outcomes), commands.Count(s.of, "policy"))
		if err := tableOfPolicies(&all, s); err != nil {
			return err
		}
		all.WriteString(spreads(s))
		all.WriteString(clashes(s, ""))
		switch {
		case s.Refusal != "":
			fmt.Fprintf(&all, "refused: %s\n", s.Refusal)
		case s.Patch == nil:
			all.WriteString("patch: none, nothing is changed\n")
		default:
			fmt.Fprintf(&all, "patch: %s\n", s.Patch)
		}
	}
	_, err := out.Write(all.Bytes())
	return err
}

func tableOfPolicies(out io.Writer, s *step) error {
	if len(s.Outcomes) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rows := "ORDER\tPOLICY\tPRIORITY\tON CONFLICT\tINJECTS\tCONFLICTS\tSKIPPED\n"
	for i, o := range s.Outcomes {
		injects := cmp.Or(strings.Join(o.Injected, ","), "nothing")
		rows += fmt.Sprintf("%d\t%s\t%d\t%s\t%s\t%d\t%d\n", i+1, named(o.Core, o.Policy), o.Spec.Priority, onConflict(o.Policy), injects, len(o.Conflicts), len(o.Skipped))
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

// named formats a policy or a protector, with the name of its core cluster if there are several.
func named(core string, of fmt.Stringer) string {
	if core == "" {
		return of.String()
	}
	return core + "/" + of.String()
}

// spreads describes the protectors that spread their pods, one per line.
func spreads(s *step) string {
	var b strings.Builder
	for _, p := range s.Spreads {
		fmt.Fprintf(&b, "%s spreads by %s: injects %s\n", named(p.Core, p), p.Spread.TopologyKey, cmp.Or(strings.Join(p.Injected, ","), "nothing"))
	}
	return b.String()
}

// clashes says why the webhook is not called, what contradicts policies and spreads, and what is skipped, one per line. whom is a prefix
// of the text.
func clashes(s *step, whom string) string {
	var b strings.Builder
	if s.unasked != "" {
		fmt.Fprintf(&b, "not asked: %s%s\n", whom, s.unasked)
	}
	tell := func(by string, effect *scheduling.Effect) {
		for _, c := range effect.Conflicts {
			fmt.Fprintf(&b, "conflict: %s%s: %s\n", whom, by, printable.Line(fmt.Sprint(c)))
		}
		for _, c := range effect.Skipped {
			fmt.Fprintf(&b, "skipped: %s%s: %s\n", whom, by, printable.Line(fmt.Sprint(c)))
		}
	}
	for i := range s.Outcomes {
		tell(named(s.Outcomes[i].Core, s.Outcomes[i]), &s.Outcomes[i].Effect)
	}
	for i := range s.Spreads {
		tell(named(s.Spreads[i].Core, s.Spreads[i]), &s.Spreads[i].Effect)
	}
	return b.String()
}

// objectsOfSteps writes the objects as the API server would store them, without those that would be denied.
func objectsOfSteps(out, log io.Writer, steps []step) error {
	return withClashes(out, log, steps, func(s *step) (string, error) {
		if s.Refusal != "" {
			return "", nil
		}
		raw, err := printable.YAML(json.RawMessage(s.after))
		return fmt.Sprintf("---\n# %s, and what %s may add.\n%s", printable.Line(s.title), commands.Count(len(s.Outcomes), "policy"), raw), err
	})
}

// patchesOfSteps writes the JSON patch of each object on one line, [] for none.
func patchesOfSteps(out, log io.Writer, steps []step) error {
	return withClashes(out, log, steps, func(s *step) (string, error) {
		if s.Patch == nil {
			return "[]\n", nil
		}
		return string(printable.JSON(s.Patch)) + "\n", nil
	})
}

// withClashes writes the text of each step to out, and the clashes to log.
func withClashes(out, log io.Writer, steps []step, text func(*step) (string, error)) error {
	var all strings.Builder
	for i := range steps {
		of, err := text(&steps[i])
		if err != nil {
			return err
		}
		all.WriteString(of)
		if _, err := io.WriteString(log, clashes(&steps[i], steps[i].title+": ")); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, all.String())
	return err
}
