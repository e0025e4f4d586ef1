package main

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// explained is the JSON form of a step.
type explained struct {
	Object   string            `json:"object"`
	NotAsked string            `json:"notAsked,omitempty"`
	Policies []explainedPolicy `json:"policies"`
	Spreads  []explainedSpread `json:"spreads,omitempty"`
	Refusal  string            `json:"refusal,omitempty"`
	Patch    json.RawMessage   `json:"patch,omitempty"`
}

type explainedPolicy struct {
	Policy     string `json:"policy"`
	Priority   int32  `json:"priority"`
	OnConflict string `json:"conflictPolicy"`
	explainedEffect
}

type explainedSpread struct {
	Protector   string `json:"protector"`
	TopologyKey string `json:"topologyKey"`
	explainedEffect
}

type explainedEffect struct {
	Injected  []string            `json:"injected,omitempty"`
	Conflicts []explainedConflict `json:"conflicts,omitempty"`
	Skipped   []explainedConflict `json:"skipped,omitempty"`
}

func effectOf(from *scheduling.Effect) explainedEffect {
	to := explainedEffect{Injected: from.Injected}
	for _, c := range from.Conflicts {
		to.Conflicts = append(to.Conflicts, explainedConflict(c))
	}
	for _, c := range from.Skipped {
		to.Skipped = append(to.Skipped, explainedConflict(c))
	}
	return to
}

type explainedConflict struct {
	Field  string `json:"field"`
	Has    string `json:"has"`
	Wants  string `json:"wants"`
	Reason string `json:"why"`
}

// writeJSON writes all details as a JSON array with one element per step.
func writeJSON(out, _ io.Writer, steps []step) error {
	all := []explained{}
	for i := range steps {
		s := &steps[i]
		e := explained{Object: s.title, NotAsked: s.skipReason, Policies: []explainedPolicy{}, Refusal: s.Refusal, Patch: s.Patch}
		for i := range s.Outcomes {
			o := &s.Outcomes[i]
			e.Policies = append(e.Policies, explainedPolicy{qualifiedName(o.Core, o), o.Spec.Priority, onConflict(o.Policy), effectOf(&o.Effect)})
		}
		for i := range s.Spreads {
			p := &s.Spreads[i]
			e.Spreads = append(e.Spreads, explainedSpread{qualifiedName(p.Core, p), p.Spread.TopologyKey, effectOf(&p.Effect)})
		}
		all = append(all, e)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return err
	}
	_, err := out.Write(printable.JSON(text.Bytes()))
	return err
}
