package console

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// heartbeat is what the console observed of a cell's heartbeats. It does not compare the clocks of two machines.
type heartbeat struct {
	// value is the last heartbeat, by the clock of the aggregator.
	value time.Time
	// at is when the console saw it, by its own clock. changed reports whether an earlier one was seen before.
	at      time.Time
	changed bool
}

// freshness says whether a cell's aggregator reports.
type freshness string

const (
	fresh            freshness = "fresh"
	stale            freshness = "stale"
	freshnessUnknown freshness = "unknown"
)

// cellView is the view of one cell. Its status is by the clock of the console: Heard is when the console last saw the heartbeat change, or saw the first one.
type cellView struct {
	status.Cell
	// CoreUnreachable reports whether the core is unreachable: the last known data are shown.
	CoreUnreachable bool `json:"coreUnreachable,omitempty"`
	// ID is the identifier of the cell within its page.
	ID        string    `json:"-"`
	Freshness freshness `json:"freshness"`
}

// viewOfCell returns the view of a cell. core is the name of its core cluster; empty if there is only one.
func viewOfCell(core string, c *v1alpha1.Cell, heard heartbeat, now time.Time) cellView {
	v := cellView{Cell: status.OfCell(core, c, now), ID: c.Name, Freshness: freshnessOf(c, heard, now)}
	if v.Heard != nil && !heard.at.IsZero() {
		v.Heard = &heard.at
	}
	v.Cell = v.WithStale(v.Freshness == stale)
	sortConditions(v.Conditions)
	return v
}

// lastKnown returns the last known data of a cell whose core is unreachable: whether its aggregator reports is unknown. Of its alarms, the one that it is
// not guarded stays.
func (c cellView) lastKnown() cellView {
	c.CoreUnreachable, c.Freshness = true, freshnessUnknown
	c.Alarms = slices.DeleteFunc(slices.Clone(c.Alarms), func(a status.Alarm) bool { return a.Kind != status.AlarmUnguarded })
	return c
}

// freshnessOf uses the heartbeats that the console has seen. If the console has not watched for long enough, it uses the condition that
// the topology controller sets.
func freshnessOf(c *v1alpha1.Cell, heard heartbeat, now time.Time) freshness {
	said := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionAggregationFresh)
	switch {
	case !heard.at.IsZero() && now.Sub(heard.at) >= c.Spec.StaleAfterOrDefault(), said != nil && said.Status == metav1.ConditionFalse:
		return stale
	case heard.changed, said != nil && said.Status == metav1.ConditionTrue:
		return fresh
	default:
		return freshnessUnknown
	}
}
