package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/internal/convert"
)

// writeManifests writes the protectors for kubectl apply.
func writeManifests(w io.Writer, protectors []convert.Protector) error {
	for i := range protectors {
		manifest, err := protectors[i].Manifest()
		if err != nil {
			return err
		}
		raw, err := yaml.Marshal(manifest)
		if err != nil {
			return fmt.Errorf("write PodProtector %s: %w", protectors[i].Name, err)
		}
		if _, err := fmt.Fprintf(w, "---\n# From %s.\n%s", place(protectors[i].From), raw); err != nil {
			return err
		}
	}
	return nil
}

// alike is what warnings have in common that are told of together.
type alike struct {
	title   string
	reason  convert.Reason
	message string
	lost    bool
}

// warningText tells what differs, each sentence once, first of what was not converted. It returns how many of the
// sentences are not accepted as well.
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

// whom names those whom a warning is about, the first three of them by name.
func whom(about []convert.Ref) string {
	if len(about) == 1 {
		return place(about[0])
	}
	var names []string
	for _, ref := range about[:min(3, len(about))] {
		names = append(names, ref.ID())
	}
	rest := ""
	if more := len(about) - len(names); more > 0 {
		rest = fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%d %ss (%s%s), each", len(about), about[0].Title, strings.Join(names, ", "), rest)
}

// place is an object and where it was read.
func place(ref convert.Ref) string {
	if ref.Origin == "" {
		return ref.String()
	}
	return ref.String() + " in " + ref.Origin
}

// conversionNotes tells what was skipped, and what came of the rest.
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
	return append(notes, fmt.Sprintf("%s made of %s", count(len(result.Protectors), "PodProtector"), count(len(sources)-len(result.Skipped), "object")))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
