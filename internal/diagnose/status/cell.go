package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

// Cell is the state of a Cell of a core cluster.
type Cell struct {
	// Core is the name of the core cluster. It is empty if there is only one.
	Core string `json:"core,omitempty"`
	Name string `json:"name"`
	// Scope describes the pods of the cell: all pods, pods of namespaces, or selected pods.
	Scope string `json:"scope"`
	// State is the worst of ok, draining, notGuarded, neverReported, notCounted, stale, notConnected and overlapping.
	State string `json:"state"`
	// Connected, Guarded and Ready are the statuses of its conditions. They are empty until a controller sets the condition.
	Connected string `json:"connected,omitempty"`
	Guarded   string `json:"guarded,omitempty"`
	Ready     string `json:"ready,omitempty"`
	Holder    string `json:"holder,omitempty"`
	Epoch     int64  `json:"epoch"`
	// Heard is when the cell's aggregator last reported, by the aggregator's clock. For a sharded cell it is the time of the shard that
	// has been silent for longest.
	Heard *time.Time `json:"heard,omitempty"`
	Stale bool       `json:"stale"`
	// Draining reports whether the Cell is being deleted.
	Draining   bool        `json:"draining"`
	Shards     int         `json:"shards"`
	Pods       int         `json:"pods"`
	Protectors int         `json:"protectors"`
	Settlement string      `json:"settlement"`
	Deadline   int         `json:"admissionDeadlineSeconds"`
	StaleAfter int         `json:"staleAfterSeconds"`
	WhenStale  string      `json:"whenStale"`
	Created    time.Time   `json:"created"`
	Conditions []Condition `json:"conditions,omitempty"`
	// Alarms are the states in which removals in the cell are not checked, or are all denied, or are decided by old counts; the worst first.
	Alarms []Alarm `json:"alarms,omitempty"`
}

// States of a Cell.
const (
	CellOK            = "ok"
	CellStale         = "stale"
	CellDraining      = "draining"
	CellNotConnected  = "notConnected"
	CellNotGuarded    = "notGuarded"
	CellOverlapping   = "overlapping"
	CellNeverReported = "neverReported"
	// CellNotCounted means that the last aggregator of the cell reported that it stopped.
	CellNotCounted = "notCounted"
)

// OfCell returns the state of a Cell at a time.
func OfCell(core string, c *v1alpha1.Cell, now time.Time) Cell {
	heard := lastHeartbeat(c, "")
	v := Cell{
		Core: core, Name: c.Name, Scope: scopeOf(&c.Spec), Holder: c.Status.Aggregator.Holder, Epoch: c.Status.Aggregator.Epoch, Heard: heard,
		Connected: statusOf(c, v1alpha1.ConditionConnected), Guarded: statusOf(c, v1alpha1.ConditionGuarded), Ready: statusOf(c, v1alpha1.ConditionReady),
		Stale: isStale(c, heard, now), Draining: c.DeletionTimestamp != nil, Shards: len(c.Status.Shards),
		Pods: int(c.Status.Pods), Protectors: int(c.Status.Protectors), Settlement: string(cmp.Or(c.Spec.Settlement, v1alpha1.SettlementExact)),
		Deadline: int(c.Spec.AdmissionDeadlineOrDefault().Seconds()), StaleAfter: int(c.Spec.StaleAfterOrDefault().Seconds()),
		WhenStale: string(cmp.Or(c.Spec.WhenStale, v1alpha1.WhenStaleTrust)), Created: c.CreationTimestamp.Time, Conditions: conditionsOf(c.Status.Conditions),
	}
	return v.WithStale(v.Stale)
}

// WithStale returns the state of the Cell for a caller that observes its heartbeats: stale reports whether its aggregator is silent.
func (c Cell) WithStale(stale bool) Cell {
	c.Stale = stale
	overlapping := c.condition(v1alpha1.ConditionOverlapping)
	switch bad := string(metav1.ConditionFalse); {
	case c.Draining:
		c.State = CellDraining
	case c.Guarded == bad:
		c.State = CellNotGuarded
	case c.Heard == nil:
		c.State = CellNeverReported
	case c.Ready == bad:
		c.State = CellNotCounted
	case c.Stale:
		c.State = CellStale
	case c.Connected == bad:
		c.State = CellNotConnected
	case overlapping != nil && overlapping.Status == string(metav1.ConditionTrue):
		c.State = CellOverlapping
	default:
		c.State = CellOK
	}
	c.Alarms = AlarmsOf(&c)
	return c
}

