package status

import (
	"cmp"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/floorshare"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Contribution is the contribution of one cell to a protector.
type Contribution struct {
	Cell string `json:"cell"`
	// Available is the number of counted pods. CountsElsewhere is how many of them count for removals in other cells. Both are 0 if
	// Worthless is set.
	Available       int `json:"available"`
	CountsElsewhere int `json:"countsElsewhere"`
	Total           int `json:"total"`
	// FloorShare is the cell's share of the floor. It is unset if the core decides removals in the cell.
	FloorShare *FloorShare `json:"floorShare,omitempty"`
	// Expected is the number of replicas that the cell's workloads request. It is unset if it is not needed or unknown.
	Expected *int `json:"expected,omitempty"`
	UnderWay int  `json:"underWay"`
	// Denies is the verdict that denies the next removal in the cell. It is empty if the removal would be admitted.
	Denies string `json:"refuses,omitempty"`
	// Worthless is why the counts are not used. It is empty if they are.
	Worthless string `json:"worthless,omitempty"`
	// Discount is why the pods do not count for removals in other cells: Stale, Draining or Cleared.
	Discount string `json:"discount,omitempty"`
	// Counted is when the counts were last written. The aggregator writes them when they change.
	Counted time.Time `json:"counted"`
	Epoch   int64     `json:"epoch"`
	Holder  string    `json:"holder,omitempty"`
	// Heard is when the aggregator last reported, by the aggregator's clock. It is unset if the aggregator never reported. StaleAfter is
	// how many seconds of silence make the cell stale.
	Heard      *time.Time `json:"heard,omitempty"`
	StaleAfter int        `json:"staleAfterSeconds,omitempty"`
	Stale      bool       `json:"stale"`
	// NoCell reports whether no Cell of that name exists.
	NoCell bool `json:"noCell,omitempty"`
	// Exempt is why the cell's API server does not call the webhook for removals in the namespace. It is empty if it does.
	Exempt string `json:"exempt,omitempty"`
	// Problems describe what the aggregator cannot determine.
	Problems     []string      `json:"problems,omitempty"`
	Retained     []string      `json:"retained,omitempty"`
	Reservations []Reservation `json:"reservations,omitempty"`
	// InAdvance is the number of reservations without pods, which replicas of the webhook have made for the next removals of a storm. UnderWay has them.
	InAdvance int `json:"inAdvance,omitempty"`
}

// FloorShare is the share of the floor on which a cell decides alone, in its own cluster, as the core records it.
type FloorShare struct {
	// Floor is the number of pods that the cell keeps. Budget is how many removals the share admits now.
	Floor  int `json:"floor"`
	Budget int `json:"budget"`
	// UnderWay is the number of removals that the share has admitted and the counts do not show yet. The core does not record their pods.
	UnderWay int `json:"underWay"`
	// Wanted is the number of removals that the share has denied since it last had budget. Other cells give up budget for them.
	Wanted int `json:"wanted,omitempty"`
}

// Reasons why counts are not used.
const (
	WorthlessOtherSpec = "OtherSpec" // they were made with another spec
	WorthlessVoid      = "Void"      // the protector or its core was restored, and an aggregator must count again
	WorthlessUncounted = "Uncounted" // the aggregator cannot count
)

// Reservation is an admitted removal that the counts do not show yet, or several merged ones. It does not record the user.
type Reservation struct {
	Pod       string `json:"pod,omitempty"`
	PodUID    string `json:"podUID,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Count is 1, or the number of merged reservations. Their times range from Since to Until.
	Count int        `json:"count"`
	Since time.Time  `json:"since"`
	Until *time.Time `json:"until,omitempty"`
	// Accounted reports whether the counts already show the pod of an update as unavailable. The reservation then consumes no more
	// budget.
	Accounted bool `json:"accounted,omitempty"`
	// Overdue reports whether the reservation is older than the cell's admissionDeadline. The aggregator then checks the pod soon.
	Overdue bool `json:"overdue,omitempty"`
}

// contributionsOf returns the contributions of all cells that were ever counted, sorted by name.
func contributionsOf(p *v1alpha1.PodProtector, cells []v1alpha1.Cell, now time.Time) []Contribution {
	all := make([]Contribution, 0, len(p.Status.Cells))
	for i := range p.Status.Cells {
		entry := &p.Status.Cells[i]
		one := contributionOf(p, entry)
		var deadline time.Duration
		at := slices.IndexFunc(cells, func(c v1alpha1.Cell) bool { return c.Name == entry.CellID })
		if one.NoCell = cells != nil && at < 0; at >= 0 {
			one.Heard = lastHeartbeat(&cells[at], p.Namespace)
			one.Stale, one.StaleAfter = isStale(&cells[at], one.Heard, now), int(cells[at].Spec.StaleAfterOrDefault().Seconds())
			deadline = cells[at].Spec.AdmissionDeadlineOrDefault()
		}
		one.Reservations = reservationsOf(&entry.AdmissionHistory, deadline, now)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Contribution) int { return cmp.Compare(a.Cell, b.Cell) })
	return all
}

func contributionOf(p *v1alpha1.PodProtector, entry *v1alpha1.PodProtectorCell) Contribution {
	a := &entry.Aggregation
	one := Contribution{
		Cell: entry.CellID, UnderWay: quota.Open(&entry.AdmissionHistory), Discount: string(entry.Discount), Counted: a.LastEventTime.Time,
		Epoch: a.Epoch, Holder: a.Holder, Denies: denialReasonIn(p, entry.CellID), FloorShare: floorShareOf(p, entry),
		Exempt: string(a.Exempt), InAdvance: quota.Escrowed(&entry.AdmissionHistory),
	}
	if one.FloorShare != nil {
		one.UnderWay += one.FloorShare.UnderWay
	}
	switch {
	case a.Void:
		one.Worthless = WorthlessVoid
	case a.CountedSpec == "":
		one.Worthless = WorthlessUncounted
	case a.CountedSpec != quota.CountedSpec(&p.Spec):
		one.Worthless = WorthlessOtherSpec
	default:
		one.Available, one.Total = int(a.CountedReplicas), int(a.TotalReplicas)
		one.CountsElsewhere = one.Available
		if one.FloorShare != nil {
			one.CountsElsewhere = min(one.Available, one.FloorShare.Floor+one.UnderWay)
		}
		if one.Discount != "" {
			one.CountsElsewhere = min(one.Available, one.UnderWay) // BudgetOf subtracts reservations from this number
		}
	}
	if a.ExpectedReplicas != nil {
		expected := int(*a.ExpectedReplicas)
		one.Expected = &expected
	}
	spread := cmp.Or(a.Spread, &v1alpha1.CellDomains{}).Problem
	for _, problem := range []string{a.ExpectedReplicasProblem, a.TargetProblem, spread, a.ExemptProblem} {
		if problem != "" {
			one.Problems = append(one.Problems, problem)
		}
	}
	for _, w := range a.Workloads {
		if w.Gone {
			one.Retained = append(one.Retained, w.Kind+"/"+w.Name)
		}
	}
	return one
}

// DiscountText describes what a discount means that is not explained by a stale cell; empty if there is none.
func (c *Contribution) DiscountText() string {
	switch c.Discount {
	case "Draining":
		return "The Cell is being deleted: other cells count none of its pods, and no further removal is admitted in it."
	case "Cleared":
		return "A user has cleared its counts and reservations: the aggregator counts it again after the admissionDeadline."
	}
	return ""
}

// WorthlessText describes why the counts are not used; empty if they are.
func (c *Contribution) WorthlessText() string {
	switch c.Worthless {
	case WorthlessVoid:
		return "The protector or its core was restored: its pods do not count until the aggregator has counted them again."
	case WorthlessOtherSpec:
		return "The counts are for another spec: its pods do not count until the aggregator has counted them with the current spec."
	case WorthlessUncounted:
		return "The aggregator cannot count the pods: see the problem and the conditions."
	}
	return ""
}

// floorShareOf returns the share of a cell; nil if it has none.
func floorShareOf(p *v1alpha1.PodProtector, entry *v1alpha1.PodProtectorCell) *FloorShare {
	if entry.Share == nil {
		return nil
	}
	return &FloorShare{
		Floor: int(entry.Share.Floor), Budget: recordOf(p, entry.CellID).Slack(), UnderWay: int(entry.Share.Reserved), Wanted: int(entry.Share.Wanted),
	}
}

// recordOf returns what the core records of a cell. It is void until a share is recorded again after a restore of the core.
func recordOf(p *v1alpha1.PodProtector, cellID string) floorshare.Cell {
	cells := quota.SharesOf(p, 0).Cells
	return cells[slices.IndexFunc(cells, func(c floorshare.Cell) bool { return c.Name == cellID })]
}

func reservationsOf(h *v1alpha1.AdmissionHistory, deadline time.Duration, now time.Time) (all []Reservation) {
	for i := range h.Buckets {
		b := &h.Buckets[i]
		r := Reservation{
			Pod: b.PodName, PodUID: string(b.PodUID), Operation: string(b.Operation), Count: int(b.Counter), Since: b.StartTime.Time, Accounted: b.Accounted,
			Overdue: deadline > 0 && b.Generation == 0 && now.Sub(b.StartTime.Time) > deadline,
		}
		if b.EndTime != nil {
			r.Until = &b.EndTime.Time
		}
		all = append(all, r)
	}
	return all
}
