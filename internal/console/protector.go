package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/console/history"
	"github.com/breakwater-k8s/breakwater/internal/console/plot"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// maxReservations is how many reservations the page lists.
const maxReservations = 20

// protectorBody is the data of a protector's page. The status is that of kubectl breakwater status.
type protectorBody struct {
	coresBody
	status.Protector
	listing
	Denials []denial.Denial `json:"denials"`
	// Events reports whether the visitor may see denials.
	Events bool            `json:"events"`
	Window string          `json:"window"`
	Since  time.Time       `json:"since"`
	Points []history.Point `json:"timeline"`
	Advice []advice        `json:"advice"`

	// Pods describes the protected pods, Counts when they count, Guarded the guarded operations, and MadeBy the origin of the protector.
	Pods    string `json:"-"`
	Counts  string `json:"-"`
	Guarded string `json:"-"`
	MadeBy  string `json:"-"`
	// Freshness holds the cells by name, if the visitor may see them.
	Freshness map[string]cellView `json:"-"`
	// Charts show the history for several screen widths.
	Charts []plot.Chart `json:"-"`
}

// bodyOf returns the part of a page's data that a protector contains.
func bodyOf(p *v1alpha1.PodProtector, v status.Protector) protectorBody {
	sortConditions(v.Conditions)
	b := protectorBody{
		Protector: v, listing: listingOf(&v), Pods: describePods(&p.Spec), Counts: v.Criterion,
		MadeBy: "a user, manually or with another tool", Freshness: map[string]cellView{},
	}
	if p.Spec.MinReadySeconds > 0 && v.Criterion == string(v1alpha1.CriterionAvailable) {
		b.Counts += " (ready for " + (time.Duration(p.Spec.MinReadySeconds) * time.Second).String() + ")"
	}
	var operations []string
	for _, operation := range p.Spec.Operations {
		operations = append(operations, string(operation))
	}
	b.Guarded = strings.Join(operations, ", ")
	if v.Generated {
		b.MadeBy = "the generator, for " + v.Source + ", by " + cmp.Or(v.Policy, "its label "+v1alpha1.LabelProtect)
	}
	return b
}

// ID returns CORE/NAMESPACE/NAME, or NAMESPACE/NAME if there is only one core.
func (b *protectorBody) ID() string { return objectID(b.Core, b.Namespace, b.Name) }

// HasShares reports whether a cell has a share of the floor.
func (b protectorBody) HasShares() bool {
	return slices.ContainsFunc(b.Cells, func(c status.Contribution) bool { return c.FloorShare != nil })
}

// cellReservation is a reservation of a cell.
type cellReservation struct {
	Cell string
	status.Reservation
}

// reservationList are the oldest reservations, and the number of removals of the others.
type reservationList struct {
	Oldest []cellReservation
	More   int
}

// Reservations returns the reservations that consume budget.
func (b protectorBody) Reservations() (l reservationList) {
	for i := range b.Cells {
		for _, r := range b.Cells[i].Reservations {
			if !r.Accounted {
				l.Oldest = append(l.Oldest, cellReservation{b.Cells[i].Cell, r})
			}
		}
	}
	slices.SortStableFunc(l.Oldest, func(a, b cellReservation) int { return a.Since.Compare(b.Since) })
	for len(l.Oldest) > maxReservations {
		l.More += l.Oldest[len(l.Oldest)-1].Count
		l.Oldest = l.Oldest[:len(l.Oldest)-1]
	}
	return l
}

// spreadTotal returns the number of pods of all domains.
func spreadTotal(s *status.Spread) int {
	total := s.OtherPods + s.Unknown
	for _, d := range s.Domains {
		total += d.Pods
	}
	return total
}

// sortConditions sorts conditions by type. Their owners append them in arbitrary order.
func sortConditions(conditions []status.Condition) {
	slices.SortFunc(conditions, func(a, b status.Condition) int { return cmp.Compare(a.Type, b.Type) })
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

// windows returns the time ranges of a chart. The first is the default.
func windows() []window {
	return []window{{"15m", 15 * time.Minute}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"24h", 24 * time.Hour}}
}

type window struct {
	Name   string
	length time.Duration
}

func (s *server) protector(v visit) (any, error) {
	c := s.cores[0]
	if name := v.PathValue("core"); name != "" {
		at := slices.IndexFunc(s.cores, func(c *core) bool { return c.name == name })
		if at < 0 {
			return nil, problem{http.StatusNotFound, "There is no such core", "The console does not know core " + name + "."}
		}
		c = s.cores[at]
	}
	key := types.NamespacedName{Namespace: v.PathValue("namespace"), Name: v.PathValue("name")}
	protectors, events, err := c.visibleNamespaces(v, []string{key.Namespace})
	if err != nil {
		return nil, err
	}
	if !protectors.Has(key.Namespace) {
		return nil, forbidden("podprotectors in namespace "+key.Namespace, "core "+c.name)
	}
	p, err := c.readProtector(v, key)
	if err != nil {
		return nil, err
	}
	now := s.now()
	body := bodyOf(p, statusOf(s.label(c), p, c.store.restored.Load(), now))
	body.Events = events.Has(key.Namespace)
	if of := c.stateFor(v, nil); of.Unreachable {
		body.addCore(of)
		body.CoreUnreachable = true
	}
	if body.Events {
		body.Denials = c.store.denialsOf(key)
		body.listing = body.withDenials(body.Denials, now)
	}
	body.Advice = adviceFor(&body.Protector, &body.listing)
	s.addTimeline(v, &body, c, key)
	cells, _, err := s.cellsFor(v, c)
	for _, cell := range cells {
		body.Freshness[cell.Name] = cell
	}
	for i := range body.Cells {
		if cell, ok := body.Freshness[body.Cells[i].Cell]; ok {
			body.Cells[i].Heard, body.Cells[i].Stale, body.Cells[i].StaleAfter = cell.Heard, cell.Stale, cell.StaleAfter
			body.addAlarms(cell)
		}
	}
	return body, err
}

func (c *core) readProtector(v visit, key types.NamespacedName) (*v1alpha1.PodProtector, error) {
	reader, err := c.read()
	if err != nil {
		return nil, err
	}
	p := &v1alpha1.PodProtector{}
	if err := reader.Get(v.Context(), key, p); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read a PodProtector: %w", err)
	} else if err != nil {
		return nil, problem{
			http.StatusNotFound, "There is no such protector",
			"No PodProtector " + key.String() + " exists in the core. The generator recreates a protector that vanished without a release.",
		}
	}
	return p, nil
}

// addTimeline adds the history of a protector in the window of the request. The default is the first window.
func (s *server) addTimeline(v visit, b *protectorBody, c *core, key types.NamespacedName) {
	shown, now := windows()[0], s.now()
	for _, w := range windows() {
		if w.Name == v.URL.Query().Get("window") {
			shown = w
		}
	}
	b.Window = shown.Name
	b.Points, b.Since = c.store.historyOf(key, now, shown.length)
	if !b.Events {
		for i := range b.Points {
			b.Points[i].Denied = 0
		}
	}
	for _, width := range []int{plot.Wide, plot.Medium, plot.Narrow} {
		b.Charts = append(b.Charts, plot.New(b.Points, now, shown.length, width))
	}
}
