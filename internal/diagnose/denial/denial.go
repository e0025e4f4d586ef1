// Package denial reads denied and break-glass removals from events on protectors and from audit events of API servers. It also writes
// the text of those events.
//
// It is pure: it does no I/O.
package denial

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Denial is a denied removal, a break-glass removal that would have been denied, or a group of equal ones. Its JSON form is stable.
type Denial struct {
	// First and Last are the times of the first and the last request. They are equal for a single request.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Count is the number of requests. It is a lower bound if AtLeast is set.
	Count   int  `json:"count"`
	AtLeast bool `json:"atLeast,omitempty"`
	// Verdict is the reason in one word, such as NoBudget. It is empty if unknown.
	Verdict string `json:"verdict,omitempty"`
	// Forced reports whether the removal was admitted by break-glass. Trial reports whether it was admitted because Breakwater runs in
	// trial mode.
	Forced bool `json:"forced,omitempty"`
	Trial  bool `json:"trial,omitempty"`
	// Core is the name of the core cluster. It is empty if there is only one core, or if the webhook consulted none.
	Core string `json:"core,omitempty"`
	// Cell is the cell of the pod. It is empty if unknown.
	Cell      string `json:"cell,omitempty"`
	Namespace string `json:"namespace"`
	// Protector is the name of the protector that denied the removal. For an audit event it names all protectors that were consulted.
	Protector string `json:"protector,omitempty"`
	// Pods names the last few pods. MorePods is the number of pods that are not named.
	Pods     []string `json:"pods,omitempty"`
	MorePods int      `json:"morePods,omitempty"`
	// User requested the removal. It is empty if unknown.
	User string `json:"user,omitempty"`
	// Operation is the requested operation, such as Delete or Evict. It is empty if unknown.
	Operation string `json:"operation,omitempty"`
	// Reason is the reason that the user gave for a break-glass removal, if any.
	Reason string `json:"reason,omitempty"`
	// Message is the message that the client of the last request received.
	Message string `json:"message,omitempty"`
	// Event is the name of the last event. It is empty for audit events.
	Event string `json:"-"`
}

// maxPods is the maximum number of pods that a group names.
const maxPods = 10

// groupKey is the key by which Group groups denials.
func (d *Denial) groupKey() string {
	return strings.Join([]string{
		d.Core, d.Cell, d.Namespace, d.Protector, d.Verdict, d.User, d.Operation, map[bool]string{true: "forced"}[d.Forced], map[bool]string{true: "trial"}[d.Trial],
	}, "\x00")
}

// Group merges denials that differ only in their pods and times. The most recent group comes first.
func Group(denials []Denial) []Denial {
	byKey := map[string]*groupBuilder{}
	for _, d := range slices.SortedStableFunc(slices.Values(denials), func(a, b Denial) int { return b.Last.Compare(a.Last) }) {
		g := byKey[d.groupKey()]
		if g == nil {
			g = &groupBuilder{Denial: d, pods: map[string]bool{}}
			g.Count, g.Pods, g.MorePods = 0, nil, 0
			byKey[d.groupKey()] = g
		}
		g.add(&d)
	}
	groups := make([]Denial, 0, len(byKey))
	for _, g := range byKey {
		groups = append(groups, g.Denial)
	}
	slices.SortFunc(groups, func(a, b Denial) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.groupKey(), b.groupKey())) })
	return groups
}

// groupBuilder is a group under construction, with the set of its pods.
type groupBuilder struct {
	Denial
	pods map[string]bool
}

// add merges an earlier denial into the group.
func (g *groupBuilder) add(d *Denial) {
	g.Count += d.Count
	g.AtLeast = g.AtLeast || d.AtLeast
	if d.First.Before(g.First) {
		g.First = d.First
	}
	g.MorePods += d.MorePods
	for _, pod := range d.Pods {
		switch {
		case g.pods[pod]:
			continue
		case len(g.Pods) < maxPods:
			g.Pods = append(g.Pods, pod)
		default:
			g.MorePods++
		}
		g.pods[pod] = true
	}
}

// Since returns the denials whose last request is not before start.
func Since(denials []Denial, start time.Time) []Denial {
	return slices.DeleteFunc(slices.Clone(denials), func(d Denial) bool { return d.Last.Before(start) })
}
