package commands

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// writeManifests writes the result as input for kubectl apply.
func writeManifests(w io.Writer, result *convert.Result) error {
	for i := range result.Protectors {
		p := &result.Protectors[i]
		manifest, err := p.Manifest()
		if err != nil {
			return err
		}
		raw, err := printable.YAML(manifest)
		if err != nil {
			return fmt.Errorf("write the conversion of %s: %w", p.From, err)
		}
		if _, err := fmt.Fprintf(w, "---\n# From %s.\n%s", printable.Line(formatRef(p.From)), raw); err != nil {
			return err
		}
	}
	return nil
}

// warningKey is the key by which warnings are grouped.
type warningKey struct {
	title        string
	reason       convert.Reason
	message      string
	notConverted bool
}

// warningText formats the warnings, each distinct message once, those about unconverted objects first. It also returns the number of
// messages that are not accepted.
func warningText(warnings []convert.Warning, accepted []convert.Reason) (text string, unaccepted int) {
	var order []warningKey
	about := map[warningKey][]convert.Ref{}
	for _, warning := range warnings {
		key := warningKey{warning.About.Title, warning.Reason, warning.Message, warning.NotConverted}
		if about[key] == nil {
			order = append(order, key)
		}
		about[key] = append(about[key], warning.About)
	}
	rank := map[bool]int{true: -1}
	slices.SortStableFunc(order, func(a, b warningKey) int { return cmp.Compare(rank[a.notConverted], rank[b.notConverted]) })
	for _, key := range order {
		word := "warning"
		if slices.Contains(accepted, key.reason) {
			word = "accepted"
		} else {
			unaccepted++
		}
		if key.notConverted {
			word += ": not converted"
		}
		text += fmt.Sprintf("%s: %s: %s: %s\n", word, key.reason, objectNames(about[key]), key.message)
	}
	return text, unaccepted
}

// objectNames names the objects of a warning, at most three of them individually.
func objectNames(about []convert.Ref) string {
	if len(about) == 1 {
		return formatRef(about[0])
	}
	var names []string
	for _, ref := range about[:min(3, len(about))] {
		names = append(names, ref.ID())
	}
	suffix := ""
	if more := len(about) - len(names); more > 0 {
		suffix = fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s (%s%s), each", printable.Count(len(about), about[0].Title), strings.Join(names, ", "), suffix)
}

// formatRef formats an object and where it was read.
func formatRef(ref convert.Ref) string {
	if ref.Origin == "" {
		return ref.String()
	}
	return ref.String() + " in " + ref.Origin
}

// conversionNotes describes what was skipped and what was converted.
func conversionNotes(sources []convert.Source, result *convert.Result) []string {
	var notes []string
	kinds := map[string]int{}
	for _, ref := range result.Skipped {
		kinds[ref.Title]++
	}
	var skipped []string
	for _, title := range slices.Sorted(maps.Keys(kinds)) {
		skipped = append(skipped, fmt.Sprintf("%d %s", kinds[title], title))
	}
	if len(skipped) > 0 {
		notes = append(notes, "skipped objects that are not converted: "+strings.Join(skipped, ", "))
	}
	return append(notes, fmt.Sprintf("%s created from %s", printable.Count(len(result.Protectors), "PodProtector"), printable.Count(len(sources)-len(result.Skipped), "object")))
}
