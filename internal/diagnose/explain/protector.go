package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// Protector is the contribution of one protector to an answer.
type Protector struct {
	Core      string `json:"core"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Guards reports whether the operation consumes the protector's budget. Charged reports whether the removal of this pod does; Why
	// says why.
	Guards  bool   `json:"guards"`
	Charged bool   `json:"charged"`
	Why     string `json:"why"`
	// Outcome is the protector's own decision, without break-glass. It is empty unless Charged is true.
	Outcome quota.Outcome `json:"outcome,omitempty"`
	// Denies is the text of a denial.
	Denies string `json:"refuses,omitempty"`
	// Floor is the floor and FloorFrom its source. FloorKnown is false if the floor cannot be computed.
	Floor      int    `json:"floor"`
	FloorFrom  string `json:"floorFrom"`
	FloorKnown bool   `json:"floorKnown"`
	// Share is set if the protector is the cell's share of another protector's floor.
	Share *Share `json:"share,omitempty"`
	// Available, UnderWay and Left are the budget for the removal. Left is the number of available pods above the floor after all
	// removals under way are done.
	Available int `json:"available"`
	UnderWay  int `json:"underWay"`
	Left      int `json:"left"`
	// AtMostUnderWay is spec.admissionHistory.maxConcurrentLag; 0 is no limit.
	AtMostUnderWay int               `json:"atMostUnderWay,omitempty"`
	Loss           *quota.DomainLoss `json:"domainLoss,omitempty"`
	Domain         string            `json:"domain,omitempty"`
	Cells          []Cell            `json:"cells"`
	// MoreAvailable is how many more available pods would admit this removal. FloorThatWouldDo is a floor that would admit it. Either is
	// nil if such a change does not help.
	MoreAvailable    *int `json:"moreAvailable,omitempty"`
	FloorThatWouldDo *int `json:"floorThatWouldDo,omitempty"`
	// SettledBy is the latest time by which the current reservations are settled, if aggregators run.
	SettledBy *metav1.Time `json:"settledBy,omitempty"`
	// DecreasePending is a requested large decrease of the floor that has not taken effect; nil if none is pending.
	DecreasePending *brake.Decrease `json:"decreasePending,omitempty"`

	advice string
}

// Cell is a protector's state of one cell.
type Cell struct {
	Name string `json:"name"`
	// Counted is the number of counted pods, UnderWay the number of removals under way. Worth is what both contribute to the budget for
	// this removal.
	Counted  int `json:"counted"`
	UnderWay int `json:"underWay"`
	Worth    int `json:"worth"`
	// Uncounted reports whether the pods were not counted with the protector's current spec.
	Uncounted bool `json:"uncounted,omitempty"`
	// Discount is the reason why the cell's pods do not count for removals in other cells.
	Discount v1alpha1.Discount `json:"discount,omitempty"`
	// SilentFor is the time since the aggregator's last report, if that is longer than the Cell's staleAfter.
	SilentFor *metav1.Duration   `json:"silentFor,omitempty"`
	WhenStale v1alpha1.WhenStale `json:"whenStale,omitempty"`
}

func (s Situation) explainProtector(c removal.Charge, e *Explanation) Protector {
	p := Protector{
		Core: c.Core, Namespace: c.Key.Namespace, Name: c.Key.Name,
		Guards: c.Guards(s.Request.Operation), FloorFrom: floorSource(c.Protector),
		AtMostUnderWay: int(c.Protector.Spec.AdmissionHistory.MaxConcurrentLag), Cells: []Cell{},
	}
	c.Assess(s.Request, s.Cell, s.Now)
	health := c.Health
	p.Charged = p.Guards && !s.Request.IsAlwaysAllowed() &&
		(health.Charged(c.Protector.Spec.Criterion) || s.Request.Criterion != "" && health.Meets(s.Request.Criterion))
	p.Why = s.countReason(c, health)
	if !p.Guards {
		p.Why = fmt.Sprintf("consumes no budget: %s is not one of the guarded operations (%s)", s.Request.Operation, guardedOperations(c.Protector))
	}
	attempt := s.Request.Attempt(s.Cell, s.Now, "")
	attempt.Force = false
	verdict := c.Decide(attempt)
	budget := verdict.Budget
	p.Floor, p.FloorKnown, p.Available, p.UnderWay, p.Left = budget.Floor, !budget.FloorUnknown, budget.Available, budget.Reserved, budget.Left()
	if c.Protector.Spec.ShareOf != nil {
		p.Share = s.explainShare(c.Protector.Spec.ShareOf)
		p.FloorFrom = fmt.Sprintf("the share of cell %s in the floor of PodProtector %s", s.Cell, p.Share.Of)
	}
	for i := range c.Protector.Status.Cells {
		p.Cells = append(p.Cells, s.explainCell(c, &c.Protector.Status.Cells[i]))
	}
	p.SettledBy = s.settledBy(c)
	if decrease, pending := brake.DecreaseOf(c.Protector); pending {
		p.DecreasePending = &decrease
	}
	if removal.DomainLossTopologyKey(c.Protector) != "" {
		p.Domain = cmp.Or(c.Domain.Name, "not known")
	}
	if !p.Charged {
		return p
	}
	p.Outcome, p.Loss = verdict.Outcome, verdict.Loss
	if p.Outcome.Admitted() {
		return p
	}
	p.Denies, p.advice = removal.DenialReason(c, verdict)
	if s.Request.IsBreakGlass() && e.ForcedOver == "" {
		e.ForcedOver = removal.VerdictReason(p.Outcome)
	}
	s.computeNeeds(c, attempt, verdict, &p)
	return p
}

// explainCell describes a cell's contribution to the budget for a removal in the situation's cell.
func (s Situation) explainCell(c removal.Charge, of *v1alpha1.PodProtectorCell) Cell {
	cell := Cell{
		Name: of.CellID, UnderWay: quota.Open(&of.AdmissionHistory), Discount: of.Discount,
		Uncounted: of.Aggregation.CountedSpec != quota.CountedSpec(&c.Protector.Spec) || of.Aggregation.Void,
	}
	if !cell.Uncounted {
		cell.Counted = int(of.Aggregation.CountedReplicas)
	}
	cell.Worth = cell.Counted - cell.UnderWay
	if cell.Discount != "" && cell.Name != s.Cell {
		cell.Worth = min(cell.Worth, 0)
	}
	if object := s.Cells[c.Core][of.CellID]; object != nil {
		if beat := object.Status.Aggregator.LastHeartbeat; beat != nil {
			silent := s.Now.Sub(beat.Time)
			if after := object.Spec.StaleAfter; after != nil && silent > after.Duration {
				cell.SilentFor, cell.WhenStale = &metav1.Duration{Duration: silent.Round(time.Second)}, object.Spec.WhenStale
			}
		}
	}
	return cell
}

// settledBy returns when the admission deadline of all current reservations has passed, by the clocks of webhooks.
func (s Situation) settledBy(c removal.Charge) *metav1.Time {
	var last *metav1.Time
	for i := range c.Protector.Status.Cells {
		cell := &c.Protector.Status.Cells[i]
		var spec *v1alpha1.CellSpec
		if object := s.Cells[c.Core][cell.CellID]; object != nil {
			spec = &object.Spec
		}
		deadline := spec.AdmissionDeadlineOrDefault()
		for r := range quota.Reservations(&cell.AdmissionHistory) {
			if by := metav1.NewTime(r.Stamp.Add(deadline)); last == nil || last.Time.Before(by.Time) {
				last = &by
			}
		}
	}
	return last
}

// countReason says whether and why the pod counts for the protector.
func (s Situation) countReason(c removal.Charge, health podhealth.Health) string {
	criterion := cmp.Or(health.OwnCriterion, c.Protector.Spec.Criterion, v1alpha1.CriterionAvailable)
	by := fmt.Sprintf("criterion %s", criterion)
	if health.OwnCriterion != "" {
		by += ", the pod's own"
	}
	switch {
	case s.Request.IsAlwaysAllowed():
		return "consumes no budget: " + exemptReason(s.Request)
	case health.Counted(c.Protector.Spec.Criterion):
		return "counts: " + describeHealth(health) + " (" + by + ")"
	case health.Charged(c.Protector.Spec.Criterion):
		return "may count: its status is unknown (" + by + ")"
	case s.Request.Criterion != "" && health.Meets(s.Request.Criterion):
		return fmt.Sprintf("is %s, as the eviction's own criterion requires", s.Request.Criterion)
	case !health.AvailableAt.IsZero() && criterion == v1alpha1.CriterionAvailable:
		return fmt.Sprintf("does not count yet: it is Ready, and available from %s on (minReadySeconds %d)",
			health.AvailableAt.UTC().Format(time.TimeOnly+"Z"), c.Protector.Spec.MinReadySeconds)
	default:
		return "does not count: " + describeHealth(health) + " only (" + by + ")"
	}
}

func describeHealth(health podhealth.Health) string {
	switch {
	case health.Available:
		return "it is available"
	case health.Ready:
		return "it is Ready"
	case health.Running:
		return "it is Running"
	default:
		return "it is scheduled"
	}
}

func guardedOperations(p *v1alpha1.PodProtector) string {
	operations := p.Spec.Operations
	if len(operations) == 0 {
		operations = v1alpha1.DefaultOperations()
	}
	var names []string
	for _, operation := range operations {
		names = append(names, string(operation))
	}
	return strings.Join(names, ", ")
}

// floorSource describes the field that declares the floor.
func floorSource(p *v1alpha1.PodProtector) string {
	spec := &p.Spec
	text := "nothing"
	share := false
	switch {
	case spec.MinAvailable != nil:
		text, share = "minAvailable "+spec.MinAvailable.String(), spec.MinAvailable.Type == intstr.String
	case spec.MaxUnavailable != nil:
		text, share = "maxUnavailable "+spec.MaxUnavailable.String(), true
	}
	if expected, known := quota.Expected(p); share && known {
		text += fmt.Sprintf(" of %d", expected)
	}
	return text
}
