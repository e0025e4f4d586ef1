package status

import (
	"cmp"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Alarm is a state of a core or a cell in which removals are not checked, or are all denied, or are decided by old counts.
type Alarm struct {
	Kind AlarmKind `json:"kind"`
	// Core is the name of the core cluster. It is empty if there is only one, unless the alarm is about the core.
	Core string `json:"core,omitempty"`
	// Cell is the name of the cell. It is empty if the alarm is about the core.
	Cell string `json:"cell,omitempty"`
	// Consequence says in a sentence what happens to removals.
	Consequence string `json:"consequence"`
	// Since is when the state began. It is unset if unknown.
	Since *time.Time `json:"since,omitempty"`
	// Runbook is the name of the runbook in docs/runbooks, such as cell-unguarded.
	Runbook string `json:"runbook"`
}

// AlarmKind says what is wrong.
type AlarmKind string

// Kinds of alarms, worst first: what may end pods, then what denies removals, then what is unknown.
const (
	AlarmUnguarded       AlarmKind = "unguarded"       // the API server of a cell does not call the webhook
	AlarmCoreUnreachable AlarmKind = "coreUnreachable" // a core does not answer
	AlarmWebhookDown     AlarmKind = "webhookDown"     // no replica of the webhook of a cell is ready
	AlarmNeverReported   AlarmKind = "neverReported"   // no aggregator has ever counted a cell
	AlarmStale           AlarmKind = "stale"           // the aggregator of a cell does not report, or has stopped
	AlarmGuardUnknown    AlarmKind = "guardUnknown"    // it is unknown whether the API server of a cell calls the webhook
)

func alarmKinds() []AlarmKind {
	return []AlarmKind{AlarmUnguarded, AlarmCoreUnreachable, AlarmWebhookDown, AlarmNeverReported, AlarmStale, AlarmGuardUnknown}
}

// Text returns the display name of a kind.
func (k AlarmKind) Text() string {
	switch k {
	case AlarmUnguarded:
		return "not guarded"
	case AlarmCoreUnreachable:
		return "core unreachable"
	case AlarmWebhookDown:
		return "webhook down"
	case AlarmNeverReported:
		return "never reported"
	case AlarmGuardUnknown:
		return "guard unknown"
	default:
		return string(k)
	}
}

// AlarmsOf returns the alarms of a cell, worst first.
func AlarmsOf(c *Cell) (alarms []Alarm) {
	add := func(holds bool, kind AlarmKind, runbook, consequence, condition string) {
		if holds {
			alarms = append(alarms, Alarm{Kind: kind, Core: c.Core, Cell: c.Name, Runbook: runbook, Since: c.conditionSince(condition), Consequence: consequence})
		}
	}
	guarded := c.condition(v1alpha1.ConditionGuarded)
	isUnread := guarded != nil && guarded.Reason == v1alpha1.ReasonConfigurationUnread
	add(c.Guarded == "False", AlarmUnguarded, "cell-unguarded", "Removals in "+c.Name+" are not checked: its pods can be removed without limit.",
		v1alpha1.ConditionGuarded)
	available := c.condition(v1alpha1.ConditionWebhookAvailable)
	add(available != nil && available.Status == "False", AlarmWebhookDown, "webhook-down", "All removals of protected pods in "+c.Name+
		" are denied: no replica of the webhook is ready there.", v1alpha1.ConditionWebhookAvailable)
	add(c.Heard == nil, AlarmNeverReported, "cell-silent", "All removals of protected pods in "+c.Name+" are denied: no aggregator has counted them.", "")
	add(c.Heard != nil && (c.Stale || c.Ready == "False"), AlarmStale, "cell-silent", staleConsequence(c), v1alpha1.ConditionAggregationFresh)
	add(isUnread || c.Connected == "False" && c.Guarded != "False", AlarmGuardUnknown, "cell-guard-unknown", "It is unknown whether removals in "+c.Name+
		" are checked: the topology controller cannot read the webhook configuration there.", v1alpha1.ConditionGuarded)
	return alarms
}

func staleConsequence(c *Cell) string {
	if c.WhenStale == string(v1alpha1.WhenStaleDiscount) {
		return "Removals in " + c.Name + " are decided by old counts, its pods count for no other cell, and its removals under way stay reserved."
	}
	return "Removals are decided by old counts of " + c.Name + ", and its removals under way stay reserved: budgets only shrink."
}

// CoreAlarm returns the alarm of a core that does not answer who looks at it. answered is when it last did; nil if unknown.
func CoreAlarm(core string, answered *time.Time) Alarm {
	return Alarm{
		Kind: AlarmCoreUnreachable, Core: core, Since: answered, Runbook: "core-down",
		Consequence: "Nothing is known of core " + core + " now. If the webhooks cannot reach it either, all removals of protected pods are denied, " +
			"except in cells with a share of the floor.",
	}
}

// CompareAlarms orders alarms, worst first.
func CompareAlarms(a, b Alarm) int {
	return cmp.Or(slices.Index(alarmKinds(), a.Kind)-slices.Index(alarmKinds(), b.Kind), cmp.Compare(a.Core, b.Core), cmp.Compare(a.Cell, b.Cell))
}

// condition returns a condition of the cell; nil if the cell does not have it.
func (c *Cell) condition(kind string) *Condition {
	at := slices.IndexFunc(c.Conditions, func(c Condition) bool { return c.Type == kind })
	if at < 0 {
		return nil
	}
	return &c.Conditions[at]
}

// conditionSince returns when a condition of the cell last changed; nil if the cell does not have it.
func (c *Cell) conditionSince(kind string) *time.Time {
	if have := c.condition(kind); have != nil {
		return &have.Since
	}
	return nil
}
