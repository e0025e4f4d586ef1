// Package status computes the state of protectors and Cells at a time, for display. It calls the same code as decisions do. The JSON
// form of its types is stable.
//
// It is pure: it takes values and a time, and returns values.
package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Protector is the state of a protector of a core cluster. All counts are numbers of pods.
type Protector struct {
	// Core is the name of the core cluster. It is empty if there is only one.
	Core      string `json:"core,omitempty"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Source is the workload that the protector was generated from or targets, such as Deployment/web. Policy is the policy that
	// generated it.
	Source string `json:"source,omitempty"`
	// Generated reports whether the generator made the protector. Otherwise a user did.
	Generated bool      `json:"generated,omitempty"`
	Policy    string    `json:"policy,omitempty"`
	Created   time.Time `json:"created"`

	Floor Floor `json:"floor"`
	// Criterion is the state in which a pod counts.
	Criterion string `json:"criterion"`
	// Total is the number of pods that the selector matches. Available is the number of counted pods, without those of discounted cells.
	Total     int `json:"total"`
	Available int `json:"available"`
	// UnderWay is the number of admitted removals that the counts do not show yet.
	UnderWay int `json:"underWay"`
	// Budget is Available minus UnderWay minus the floor. It is negative if the floor is broken, and unset if the floor is unknown.
	Budget *int `json:"budget,omitempty"`
	// Allowed is how many removals the webhook would admit now. It can be less than Budget.
	Allowed int `json:"allowed"`
	// Denies is the verdict with which the webhook would deny the next removal. It is empty if the webhook would admit it.
	Denies string `json:"refuses,omitempty"`

	Cells []Contribution `json:"cells"`
	// Uncounted are the names of Cells that have never counted the protector's pods.
	Uncounted  []string    `json:"uncounted,omitempty"`
	Spread     *Spread     `json:"spread,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
	// Restored reports whether the protector was deleted without a release and created again, or lost counts in a restore.
	Restored bool `json:"restored,omitempty"`
	// AboveExpected is how many more pods are available than are expected, if that has lasted for longer than a rollout; otherwise 0.
	AboveExpected int `json:"aboveExpected,omitempty"`
	// Gaps are the ways in which the protector looks effective and is not, worst first.
	Gaps []Gap `json:"gaps,omitempty"`
	// DecreasePending is a requested large decrease of the floor that has not taken effect; nil if none is pending.
	DecreasePending *brake.Decrease `json:"decreasePending,omitempty"`
}

// Floor is the number of pods that must stay available, and its source.
type Floor struct {
	// Pods is unset if the floor is unknown.
	Pods *int `json:"pods,omitempty"`
	// MinAvailable or MaxUnavailable is the value in the spec.
	MinAvailable   string `json:"minAvailable,omitempty"`
	MaxUnavailable string `json:"maxUnavailable,omitempty"`
	// Expected is the base of the floor. It is unset if the floor has no base or the base is unknown. ExpectedFrom is spec or workloads.
	Expected     *int   `json:"expected,omitempty"`
	ExpectedFrom string `json:"expectedFrom,omitempty"`
}

// Condition is a condition of an object.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
	// Good reports whether the status is the desired one, or Unknown.
	Good bool `json:"good"`
}

// Of returns the state of a protector at a time. cells are all Cells of the core; nil means that they cannot be read. Of does not modify
// the protector.
func Of(core string, p *v1alpha1.PodProtector, cells []v1alpha1.Cell, now time.Time) Protector {
	p = WithoutCountsUntil(p, RestoredVersion(cells...))
	v := Protector{
		Core: core, Namespace: p.Namespace, Name: p.Name, Source: sourceName(p), Generated: policy.IsGenerated(p), Policy: p.Annotations[v1alpha1.AnnotationPolicy],
		Created: p.CreationTimestamp.Time, Floor: floorOf(p), Criterion: string(cmp.Or(p.Spec.Criterion, v1alpha1.CriterionAvailable)),
		Allowed: quota.Allowed(p), Cells: contributionsOf(p, cells, now), Spread: spreadOf(p), Conditions: conditionsOf(p.Status.Conditions),
		AboveExpected: AboveExpected(p),
		Gaps:          GapsOf(p),
	}
	_, isRecreated := p.Annotations[v1alpha1.AnnotationRestored]
	v.Restored = isRecreated || quota.IsRestorePending(p)
	if decrease, pending := brake.DecreaseOf(p); pending {
		v.DecreasePending = &decrease
	}
	budget := quota.BudgetOf(p)
	v.Available, v.UnderWay = quota.Available(p), budget.Reserved
	if !budget.FloorUnknown {
		left := v.Available - v.UnderWay - budget.Floor
		v.Budget = &left
	}
	for i := range v.Cells {
		v.Total += v.Cells[i].Total
	}
	for i := range cells {
		if quota.CellOf(p, cells[i].Name) == nil {
			v.Uncounted = append(v.Uncounted, cells[i].Name)
		}
	}
	slices.Sort(v.Uncounted)
	v.Denies = denialReason(p, &v)
	return v
}

