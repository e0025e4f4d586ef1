package model

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// maxReservations is how many reservations are listed individually.
const maxReservations = 20

// Protector is the full view of a protector.
type Protector struct {
	Row
	// FloorFrom describes how the floor is computed, and MadeBy the origin of the protector.
	FloorFrom []string `json:"floorFrom"`
	MadeBy    string   `json:"madeBy"`
	Pods      string   `json:"pods"`
	Criterion string   `json:"criterion"`
	Guarded   string   `json:"operations"`

	Contributions []Contribution `json:"cells"`
	// HasShares reports whether a cell has a share of the floor.
	HasShares    bool          `json:"-"`
	Reservations []Reservation `json:"reservations"`
	// MoreReservations is the number of reservations that are not listed individually.
	MoreReservations int                `json:"moreReservations"`
	Spread           *Spread            `json:"spread,omitempty"`
	Conditions       []status.Condition `json:"conditions"`
	Advice           []Advice           `json:"advice"`
}

// Contribution is a cell's contribution to a protector.
type Contribution struct {
	Cell string `json:"cell"`
	// Counted reports whether the counts were made with the current spec. Other counts are not used.
	Counted   bool       `json:"counted"`
	Available int        `json:"available"`
	Total     int        `json:"total"`
	Reserved  int        `json:"reserved"`
	Oldest    *time.Time `json:"oldestReservation,omitempty"`
	Expected  *int       `json:"expected,omitempty"`
	At        time.Time  `json:"countedAt"`
	Holder    string     `json:"holder"`
	Discount  string     `json:"discount,omitempty"`
	// FloorShare is the share of the floor on which the cell decides alone; nil if the core decides.
	FloorShare *status.FloorShare `json:"floorShare,omitempty"`
	Problems   []string           `json:"problems,omitempty"`
}

// Reservation is an admitted removal that is not accounted for yet.
type Reservation struct {
	Cell      string    `json:"cell"`
	Pod       string    `json:"pod"`
	Operation string    `json:"operation"`
	Since     time.Time `json:"since"`
}

// ProtectorOf returns the full view of a protector. row is the result of RowOf with the same restored version.
func ProtectorOf(p *v1alpha1.PodProtector, row Row, restored uint64, now time.Time) Protector {
	p = status.WithoutCountsUntil(p, restored)
	v := status.Of("", p, nil, now)
	made := Protector{
		Row: row, FloorFrom: floorFrom(p), MadeBy: origin(p), Pods: describePods(&p.Spec), Criterion: criterionOf(v.Criterion, &p.Spec),
		Guarded: guardedOperations(&p.Spec),
		Spread:  spreadOf(v.Spread), Conditions: sortedConditions(v.Conditions), Advice: adviceFor(p, &row),
	}
	for i := range v.Cells {
		made.add(&v.Cells[i], &quota.CellOf(p, v.Cells[i].Cell).Aggregation)
	}
	slices.SortStableFunc(made.Reservations, func(a, b Reservation) int { return a.Since.Compare(b.Since) })
	if beyond := len(made.Reservations) - maxReservations; beyond > 0 {
		made.Reservations, made.MoreReservations = made.Reservations[:maxReservations], made.MoreReservations+beyond
	}
	return made
}

// add adds a cell's contribution and its reservations. It shows counts even if they are not used. It lists reservations with a pod UID and
// counts the others.
func (v *Protector) add(cell *status.Contribution, counts *v1alpha1.Aggregation) {
	s := Contribution{
		Cell: cell.Cell, Counted: cell.Worthless == "", Available: int(counts.CountedReplicas), Total: int(counts.TotalReplicas),
		Reserved: cell.UnderWay, Expected: cell.Expected, At: cell.Counted, Holder: cell.Holder, Discount: cell.Discount, FloorShare: cell.FloorShare,
		Problems: problemsOf(cell, counts),
	}
	for i := range cell.Reservations {
		r := &cell.Reservations[i]
		if r.Accounted {
			continue
		}
		if s.Oldest == nil || r.Since.Before(*s.Oldest) {
			s.Oldest = &r.Since
		}
		if r.PodUID == "" {
			v.MoreReservations += r.Count
		} else {
			v.Reservations = append(v.Reservations, Reservation{Cell: cell.Cell, Pod: r.Pod, Operation: r.Operation, Since: r.Since})
		}
	}
	v.Contributions = append(v.Contributions, s)
	v.HasShares = v.HasShares || s.FloorShare != nil
}

func problemsOf(cell *status.Contribution, counts *v1alpha1.Aggregation) []string {
	problems := slices.Clone(cell.Problems)
	for _, w := range counts.Workloads {
		if w.Gone {
			problems = append(problems, w.Kind+" "+w.Name+" vanished, and "+printable.Count(int(w.Replicas), "pod")+" of it are still expected")
		}
	}
	if cell.Worthless == status.WorthlessVoid {
		problems = append(problems, "waits to be counted again")
	}
	return problems
}

func describePods(spec *v1alpha1.PodProtectorSpec) string {
	if spec.TargetRef != nil {
		return "those of " + spec.TargetRef.Kind + " " + spec.TargetRef.Name
	}
	if spec.Selector == nil {
		return "none"
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector.LabelSelector())
	switch {
	case err != nil:
		return "invalid selector: " + err.Error()
	case selector.Empty():
		return "all of the namespace"
	default:
		return selector.String()
	}
}

func criterionOf(criterion string, spec *v1alpha1.PodProtectorSpec) string {
	if spec.MinReadySeconds > 0 && criterion == string(v1alpha1.CriterionAvailable) {
		return criterion + " (ready for " + (time.Duration(spec.MinReadySeconds) * time.Second).String() + ")"
	}
	return criterion
}

func guardedOperations(spec *v1alpha1.PodProtectorSpec) (text string) {
	for i, operation := range spec.Operations {
		if i > 0 {
			text += ", "
		}
		text += string(operation)
	}
	return text
}
