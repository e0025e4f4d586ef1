package model

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/quota"
)

// mostReservations is how many reservations are shown one by one.
const mostReservations = 20

// Protector is a protector in full.
type Protector struct {
	Row
	// FloorFrom is how the floor is reckoned, MadeBy where the protector comes from.
	FloorFrom []string `json:"floorFrom"`
	MadeBy    string   `json:"madeBy"`
	Pods      string   `json:"pods"`
	Criterion string   `json:"criterion"`
	Guarded   string   `json:"operations"`

	Shares       []Share       `json:"cells"`
	Reservations []Reservation `json:"reservations"`
	// MoreReservations are not shown one by one.
	MoreReservations int         `json:"moreReservations"`
	Spread           *Spread     `json:"spread,omitempty"`
	Conditions       []Condition `json:"conditions"`
	Advice           []Advice    `json:"advice"`
}

// Share is what a cell adds to a protector.
type Share struct {
	Cell string `json:"cell"`
	// Counted tells whether the counts are by the current spec. The others are worth nothing.
	Counted   bool       `json:"counted"`
	Available int        `json:"available"`
	Total     int        `json:"total"`
	Reserved  int        `json:"reserved"`
	Oldest    *time.Time `json:"oldestReservation,omitempty"`
	Expected  *int       `json:"expected,omitempty"`
	At        time.Time  `json:"countedAt"`
	Holder    string     `json:"holder"`
	Discount  string     `json:"discount,omitempty"`
	Problems  []string   `json:"problems,omitempty"`
}

// Reservation is a removal that was admitted and is not accounted for yet.
type Reservation struct {
	Cell      string    `json:"cell"`
	Pod       string    `json:"pod"`
	Operation string    `json:"operation"`
	Since     time.Time `json:"since"`
}

// ProtectorOf says all that the console shows of a protector, whose row RowOf has made with the same version.
func ProtectorOf(p *v1alpha1.PodProtector, row Row, restored uint64) Protector {
	p = voided(p, restored)
	made := Protector{
		Row: row, FloorFrom: floorFrom(p), MadeBy: madeBy(p), Pods: podsOf(&p.Spec), Criterion: criterionOf(&p.Spec), Guarded: guarded(&p.Spec),
		Spread: spreadOf(p), Conditions: conditionsOf(p.Status.Conditions), Advice: adviceFor(p, &row),
	}
	counted := quota.CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		made.Shares = append(made.Shares, shareOf(cell, counted))
		made.reserve(cell)
	}
	slices.SortFunc(made.Shares, func(a, b Share) int { return cmp.Compare(a.Cell, b.Cell) })
	slices.SortStableFunc(made.Reservations, func(a, b Reservation) int { return a.Since.Compare(b.Since) })
	if beyond := len(made.Reservations) - mostReservations; beyond > 0 {
		made.Reservations, made.MoreReservations = made.Reservations[:mostReservations], made.MoreReservations+beyond
	}
	return made
}

// reserve adds the reservations of a cell that are known by name, and the number of the others.
func (v *Protector) reserve(cell *v1alpha1.PodProtectorCell) {
	for i := range cell.AdmissionHistory.Buckets {
		b := &cell.AdmissionHistory.Buckets[i]
		switch {
		case b.Accounted:
		case b.PodUID == "":
			v.MoreReservations += int(b.Counter)
		default:
			v.Reservations = append(v.Reservations, Reservation{Cell: cell.CellID, Pod: b.PodName, Operation: string(b.Operation), Since: b.StartTime.Time})
		}
	}
}

func shareOf(cell *v1alpha1.PodProtectorCell, countedSpec string) Share {
	a := &cell.Aggregation
	s := Share{
		Cell: cell.CellID, Counted: a.CountedSpec == countedSpec && !a.Void, Available: int(a.CountedReplicas), Total: int(a.TotalReplicas),
		Reserved: quota.Open(&cell.AdmissionHistory), At: a.LastEventTime.Time, Holder: a.Holder, Discount: string(cell.Discount),
	}
	if a.ExpectedReplicas != nil {
		expected := int(*a.ExpectedReplicas)
		s.Expected = &expected
	}
	for i := range cell.AdmissionHistory.Buckets {
		b := &cell.AdmissionHistory.Buckets[i]
		if !b.Accounted && (s.Oldest == nil || b.StartTime.Time.Before(*s.Oldest)) {
			s.Oldest = &b.StartTime.Time
		}
	}
	for _, problem := range []string{a.ExpectedReplicasProblem, a.TargetProblem, nodesProblem(a.Spread)} {
		if problem != "" {
			s.Problems = append(s.Problems, problem)
		}
	}
	for _, owner := range a.RetainedOwners {
		s.Problems = append(s.Problems, owner.Kind+" "+owner.Name+" is gone, and "+plural(int(owner.Replicas), "pod")+" of it are still expected")
	}
	if a.Void {
		s.Problems = append(s.Problems, "waits to be counted anew")
	}
	return s
}

func nodesProblem(d *v1alpha1.CellDomains) string {
	if d == nil {
		return ""
	}
	return d.Problem
}

// podsOf is which pods are protected.
func podsOf(spec *v1alpha1.PodProtectorSpec) string {
	if spec.TargetRef != nil {
		return "those of " + spec.TargetRef.Kind + " " + spec.TargetRef.Name
	}
	if spec.Selector == nil {
		return "none"
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector.LabelSelector())
	switch {
	case err != nil:
		return "those of a selector that cannot be read: " + err.Error()
	case selector.Empty():
		return "all of the namespace"
	default:
		return selector.String()
	}
}

func criterionOf(spec *v1alpha1.PodProtectorSpec) string {
	criterion := string(cmp.Or(spec.Criterion, v1alpha1.CriterionAvailable))
	if spec.MinReadySeconds > 0 && criterion == string(v1alpha1.CriterionAvailable) {
		return criterion + " (ready for " + (time.Duration(spec.MinReadySeconds) * time.Second).String() + ")"
	}
	return criterion
}

func guarded(spec *v1alpha1.PodProtectorSpec) (text string) {
	for i, operation := range spec.Operations {
		if i > 0 {
			text += ", "
		}
		text += string(operation)
	}
	return text
}
