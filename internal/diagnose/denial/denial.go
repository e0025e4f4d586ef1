// Package denial tells of removals that were refused, or forced, from what is left of them: events on protectors, whose text it makes as
// well, and audit events of apiservers.
//
// It is pure: values in, values out.
package denial

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Denial is a removal that was refused, or that was forced although it would have been, or several of one kind. Written as JSON its
// shape is kept.
type Denial struct {
	// First and Last are when it was asked for; the same of a single one.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Count is how many times; at least so many, if AtLeast.
	Count   int  `json:"count"`
	AtLeast bool `json:"atLeast,omitempty"`
	// Verdict is why, in a word, as NoBudget; empty if that is not known.
	Verdict string `json:"verdict,omitempty"`
	// Forced tells that it went all the same since somebody broke the glass, and Trial that it did since Breakwater is on trial.
	Forced bool `json:"forced,omitempty"`
	Trial  bool `json:"trial,omitempty"`
	// Core is the name of the core cluster; empty where there is but one, or none was asked.
	Core string `json:"core,omitempty"`
	// Cell is where the pod is; empty if that is not known.
	Cell      string `json:"cell,omitempty"`
	Namespace string `json:"namespace"`
	// Protector is the name of the one that refused; of an audit event, those that were asked.
	Protector string `json:"protector,omitempty"`
	// Pods are the last ones, no more than a few, and MorePods how many others there were.
	Pods     []string `json:"pods,omitempty"`
	MorePods int      `json:"morePods,omitempty"`
	// User asked; empty if that is not known.
	User string `json:"user,omitempty"`
	// Operation is what was asked for, as Delete or Evict; empty if that is not known.
	Operation string `json:"operation,omitempty"`
	// Reason is what somebody gave who forced it, if anything.
	Reason string `json:"reason,omitempty"`
	// Message is what the last of them was told.
	Message string `json:"message,omitempty"`
}

// mostPods is how many pods of a group are named.
const mostPods = 10

// kind is what equal denials have in common.
func (d *Denial) kind() string {
	return strings.Join([]string{
		d.Core, d.Cell, d.Namespace, d.Protector, d.Verdict, d.User, d.Operation, map[bool]string{true: "forced"}[d.Forced], map[bool]string{true: "trial"}[d.Trial],
	}, "\x00")
}

// Group makes one of those that differ only in their pods and times. The last of all comes first.
func Group(denials []Denial) []Denial {
	of := map[string]*gathering{}
	for _, d := range slices.SortedStableFunc(slices.Values(denials), func(a, b Denial) int { return b.Last.Compare(a.Last) }) {
		g := of[d.kind()]
		if g == nil {
			g = &gathering{Denial: d, pods: map[string]bool{}}
			g.Count, g.Pods, g.MorePods = 0, nil, 0
			of[d.kind()] = g
		}
		g.add(&d)
	}
	groups := make([]Denial, 0, len(of))
	for _, g := range of {
		groups = append(groups, g.Denial)
	}
	slices.SortFunc(groups, func(a, b Denial) int { return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.kind(), b.kind())) })
	return groups
}

// gathering is a group that is being made, and the pods that are in it.
type gathering struct {
	Denial
	pods map[string]bool
}

// add takes an earlier one in.
func (g *gathering) add(d *Denial) {
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
		case len(g.Pods) < mostPods:
			g.Pods = append(g.Pods, pod)
		default:
			g.MorePods++
		}
		g.pods[pod] = true
	}
}

// Since leaves out those that were over before a time.
func Since(denials []Denial, start time.Time) []Denial {
	return slices.DeleteFunc(slices.Clone(denials), func(d Denial) bool { return d.Last.Before(start) })
}