// BelowFloor returns how many available pods are missing to reach the floor. It ignores removals under way.
func (p *Protector) BelowFloor() int {
	if p.Floor.Pods == nil {
		return 0
	}
	return max(0, *p.Floor.Pods-p.Available)
}

// NeedsAllPods reports whether the floor is the number of pods that there should be, and no pod is missing. No removal is then ever allowed, by
// design: for example of a canary, or of an application with one pod.
func (p *Protector) NeedsAllPods() bool {
	if p.Denies != string(quota.DeniedNoBudget) || p.Floor.Pods == nil || p.UnderWay > 0 || p.BelowFloor() > 0 || p.DecreasePending != nil {
		return false
	}
	wanted := p.Total
	if p.Floor.Expected != nil {
		wanted = *p.Floor.Expected
	}
	return *p.Floor.Pods >= wanted
}

// MessageOf returns the message of a condition; empty if it has none.
func (p *Protector) MessageOf(kind string) string {
	for _, c := range p.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}

// Stale reports whether the aggregator of any of the protector's cells is silent.
func (p *Protector) Stale() bool {
	return slices.ContainsFunc(p.Cells, func(s Contribution) bool { return s.Stale })
}

// denialReason returns the verdict that denies the removal of a pod without a known domain, if no counted pod can be removed. It decides for
// the first counted cell, or for a cell that was never counted.
func denialReason(p *v1alpha1.PodProtector, v *Protector) string {
	if v.Allowed > 0 {
		return ""
	}
	if len(v.Cells) == 0 {
		return denialReasonIn(p, "")
	}
	return v.Cells[0].Denies
}

// denialReasonIn returns the verdict that denies the removal of a pod of a cell. The pod has no reservation and no domain. It is empty if the
// removal is admitted. A cell with a share decides by the share.
func denialReasonIn(p *v1alpha1.PodProtector, cell string) string {
	if quota.HasShare(p, cell) {
		switch record := recordOf(p, cell); {
		case record.Void:
			return string(quota.DeniedRestored)
		case record.Slack() == 0:
			return string(quota.DeniedNoBudget)
		default:
			return ""
		}
	}
	trial := *p // Decide changes the entry of the cell only, so a copy of the others is not needed
	trial.Status.Cells = slices.Clone(p.Status.Cells)
	if entry := quota.CellOf(&trial, cell); entry != nil {
		*entry = *entry.DeepCopy()
	}
	verdict := quota.Decide(&trial, []quota.Removal{{Cell: cell, PodUID: "any", Operation: v1alpha1.OperationDelete}})[0]
	if verdict.Outcome.Admitted() {
		return ""
	}
	return string(verdict.Outcome)
}

func floorOf(p *v1alpha1.PodProtector) (floor Floor) {
	if pods, known := quota.Floor(p); known {
		floor.Pods = &pods
	}
	switch {
	case p.Spec.MinAvailable != nil:
		floor.MinAvailable = p.Spec.MinAvailable.String()
	case p.Spec.MaxUnavailable != nil:
		floor.MaxUnavailable = p.Spec.MaxUnavailable.String()
	}
	switch {
	case p.Spec.ExpectedReplicas != nil:
		floor.ExpectedFrom = "spec"
	case quota.NeedsExpected(&p.Spec):
		floor.ExpectedFrom = "workloads"
	}
	if expected, known := quota.Expected(p); known && floor.ExpectedFrom != "" {
		floor.Expected = &expected
	}
	return floor
}

// Text describes the source of the floor, such as: minAvailable 70% of 10 expected (spec.expectedReplicas).
func (f Floor) Text() string {
	var text string
	switch {
	case f.MinAvailable != "":
		text = "minAvailable " + f.MinAvailable
	case f.MaxUnavailable != "":
		text = "maxUnavailable " + f.MaxUnavailable
	}
	switch {
	case f.ExpectedFrom == "":
		return text
	case f.Expected == nil:
		return text + " of the workloads' replicas, which are unknown"
	case f.ExpectedFrom == "spec":
		return text + fmt.Sprintf(" of %d expected (spec.expectedReplicas)", *f.Expected)
	default:
		return text + fmt.Sprintf(" of %d expected (the workloads' replicas)", *f.Expected)
	}
}

func sourceName(p *v1alpha1.PodProtector) string {
	kind, name := p.Labels[v1alpha1.LabelSourceKind], p.Annotations[v1alpha1.AnnotationSourceName]
	if p.Spec.TargetRef != nil {
		kind, name = p.Spec.TargetRef.Kind, p.Spec.TargetRef.Name
	}
	if kind == "" || name == "" {
		return ""
	}
	return kind + "/" + name
}

func conditionsOf(conditions []metav1.Condition) (all []Condition) {
	for _, c := range conditions {
		good := metav1.ConditionTrue
		if c.Type == v1alpha1.ConditionOverlapping || c.Type == v1alpha1.ConditionDecreasePending || c.Type == v1alpha1.ConditionExpectationBelowPods {
			good = metav1.ConditionFalse
		}
		all = append(all, Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
			Good: c.Status == good || c.Status == metav1.ConditionUnknown || c.Type == v1alpha1.ConditionPodsMatched && c.Reason == v1alpha1.ReasonScaledToZero,
		})
	}
	return all
}
