package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// changes returns lines for the differences from the last text in told.
func (b *board) changes(told map[string]string, now time.Time) (lines []string) {
	s := b.look(now)
	clock := now.Format("15:04:05")
	there := map[string]bool{}
	tell := func(id, text string) {
		if there[id] = true; told[id] != text {
			told[id] = text
			lines = append(lines, clock+"  "+text)
		}
	}
	slices.SortFunc(s.protectors, func(a, b status.Protector) int {
		return strings.Compare(idOf(a.Core, a.Namespace, a.Name), idOf(b.Core, b.Namespace, b.Name))
	})
	for i := range s.protectors {
		v := &s.protectors[i]
		id := idOf(v.Core, v.Namespace, v.Name)
		state, _ := stateText(v)
		text := fmt.Sprintf("%s  available %d  floor %s  under way %d  budget %s  allowed %d  refused %d  %s",
			strings.TrimPrefix(id, "/"), v.Available, number(v.Floor.Pods), v.UnderWay, number(v.Budget), v.Allowed, s.refused[id], state)
		tell(id, text)
	}
	for _, trouble := range s.trouble {
		tell("trouble "+trouble, trouble)
	}
	for id := range told {
		if there[id] {
			continue
		}
		delete(told, id)
		if gone, isTrouble := strings.CutPrefix(id, "trouble "); isTrouble {
			lines = append(lines, clock+"  over: "+gone)
		} else {
			lines = append(lines, clock+"  "+strings.TrimPrefix(id, "/")+"  is gone")
		}
	}
	return lines
}

// frame returns the lines for a terminal of that size.
func (b *board) frame(width, height int, coloured bool, now time.Time) []string {
	s := b.look(now)
	title := "kubectl breakwater watch"
	if b.of.namespace != "" {
		title += "  " + b.of.namespace
	}
	end := now.Format("15:04:05") + "  q quits"
	lines := []string{strong.on(clip(title, width), coloured)}
	if gap := width - utf8.RuneCountInString(title) - len(end); gap > 0 {
		lines[0] += strings.Repeat(" ", gap) + soft.on(end, coloured)
	}
	for _, trouble := range s.trouble {
		lines = append(lines, bad.on(clip(trouble, width), coloured))
	}
	lines = append(lines, "")
	if b.of.name != "" {
		for i := range s.protectors {
			lines = append(lines, fit(width, coloured, func(coloured bool) string { return oneProtector(&s, &s.protectors[i], width, coloured, now) })...)
		}
	} else {
		lines = append(lines, b.many(&s, width, height-len(lines), coloured, now)...)
	}
	return lines[:min(len(lines), max(1, height))]
}

// oneProtector returns the full view of a protector.
func oneProtector(s *seen, v *status.Protector, width int, coloured bool, now time.Time) string {
	tree := statusTree{Protector: v, denials: s.denials, now: now, width: width, coloured: coloured, quiet: true}
	title, rest, _ := strings.Cut(tree.text(), "\n")
	legend := soft.on(clip("█ stay  ▒ being removed  · not available  | floor", width), coloured)
	return title + "\n" + bar(v, width, coloured) + "\n" + legend + "\n" + rest
}

// bar draws available pods (█), those whose removal is under way (▒), unavailable pods (·), and the position of the floor (|).
func bar(v *status.Protector, width int, coloured bool) string {
	whole := max(v.Total, v.Available)
	if v.Floor.Pods != nil {
		whole = max(whole, *v.Floor.Pods)
	}
	room := min(width, 100) - 2
	if whole == 0 || room < 10 {
		return ""
	}
	at := func(pods int) int { return max(0, pods) * room / whole }
	stay, available := at(v.Available-v.UnderWay), at(v.Available)
	text := []rune(strings.Repeat("█", stay) + strings.Repeat("▒", max(0, available-stay)))
	text = append(text, []rune(strings.Repeat("·", max(0, room-len(text))))...)
	as := good
	if v.Refuses != "" {
		as = warn
	}
	if v.BelowFloor() > 0 {
		as = bad
	}
	if v.Floor.Pods == nil {
		return as.on(string(text), coloured)
	}
	floor := min(at(*v.Floor.Pods), len(text))
	return as.on(string(text[:floor]), coloured) + strong.on("|", coloured) + as.on(string(text[floor:]), coloured)
}

// many returns a table of the protectors that fit, and the most recent denials.
func (b *board) many(s *seen, width, height int, coloured bool, now time.Time) []string {
	if len(s.protectors) == 0 {
		return []string{"No PodProtectors here yet."}
	}
	o := tableOptions{namespaces: b.of.namespace == "", cores: b.several, now: now}
	below := min(len(s.denials), max(0, height/3))
	room := max(1, height-below-4)
	shown := s.protectors[:min(len(s.protectors), room)]
	lines := fit(width, coloured, protectorTable(shown, o).text)
	if more := len(s.protectors) - len(shown); more > 0 {
		lines = append(lines, soft.on(clip(fmt.Sprintf("and %d more, with more budget", more), width), coloured))
	}
	if below > 0 {
		lines = append(lines, "")
		lines = append(lines, fit(width, coloured, denialTable(s.denials[:below], o).text)...)
	}
	return lines
}

// fit returns the lines of a text, truncated to the width of the terminal. Truncated text has no color codes, which could be cut.
func fit(width int, coloured bool, text func(coloured bool) string) []string {
	lines := strings.Split(strings.TrimRight(text(false), "\n"), "\n")
	if widest(strings.Join(lines, "\n")) <= width {
		return strings.Split(strings.TrimRight(text(coloured), "\n"), "\n")
	}
	for i := range lines {
		lines[i] = clip(lines[i], width)
	}
	return lines
}

func widest(text string) (most int) {
	for line := range strings.SplitSeq(text, "\n") {
		most = max(most, utf8.RuneCountInString(line))
	}
	return most
}

// clip truncates a text without color codes to width characters.
func clip(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-1)]) + "…"
}
