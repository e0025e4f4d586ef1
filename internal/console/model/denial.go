package model

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/quota"
)

// Reasons of the events by which webhooks tell of removals.
const (
	reasonRefused = "RemovalRefused"
	reasonForced  = "RemovalForced"
)

// Denial is a removal that was refused, or admitted against the floor, and others of which nothing but their number is known.
type Denial struct {
	// Event is the name of the event that tells of it.
	Event string    `json:"-"`
	At    time.Time `json:"at"`
	// Verdict is the outcome in a word; empty when the event does not say.
	Verdict string `json:"verdict,omitempty"`
	Message string `json:"message"`
	// Forced tells that it was admitted, since somebody has broken the glass.
	Forced bool `json:"forced,omitempty"`
	// Removals is how many were refused, or forced, that are known of.
	Removals int `json:"removals"`
	// Reporter is the webhook that tells.
	Reporter string `json:"reporter"`
}

// DenialOf reads an event; ok is false if it tells of something else than removals in the name of a protector.
func DenialOf(e *eventsv1.Event) (protector types.NamespacedName, d Denial, ok bool) {
	if e.Regarding.Kind != "PodProtector" || e.Reason != reasonRefused && e.Reason != reasonForced {
		return protector, d, false
	}
	message, more := cutMore(e.Note)
	d = Denial{
		Event: e.Name, At: e.EventTime.Time, Verdict: verdictIn(message), Message: message, Forced: e.Reason == reasonForced,
		Removals: 1 + more, Reporter: e.ReportingInstance,
	}
	if e.Series != nil {
		d.At, d.Removals = e.Series.LastObservedTime.Time, d.Removals+max(int(e.Series.Count)-1, 0)
	}
	return types.NamespacedName{Namespace: e.Regarding.Namespace, Name: e.Regarding.Name}, d, true
}

// cutMore takes off an event's note how many there were besides.
func cutMore(note string) (message string, more int) {
	found := regexp.MustCompile(` \((\d+) more were (?:refused|forced) since the last event\.\)$`).FindStringSubmatchIndex(note)
	if found == nil {
		return note, 0
	}
	more, err := strconv.Atoi(note[found[2]:found[3]])
	if err != nil {
		return note, 0
	}
	return note[:found[0]], more
}

// verdictIn is the outcome that a message tells in words.
func verdictIn(message string) string {
	for _, v := range []struct {
		words   string
		outcome quota.Outcome
	}{
		{"fewer pods available than its floor", quota.RefusedNoBudget},
		{"would be sure of no more than", quota.RefusedDomainLoss},
		{"as its maxConcurrentLag allows", quota.RefusedFull},
		{"under update as it can keep", quota.RefusedUpdates},
		{"has never been aggregated", quota.RefusedNeverAggregated},
		{"waits for earlier removals", quota.RefusedDraining},
		{"does not know how many pods are expected", quota.RefusedFloorUnknown},
		{"nobody has released it", quota.RefusedVanished},
		{"not all of its cells are counted anew", quota.RefusedRestored},
		{"a pod without a UID", quota.RefusedNameless},
		{"that could not be reserved", "Unreachable"},
	} {
		if strings.Contains(message, v.words) {
			return string(v.outcome)
		}
	}
	return ""
}
