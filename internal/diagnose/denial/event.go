package denial

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
)

// Reasons of events on protectors.
const (
	ReasonRefused = "RemovalRefused"
	ReasonForced  = "RemovalForced"
)

// Note is the text of a denial event: the message that the client received, the user who asked, and the number of further denials since
// the last event. It is at most maxNoteBytes bytes long.
func Note(message, user, cell, verdict string, more int) string {
	end := fmt.Sprintf(" Asked by %q in cell %q: %s.%s", truncate(user, 256), cell, verdict, suffix(more, "refused"))
	return truncate(message, maxNoteBytes-len(end)) + end
}

// ForcedNote is the text of a break-glass event: its description, and the number of further ones since the last event.
func ForcedNote(what string, more int) string {
	end := suffix(more, "forced")
	return truncate(what, maxNoteBytes-len(end)) + end
}

// suffix reports the number of further denials, or nothing if there were none.
func suffix(more int, done string) string {
	switch more {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(" (1 more was %s since the last event.)", done)
	}
	return fmt.Sprintf(" (%d more were %s since the last event.)", more, done)
}

// maxNoteBytes is the maximum length in bytes of an event note that the API server accepts.
const maxNoteBytes = 1024

// quotedPattern matches a string that %q has formatted.
const quotedPattern = `("(?:[^"\\]|\\.)*")`

// These patterns match the texts that the webhook writes.
var (
	suffixPattern    = regexp.MustCompile(`(?s)^(.*) \((\d+) more (?:was|were) (?:refused|forced) since the last event\.\)$`)
	deniedPattern    = regexp.MustCompile(`^Breakwater refuses to (\w+) pod ` + quotedPattern)
	requesterPattern = regexp.MustCompile(`(?s)^(.*) Asked by ` + quotedPattern + ` in cell ` + quotedPattern + `: (\w+)\.$`)
	forcedPattern    = regexp.MustCompile(`(?s)^Pod ` + quotedPattern + ` in cell ` + quotedPattern + ` goes although (\w+): .*? Asked by ` + quotedPattern +
		`\.(?: The reason given is ` + quotedPattern + `\.)?`)
)

// ParseEvent parses an event of a core cluster; ok is false if the event does not record a denial. Count includes the denials that the event
// reports since the previous one. It is a lower bound: no event reports the denials after the last event.
func ParseEvent(core string, e *eventsv1.Event) (d Denial, ok bool) {
	// A denial that is not attributed to a protector is recorded on the Cell, and its event relates to the pod.
	unattributed := e.Reason == ReasonRefused && e.Regarding.Kind == "Cell" && e.Related != nil && e.Related.Kind == "Pod"
	if e.Reason != ReasonRefused && e.Reason != ReasonForced || e.Regarding.Kind != "PodProtector" && !unattributed {
		return Denial{}, false
	}
	d = Denial{
		First: e.EventTime.Time, Last: e.EventTime.Time, Count: 1, AtLeast: true, Core: core,
		Namespace: e.Regarding.Namespace, Protector: e.Regarding.Name, Message: e.Note, Forced: e.Reason == ReasonForced, Event: e.Name,
	}
	if unattributed {
		d.Namespace, d.Protector = e.Related.Namespace, ""
		if e.Related.Name != "" {
			d.Pods = []string{e.Related.Name}
		}
	}
	if d.First.IsZero() {
		d.First, d.Last = e.CreationTimestamp.Time, e.CreationTimestamp.Time
	}
	if e.Series != nil {
		d.Count = max(1, int(e.Series.Count))
		d.Last = e.Series.LastObservedTime.Time
	}
	if parts := suffixPattern.FindStringSubmatch(d.Message); parts != nil {
		more, _ := strconv.Atoi(parts[2])
		d.Message, d.Count = parts[1], d.Count+more
	}
	if d.Forced {
		if parts := forcedPattern.FindStringSubmatch(d.Message); parts != nil {
			d.Pods, d.Cell, d.Verdict, d.User, d.Reason = []string{unquote(parts[1])}, unquote(parts[2]), parts[3], unquote(parts[4]), unquote(parts[5])
		}
		return d, true
	}
	if parts := requesterPattern.FindStringSubmatch(d.Message); parts != nil {
		d.Message, d.User, d.Cell, d.Verdict = parts[1], unquote(parts[2]), unquote(parts[3]), parts[4]
	}
	if parts := deniedPattern.FindStringSubmatch(d.Message); parts != nil {
		d.Pods = []string{unquote(parts[2])}
	}
	return d, true
}

func unquote(text string) string {
	if plain, err := strconv.Unquote(text); err == nil {
		return plain
	}
	return text
}

// truncate truncates a text to at most maxBytes bytes, on a character boundary.
func truncate(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	return strings.ToValidUTF8(text[:max(0, maxBytes-3)], "") + "..."
}
