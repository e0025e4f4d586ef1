package commands

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// writeManifests writes the result as input for kubectl apply, protectors first.
func writeManifests(w io.Writer, result *convert.Result) error {
	for i := range result.Protectors {
		p := &result.Protectors[i]
		if err := writeManifest(w, p.From, p.Manifest); err != nil {
			return err
		}
	}
	for i := range result.Policies {
		p := &result.Policies[i]
		if err := writeManifest(w, p.From, p.Manifest); err != nil {
			return err
		}
	}
	return nil
}

func writeManifest(w io.Writer, from convert.Ref, of func() (map[string]any, error)) error {
	manifest, err := of()
	if err != nil {
		return err
	}
	raw, err := printable.YAML(manifest)
	if err != nil {
		return fmt.Errorf("write what was made from %s: %w", from, err)
	}
	_, err = fmt.Fprintf(w, "---\n# From %s.\n%s", printable.Line(Place(from)), raw)
	return err
}

// alike is the key by which warnings are grouped.
type alike struct {
	title   string
	reason  convert.Reason
	message string
	lost    bool
}

// warningText formats the warnings, each distinct message once, those about unconverted objects first. It also returns the number of
// messages that are not accepted.
func warningText(warnings []convert.Warning, accepted []convert.Reason) (text string, open int) {
	var order []alike
	about := map[alike][]convert.Ref{}
	for _, warning := range warnings {
		key := alike{warning.About.Title, warning.Reason, warning.Message, warning.Lost}
		if about[key] == nil {
			order = append(order, key)
		}
		about[key] = append(about[key], warning.About)
	}
	slices.SortStableFunc(order, func(a, b alike) int {
		switch {
		case a.lost == b.lost:
			return 0
		case a.lost:
			return -1
		default:
			return 1
		}
	})
	for _, key := range order {
		word := "warning"
		if slices.Contains(accepted, key.reason) {
			word = "accepted"
		} else {
			open++
		}
		if key.lost {
			word += ": not converted"
		}
		text += fmt.Sprintf("%s: %s: %s: %s\n", word, key.reason, whom(about[key]), key.message)
	}
	return text, open
}

// whom names the objects of a warning, at most three of them individually.
func whom(about []convert.Ref) string {
	if len(about) == 1 {
		return Place(about[0])
	}
	var names []string
	for _, ref := range about[:min(3, len(about))] {
		names = append(names, ref.ID())
	}
	rest := ""
	if more := len(about) - len(names); more > 0 {
		rest = fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s (%s%s), each", Count(len(about), about[0].Title), strings.Join(names, ", "), rest)
}

// Place formats an object and where it was read.
func Place(ref convert.Ref) string {
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
		notes = append(notes, "skipped what is not converted: "+strings.Join(skipped, ", "))
	}
	made := Count(len(result.Protectors), "PodProtector")
	if n := len(result.Policies); n > 0 {
		made += " and " + Count(n, "scheduling policy")
	}
	return append(notes, fmt.Sprintf("%s made of %s", made, Count(len(sources)-len(result.Skipped), "object")))
}

// Count formats a number of things, such as 2 policies.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, found := strings.CutSuffix(what, "y"); found {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	return fmt.Sprintf("%d %ss", n, what)
}
