package model

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// Heartbeat is what the console observed of a cell's heartbeats, by its own clock. It does not compare the clocks of two machines.
type Heartbeat struct {
	// At is when the last heartbeat was seen. Moved reports whether an earlier one was seen before.
	At      time.Time
	Changed bool
}

// Freshness says whether a cell's aggregator reports.
type Freshness string

// Values of Freshness.
const (
	Fresh            Freshness = "fresh"
	Stale            Freshness = "stale"
	FreshnessUnknown Freshness = "unknown"
)

// Cell is the view of one cell.
type Cell struct {
	// Core is the core cluster of the Cell; empty if there is only one.
	Core string `json:"core,omitempty"`
	// Stale reports whether the core is unreachable: the cell shows the last known data.
	Stale bool `json:"stale,omitempty"`
	// ID is the identifier of the cell within its page.
	ID string `json:"-"`

	Name      string    `json:"name"`
	Freshness Freshness `json:"freshness"`
	// Heard is when the console last saw the heartbeat change, or saw the first one; nil if there is none.
	Heard      *time.Time         `json:"heard,omitempty"`
	StaleAfter string             `json:"staleAfter"`
	WhenStale  string             `json:"whenStale"`
	Settlement string             `json:"settlement"`
	Deadline   string             `json:"admissionDeadline"`
	Part       string             `json:"part"`
	Pods       int                `json:"pods"`
	Protectors int                `json:"protectors"`
	Epoch      int64              `json:"epoch"`
	Holder     string             `json:"holder,omitempty"`
	Shards     int                `json:"shards,omitempty"`
	Leaving    bool               `json:"leaving,omitempty"`
	Conditions []status.Condition `json:"conditions"`
	// Alarms are the states in which removals in the cell are not checked, or are all denied, or are decided by old counts; the worst first.
	Alarms []status.Alarm `json:"alarms,omitempty"`
	// Good reports whether the cell is fresh and not being deleted, and all its conditions are good.
	Good bool `json:"good"`
}

// CellOf returns the view of a cell. core is the name of its core cluster; empty if there is only one.
func CellOf(core string, c *v1alpha1.Cell, heard Heartbeat, now time.Time) Cell {
	v := status.OfCell(core, c, now)
	staleAfter := c.Spec.StaleAfterOrDefault()
	cell := Cell{
		Core: core, Name: v.Name, StaleAfter: staleAfter.String(), WhenStale: v.WhenStale, Settlement: v.Settlement, Part: scopeText(&c.Spec),
		Pods: v.Pods, Protectors: v.Protectors, Epoch: v.Epoch, Holder: v.Holder, Shards: v.Shards,
		Leaving: v.Draining, Conditions: sortedConditions(v.Conditions), Freshness: freshness(c, heard, staleAfter, now),
	}
	if c.Spec.AdmissionDeadline != nil {
		cell.Deadline = c.Spec.AdmissionDeadline.Duration.String()
	}
	if !heard.At.IsZero() && c.Status.Aggregator.LastHeartbeat != nil {
		cell.Heard = &heard.At
	}
	v.Stale = cell.Freshness == Stale
	cell.Alarms = status.AlarmsOf(&v)
	cell.Good = cell.Freshness == Fresh && len(cell.Alarms) == 0 && !cell.Leaving &&
		!slices.ContainsFunc(cell.Conditions, func(c status.Condition) bool { return !c.Good })
	return cell
}

// AsStale returns the last known data of a cell whose core is unreachable: whether its aggregator reports is unknown. Of its alarms, the one that it is
// not guarded stays.
func (c Cell) AsStale() Cell {
	c.Stale, c.Freshness, c.Good = true, FreshnessUnknown, false
	c.Alarms = slices.DeleteFunc(slices.Clone(c.Alarms), func(a status.Alarm) bool { return a.Kind != status.AlarmUnguarded })
	return c
}

// freshness uses the heartbeats that the console has seen. If the console has not watched for long enough, it uses the condition that
// the topology controller sets.
func freshness(c *v1alpha1.Cell, heard Heartbeat, staleAfter time.Duration, now time.Time) Freshness {
	said := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionAggregationFresh)
	switch {
	case !heard.At.IsZero() && now.Sub(heard.At) >= staleAfter, said != nil && said.Status == metav1.ConditionFalse:
		return Stale
	case heard.Changed, said != nil && said.Status == metav1.ConditionTrue:
		return Fresh
	default:
		return FreshnessUnknown
	}
}

func scopeText(spec *v1alpha1.CellSpec) string {
	switch {
	case len(spec.Namespaces) > 0:
		return printable.Count(len(spec.Namespaces), "namespace")
	case spec.PodSelector != nil:
		return "some pods"
	default:
		return "a whole cluster"
	}
}

// sortedConditions sorts conditions by type. Their owners append them in arbitrary order.
func sortedConditions(conditions []status.Condition) []status.Condition {
	slices.SortFunc(conditions, func(a, b status.Condition) int { return compareText(a.Type, b.Type) })
	return conditions
}