func statusOf(c *v1alpha1.Cell, condition string) string {
	if have := meta.FindStatusCondition(c.Status.Conditions, condition); have != nil {
		return string(have.Status)
	}
	return ""
}

// lastHeartbeat returns when the aggregator of a namespace of a cell last reported, or nil if never. Without a namespace it returns the oldest
// report of all shards.
func lastHeartbeat(c *v1alpha1.Cell, namespace string) *time.Time {
	if len(c.Status.Shards) == 0 {
		return nonZeroTime(c.Status.Aggregator.LastHeartbeat)
	}
	var heard *time.Time
	for i := range c.Status.Shards {
		shard := &c.Status.Shards[i]
		slots := slot.Recorded(shard.Slots)
		at := nonZeroTime(shard.LastHeartbeat)
		if at == nil || slots.Empty() || namespace != "" && !slots.Has(slot.Of(namespace)) {
			continue
		}
		if heard == nil || at.Before(*heard) {
			heard = at
		}
	}
	return heard
}

func nonZeroTime(t *metav1.MicroTime) *time.Time {
	if t == nil || t.IsZero() {
		return nil
	}
	return &t.Time
}

// isStale reports whether the topology controller, which uses its own clock, marks the cell stale, or whether the silence is too long by
// the local clock.
func isStale(c *v1alpha1.Cell, heard *time.Time, now time.Time) bool {
	if statusOf(c, v1alpha1.ConditionAggregationFresh) == string(metav1.ConditionFalse) && len(c.Status.Shards) == 0 {
		return true
	}
	return heard == nil || now.Sub(*heard) > c.Spec.StaleAfterOrDefault()
}

func scopeOf(spec *v1alpha1.CellSpec) string {
	switch {
	case len(spec.Namespaces) > 0:
		return "namespaces " + strings.Join(slices.Sorted(slices.Values(spec.Namespaces)), ",")
	case spec.PodSelector != nil:
		return "pods with " + selectorText(spec.PodSelector)
	default:
		return "all pods"
	}
}

// selectorText formats a selector in the syntax of kubectl --selector.
func selectorText(s *v1alpha1.PodSelector) string {
	if text := metav1.FormatLabelSelector(s.LabelSelector()); text != "<none>" {
		return text
	}
	return "any labels"
}

// CellProblem describes the conditions of a Cell that indicate a problem. It is empty if there is none.
func CellProblem(cell *v1alpha1.Cell) string {
	if !cell.DeletionTimestamp.IsZero() {
		return "is being deleted and is not drained yet"
	}
	var problems []string
	for _, name := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionAggregationFresh, v1alpha1.ConditionConnected, v1alpha1.ConditionGuarded,
	} {
		switch condition := meta.FindStatusCondition(cell.Status.Conditions, name); {
		case isUnobservable(cell, name, condition):
		case condition == nil:
			problems = append(problems, fmt.Sprintf("no controller has set condition %s yet: check that the aggregator and the topology controller run", name))
		case condition.Status != metav1.ConditionTrue:
			problems = append(problems, fmt.Sprintf("%s=%s (%s): %s", name, condition.Status, condition.Reason, condition.Message))
		}
	}
	if meta.IsStatusConditionFalse(cell.Status.Conditions, v1alpha1.ConditionWebhookAvailable) {
		problems = append(problems, meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionWebhookAvailable).Message)
	}
	if meta.IsStatusConditionTrue(cell.Status.Conditions, v1alpha1.ConditionOverlapping) {
		problems = append(problems, meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionOverlapping).Message)
	}
	return strings.Join(problems, "; ")
}

// isUnobservable reports whether a condition is missing because the topology controller cannot connect to the cluster: the Cell has no
// kubeconfig, and no flag gives the controller access to the cluster.
func isUnobservable(cell *v1alpha1.Cell, name string, condition *metav1.Condition) bool {
	return cell.Spec.KubeconfigSecretRef == nil && (name == v1alpha1.ConditionConnected || name == v1alpha1.ConditionGuarded) &&
		(condition == nil || condition.Reason == v1alpha1.ReasonNoKubeconfig)
}
