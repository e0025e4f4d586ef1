package status

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

// changes returns lines for the differences from the last text in printed.
func (b *watchState) changes(printed map[string]string, now time.Time) (lines []string) {
	s := b.view(now)
	clock := now.Format("15:04:05")
	present := map[string]bool{}
	report := func(id, text string) {
		if present[id] = true; printed[id] != text {
			printed[id] = text
			lines = append(lines, clock+"  "+text)
		}
	}
	slices.SortFunc(s.protectors, func(a, b status.Protector) int {
		return strings.Compare(protectorID(a.Core, a.Namespace, a.Name), protectorID(b.Core, b.Namespace, b.Name))
	})
	for i := range s.protectors {
		v := &s.protectors[i]
		id := protectorID(v.Core, v.Namespace, v.Name)
		state, _ := stateText(v)
		text := fmt.Sprintf("%s  available %d  floor %s  under way %d  budget %s  allowed %d  denied %d  %s",
			strings.TrimPrefix(id, "/"), v.Available, plugin.NumberText(v.Floor.Pods), v.UnderWay, plugin.NumberText(v.Budget), v.Allowed, s.denialCounts[id], state)
		report(id, text)
	}
	for _, watchError := range s.watchErrors {
		report("trouble "+watchError, watchError)
	}
	for id := range printed {
		if present[id] {
			continue
		}
		delete(printed, id)
		if resolved, isError := strings.CutPrefix(id, "trouble "); isError {
			lines = append(lines, clock+"  resolved: "+resolved)
		} else {
			lines = append(lines, clock+"  "+strings.TrimPrefix(id, "/")+"  was deleted")
		}
	}
	return lines
}

// frame returns the lines for a terminal of that size.
func (b *watchState) frame(width, height int, now time.Time) []string {
	s := b.view(now)
	title := "kubectl breakwater watch"
	if b.scope.Namespace != "" {
		title += "  " + b.scope.Namespace
	}
	end := now.Format("15:04:05") + "  q quits"
	lines := []string{plugin.Strong.Of(clip(title, width))}
	if gap := width - utf8.RuneCountInString(title) - len(end); gap > 0 {
		lines[0] += strings.Repeat(" ", gap) + plugin.Soft.Of(end)
	}
	for _, watchError := range s.watchErrors {
		lines = append(lines, plugin.Bad.Of(clip(watchError, width)))
	}
	lines = append(lines, "")
	if b.scope.Name != "" {
		for i := range s.protectors {
			lines = append(lines, fitLines(width, protectorView(&s, &s.protectors[i], width, now))...)
		}
	} else {
		lines = append(lines, b.overview(&s, width, height-len(lines), now)...)
	}
	return lines[:min(len(lines), max(1, height))]
}

func protectorView(s *watchView, v *status.Protector, width int, now time.Time) string {
	tree := statusTree{Protector: v, denials: s.denials, now: now, width: width, hideAuditHint: true}
	title, rest, _ := strings.Cut(tree.text(), "\n")
	legend := plugin.Soft.Of(clip("█ stay  ▒ being removed  · not available  | floor", width))
	return title + "\n" + availabilityBar(v, width) + "\n" + legend + "\n" + rest
}

// availabilityBar draws available pods (█), those whose removal is under way (▒), unavailable pods (·), and the position of the floor (|).
func availabilityBar(v *status.Protector, width int) string {
	whole := max(v.Total, v.Available)
	if v.Floor.Pods != nil {
		whole = max(whole, *v.Floor.Pods)
	}
	room := min(width, 100) - 2
	if whole == 0 || room < 10 {
		return ""
	}
	column := func(pods int) int { return max(0, pods) * room / whole }
	remaining, available := column(v.Available-v.UnderWay), column(v.Available)
	text := []rune(strings.Repeat("█", remaining) + strings.Repeat("▒", max(0, available-remaining)))
	text = append(text, []rune(strings.Repeat("·", max(0, room-len(text))))...)
	as := plugin.Good
	if v.Denies != "" {
		as = plugin.Warn
	}
	if v.BelowFloor() > 0 {
		as = plugin.Bad
	}
	if v.Floor.Pods == nil {
		return as.Of(string(text))
	}
	floor := min(column(*v.Floor.Pods), len(text))
	return as.Of(string(text[:floor])) + plugin.Strong.Of("|") + as.Of(string(text[floor:]))
}

// overview returns a table of the protectors that fit, and the most recent denials.
func (b *watchState) overview(s *watchView, width, height int, now time.Time) []string {
	if len(s.protectors) == 0 {
		return []string{"No PodProtectors yet."}
	}
	o := plugin.TableOptions{Namespaces: b.scope.Namespace == "", Cores: b.several, Now: now}
	below := min(len(s.denials), max(0, height/3))
	room := max(1, height-below-4)
	shown := s.protectors[:min(len(s.protectors), room)]
	lines := fitLines(width, protectorTable(shown, o).Text())
	if more := len(s.protectors) - len(shown); more > 0 {
		lines = append(lines, plugin.Soft.Of(clip(fmt.Sprintf("and %d more, with more budget", more), width)))
	}
	if below > 0 {
		lines = append(lines, "")
		lines = append(lines, fitLines(width, denialTable(s.denials[:below], o).Text())...)
	}
	return lines
}

// fitLines returns the lines of a text, truncated to the width of the terminal. Truncated text has no styles, which could be cut.
func fitLines(width int, text string) []string {
	text = strings.TrimRight(text, "\n")
	if lines := strings.Split(text, "\n"); !slices.ContainsFunc(lines, func(line string) bool { return plugin.ColumnsOf(line) > width }) {
		return lines
	}
	lines := strings.Split(plugin.WithoutStyles(text), "\n")
	for i := range lines {
		lines[i] = clip(lines[i], width)
	}
	return lines
}

// clip truncates a text without styles to width characters.
func clip(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(0, width-1)]) + "…"
}
