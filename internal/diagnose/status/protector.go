// Package status makes what people look at of protectors and Cells: of their state at a time, by the very code that decides. Its types
// are written as JSON, whose shape is kept.
//
// It is pure: values and a time in, values out.
package status

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Protector is a protector of a core cluster. All counts are of pods.
type Protector struct {
	// Core is the name of the core cluster; empty where there is but one.
	Core      string `json:"core,omitempty"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Source is the workload that it was derived from or that it names, as Deployment/web, and Policy what it was made by.
	Source  string    `json:"source,omitempty"`
	Policy  string    `json:"policy,omitempty"`
	Created time.Time `json:"created"`

	Floor Floor `json:"floor"`
	// Criterion is what a pod must be to count.
	Criterion string `json:"criterion"`
	// Total are those that the selector chooses, and Available those that count, discounted cells left out.
	Total     int `json:"total"`
	Available int `json:"available"`
	// UnderWay are removals that were admitted and are not yet seen.
	UnderWay int `json:"underWay"`
	// Budget is Available less UnderWay less the floor: below 0 when the floor is broken. Unset while the floor is not known.
	Budget *int `json:"budget,omitempty"`
	// Allowed is how many removals would be admitted now. That can be fewer than Budget.
	Allowed int `json:"allowed"`
	// Refuses is why the next removal would be refused, as the verdict of a refusal; empty if none would.
	Refuses string `json:"refuses,omitempty"`

	Cells []Share `json:"cells"`
	// Uncounted are Cells that have never counted pods of it, by name.
	Uncounted  []string    `json:"uncounted,omitempty"`
	Spread     *Spread     `json:"spread,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
	// DecreasePending is a large decrease of the floor that was asked for and has not taken effect; nil if none is pending.
	DecreasePending *brake.Decrease `json:"decreasePending,omitempty"`
}

// Floor is how many pods must stay available, and where that comes from.
type Floor struct {
	// Pods is unset while it is not known.
	Pods *int `json:"pods,omitempty"`
	// MinAvailable or MaxUnavailable is what the spec says.
	MinAvailable   string `json:"minAvailable,omitempty"`
	MaxUnavailable string `json:"maxUnavailable,omitempty"`
	// Expected is what it is reckoned from, if it is, and is known. ExpectedFrom is spec or workloads.
	Expected     *int   `json:"expected,omitempty"`
	ExpectedFrom string `json:"expectedFrom,omitempty"`
}

// Condition is one of an object.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
	// Good tells whether it is as it should be, or not yet known.
	Good bool `json:"good"`
}

// Of is a protector of a core cluster at a time, whose Cells are all given; nil is that they cannot be read. It is not changed.
func Of(core string, p *v1alpha1.PodProtector, cells []v1alpha1.Cell, now time.Time) Protector {
	p = Voided(p, Restored(cells...))
	v := Protector{
		Core: core, Namespace: p.Namespace, Name: p.Name, Source: source(p), Policy: p.Annotations[v1alpha1.AnnotationPolicy],
		Created: p.CreationTimestamp.Time, Floor: floorOf(p), Criterion: string(cmp.Or(p.Spec.Criterion, v1alpha1.CriterionAvailable)),
		Allowed: quota.Allowed(p), Cells: sharesOf(p, cells, now), Spread: spreadOf(p), Conditions: conditionsOf(p.Status.Conditions),
	}
	if decrease, pending := brake.DecreaseOf(p); pending {
		v.DecreasePending = &decrease
	}
	budget := quota.BudgetOf(p)
	v.Available, v.UnderWay = budget.Available, budget.Reserved
	if !budget.FloorUnknown {
		left := budget.Left()
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
	v.Refuses = refuses(p, &v)
	return v
}

// BelowFloor is how many pods are missing to the floor by themselves, whatever is under way.
func (p *Protector) BelowFloor() int {
	if p.Floor.Pods == nil {
		return 0
	}
	return max(0, *p.Floor.Pods-p.Available)
}

// Stale tells whether the aggregator of any of its cells is silent.
func (p *Protector) Stale() bool {
	return slices.ContainsFunc(p.Cells, func(s Share) bool { return s.Stale })
}

// refuses is why a pod in no known domain would be refused to go, where none that counts may; in the cell that is counted first, or
// in one that never was.
func refuses(p *v1alpha1.PodProtector, v *Protector) string {
	if v.Allowed > 0 {
		return ""
	}
	if len(v.Cells) == 0 {
		return refusesIn(p, "")
	}
	return v.Cells[0].Refuses
}

// refusesIn is the verdict on the removal of a pod of a cell that was not reserved before, and has no domain; empty if it may go.
func refusesIn(p *v1alpha1.PodProtector, cell string) string {
	verdict := quota.Decide(p.DeepCopy(), []quota.Removal{{Cell: cell, PodUID: "any", Operation: v1alpha1.OperationDelete}})[0]
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

func source(p *v1alpha1.PodProtector) string {
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
		if c.Type == v1alpha1.ConditionOverlapping || c.Type == v1alpha1.ConditionDecreasePending {
			good = metav1.ConditionFalse
		}
		all = append(all, Condition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
			Good: c.Status == good || c.Status == metav1.ConditionUnknown,
		})
	}
	return all
}
