package denial

import (
	"fmt"
	"regexp"
	"strconv"

	eventsv1 "k8s.io/api/events/v1"
)

// The reasons of events on protectors.
const (
	ReasonRefused = "RemovalRefused"
	ReasonForced  = "RemovalForced"
)

// Note is the text of an event of a refusal: what the client was told, who asked, and how many more there were since the last event.
// It is as short as the apiserver wants it.
func Note(message, user, cell, verdict string, more int) string {
	end := fmt.Sprintf(" Asked by %q in cell %q: %s. %s", shorten(user, 256), cell, verdict, tail(more, "refused"))
	return shorten(message, mostNote-len(end)) + end
}

// ForcedNote is that of one that was forced: what is said of that, and how many more there were.
func ForcedNote(what string, more int) string {
	end := " " + tail(more, "forced")
	return shorten(what, mostNote-len(end)) + end
}

func tail(more int, done string) string {
	return fmt.Sprintf("(%d more were %s since the last event.)", more, done)
}

// mostNote is how many bytes an apiserver takes.
const mostNote = 1024

// quoted is a text as %q writes it.
const quoted = `("(?:[^"\\]|\\.)*")`

// The patterns of what the webhook writes.
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

// Reader reads events. It is made once for many.
type Reader struct{ patterns patterns }

// NewReader makes one.
func NewReader() *Reader { return &Reader{compiled()} }

// Event reads an event of a core cluster; ok is false if it tells of no denial. What is told of others since the last event is counted
// with it, and is no more than the least: those after the last event are told of by none.
func (r *Reader) Event(core string, e *eventsv1.Event) (d Denial, ok bool) {
	// One that no protector is to blame for is on the Cell, and refers to the pod.
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

// shorten cuts a text to that many bytes, in front of a letter.
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
