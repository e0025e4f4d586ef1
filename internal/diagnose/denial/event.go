package denial

import (
	"fmt"
	"regexp"
	"strconv"

	eventsv1 "k8s.io/api/events/v1"
)

// Reasons of events on protectors.
const (
	ReasonRefused = "RemovalRefused"
	ReasonForced  = "RemovalForced"
)

// Note is the text of a denial event: the message that the client received, the user who asked, and the number of further denials since
// the last event. It is at most mostNote bytes long.
func Note(message, user, cell, verdict string, more int) string {
	end := fmt.Sprintf(" Asked by %q in cell %q: %s. %s", shorten(user, 256), cell, verdict, tail(more, "refused"))
	return shorten(message, mostNote-len(end)) + end
}

// ForcedNote is the text of a break-glass event: its description, and the number of further ones since the last event.
func ForcedNote(what string, more int) string {
	end := " " + tail(more, "forced")
	return shorten(what, mostNote-len(end)) + end
}

func tail(more int, done string) string {
	return fmt.Sprintf("(%d more were %s since the last event.)", more, done)
}

// mostNote is the maximum length in bytes of an event note that the API server accepts.
const mostNote = 1024

// quoted matches a string that %q has formatted.
const quoted = `("(?:[^"\\]|\\.)*")`

// patterns match the texts that the webhook writes.
type patterns struct{ tail, refused, asked, forced *regexp.Regexp }

func compiled() patterns {
	return patterns{
		tail:    regexp.MustCompile(`(?s)^(.*) \((\d+) more were (?:refused|forced) since the last event\.\)$`),
		refused: regexp.MustCompile(`^Breakwater refuses to (\w+) pod ` + quoted),
		asked:   regexp.MustCompile(`(?s)^(.*) Asked by ` + quoted + ` in cell ` + quoted + `: (\w+)\.$`),
		forced: regexp.MustCompile(`(?s)^Pod ` + quoted + ` in cell ` + quoted + ` goes although (\w+): .*? Asked by ` + quoted +
			`\.(?: The reason given is ` + quoted + `\.)?`),
	}
}

// Reader parses events. Create it once and use it for many events.
type Reader struct{ patterns patterns }

// NewReader compiles the patterns of a Reader.
func NewReader() *Reader { return &Reader{compiled()} }

// Event parses an event of a core cluster; ok is false if the event does not record a denial. Count includes the denials that the event
// reports since the previous one. It is a lower bound: no event reports the denials after the last event.
func (r *Reader) Event(core string, e *eventsv1.Event) (d Denial, ok bool) {
	// A denial that is not attributed to a protector is recorded on the Cell, and its event relates to the pod.
	unblamed := e.Reason == ReasonRefused && e.Regarding.Kind == "Cell" && e.Related != nil && e.Related.Kind == "Pod"
	if e.Reason != ReasonRefused && e.Reason != ReasonForced || e.Regarding.Kind != "PodProtector" && !unblamed {
		return Denial{}, false
	}
	d = Denial{
		First: e.EventTime.Time, Last: e.EventTime.Time, Count: 1, AtLeast: true, Core: core,
		Namespace: e.Regarding.Namespace, Protector: e.Regarding.Name, Message: e.Note, Forced: e.Reason == ReasonForced,
	}
	if unblamed {
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
	if parts := r.patterns.tail.FindStringSubmatch(d.Message); parts != nil {
		more, _ := strconv.Atoi(parts[2])
		d.Message, d.Count = parts[1], d.Count+more
	}
	if d.Forced {
		if parts := r.patterns.forced.FindStringSubmatch(d.Message); parts != nil {
			d.Pods, d.Cell, d.Verdict, d.User, d.Operation = []string{unquote(parts[1])}, unquote(parts[2]), parts[3], unquote(parts[4]), ""
			d.Reason = unquote(parts[5])
		}
		return d, true
	}
	if parts := r.patterns.asked.FindStringSubmatch(d.Message); parts != nil {
		d.Message, d.User, d.Cell, d.Verdict = parts[1], unquote(parts[2]), unquote(parts[3]), parts[4]
	}
	if parts := r.patterns.refused.FindStringSubmatch(d.Message); parts != nil {
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

// shorten truncates a text to at most longest bytes, on a character boundary.
func shorten(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	end := max(0, longest-3)
	for end > 0 && text[end]&0xc0 == 0x80 {
		end--
	}
	return text[:end] + "..."
}
