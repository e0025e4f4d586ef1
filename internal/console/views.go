package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/console/access"
	"github.com/breakwater-k8s/breakwater/internal/console/history"
	"github.com/breakwater-k8s/breakwater/internal/console/model"
	"github.com/breakwater-k8s/breakwater/internal/console/plot"
)

const (
	group       = "breakwater.dev"
	eventsGroup = "events.k8s.io"
)

// forbidden returns a problem that names the missing permission.
func forbidden(what string) problem {
	return problem{http.StatusForbidden, "You may not see this", "You need permission to list " + what + " in the core cluster."}
}

// visibleNamespaces returns the namespaces in which a visitor may see protectors, and those of them in which the visitor may see events.
func (s *server) visibleNamespaces(v visit, namespaces []string) (protectors, events access.VisibleNamespaces, err error) {
	protectors, err = v.VisibleNamespaces(v.Context(), group, "podprotectors", namespaces)
	if err != nil {
		return protectors, events, err
	}
	if !protectors.All {
		namespaces = slices.DeleteFunc(slices.Clone(namespaces), func(n string) bool { return !protectors.Has(n) })
	}
	events, err = v.VisibleNamespaces(v.Context(), eventsGroup, "events", namespaces)
	return protectors, events, err
}

// fleetBody is the data of the first page.
type fleetBody struct {
	model.Fleet
	// Namespace is the requested namespace; empty means all. Unasked is the number of omitted namespaces.
	Namespace string `json:"namespace,omitempty"`
	Unasked   int    `json:"namespacesLeftOut,omitempty"`
	// Events reports whether the visitor may see denials in any of the namespaces.
	Events bool `json:"events"`
	// Cells is nil if the visitor may not see them.
	Cells []model.Cell `json:"cells,omitempty"`
	// Nothing reports whether the visitor may see none of the namespaces with protectors.
	Nothing bool `json:"-"`

	query model.Query
}

func (s *server) fleet(v visit) (any, error) {
	query := v.URL.Query()
	page, err := strconv.Atoi(query.Get("page"))
	if err != nil {
		page = 1
	}
	body := fleetBody{
		Namespace: query.Get("namespace"), query: model.Query{Text: query.Get("q"), State: model.State(query.Get("state")), Page: page},
	}
	namespaces := s.store.namespaces()
	if body.Namespace != "" {
		namespaces = []string{body.Namespace}
	}
	protectors, events, err := s.visibleNamespaces(v, namespaces)
	if err != nil {
		return nil, err
	}
	seen := func(namespace string) bool {
		return (body.Namespace == "" || namespace == body.Namespace) && protectors.Has(namespace)
	}
	body.Unasked = protectors.Unreviewed
	body.Nothing = !protectors.All && !slices.ContainsFunc(namespaces, protectors.Has)
	body.Events = events.All || slices.ContainsFunc(namespaces, events.Has)
	body.Fleet = model.FleetOf(s.store.protectors(seen, events.Has), body.query)
	body.Cells, _, err = s.cellsFor(v)
	return body, err
}

// cellsFor returns the cells; ok is false if the visitor may not see them.
func (s *server) cellsFor(v visit) (cells []model.Cell, ok bool, err error) {
	if ok, err = v.IsAllowed(v.Context(), access.Permission{Group: group, Resource: "cells"}); err != nil || !ok {
		return nil, false, err
	}
	list := &v1alpha1.CellList{}
	if err := s.core.List(v.Context(), list); err != nil {
		return nil, false, fmt.Errorf("list the Cells: %w", err)
	}
	now := s.now()
	for i := range list.Items {
		cells = append(cells, model.CellOf(&list.Items[i], s.store.heartbeatOf(list.Items[i].Name), now))
	}
	slices.SortFunc(cells, func(a, b model.Cell) int { return cmp.Compare(a.Name, b.Name) })
	return cells, true, nil
}

type cellsBody struct {
	Cells []model.Cell `json:"cells"`
}

func (s *server) cells(v visit) (any, error) {
	cells, ok, err := s.cellsFor(v)
	if err == nil && !ok {
		err = forbidden("cells")
	}
	return cellsBody{cells}, err
}

// protectorBody is the data of a protector's page.
type protectorBody struct {
	model.Protector
	Denials []model.Denial `json:"denials"`
	// Events reports whether the visitor may see denials.
	Events bool            `json:"events"`
	Window string          `json:"window"`
	Since  time.Time       `json:"since"`
	Points []history.Point `json:"timeline"`
	// Freshness holds the cells by name, if the visitor may see them.
	Freshness map[string]model.Cell `json:"-"`

	// Charts show the history for several screen widths.
	Charts []plot.Chart `json:"-"`
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
	key := types.NamespacedName{Namespace: v.PathValue("namespace"), Name: v.PathValue("name")}
	protectors, events, err := s.visibleNamespaces(v, []string{key.Namespace})
	if err != nil {
		return nil, err
	}
	if !protectors.Has(key.Namespace) {
		return nil, forbidden("podprotectors in namespace " + key.Namespace)
	}
	p := &v1alpha1.PodProtector{}
	if err := s.core.Get(v.Context(), key, p); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read a PodProtector: %w", err)
	} else if err != nil {
		return nil, problem{
			http.StatusNotFound, "There is no such protector",
			"No PodProtector " + key.String() + " exists in the core. The generator recreates a protector that vanished without a release.",
		}
	}
	shown := windows()[0]
	for _, w := range windows() {
		if w.Name == v.URL.Query().Get("window") {
			shown = w
		}
	}
	body := protectorBody{Events: events.Has(key.Namespace), Window: shown.Name, Freshness: map[string]model.Cell{}}
	now := s.now()
	restored := s.store.restored.Load()
	row := model.RowOf(p, restored)
	if body.Events {
		body.Denials = s.store.denialsOf(key)
		row = row.WithRefusals(body.Denials, now)
	}
	body.Protector = model.ProtectorOf(p, row, restored, now)
	body.Points, body.Since = s.store.historyOf(key, now, shown.length)
	if !body.Events {
		for i := range body.Points {
			body.Points[i].Refused = 0
		}
	}
	for _, width := range []int{plot.Wide, plot.Medium, plot.Narrow} {
		body.Charts = append(body.Charts, plot.New(body.Points, now, plot.Window(body.Points, now, shown.length), width))
	}
	cells, _, err := s.cellsFor(v)
	for _, cell := range cells {
		body.Freshness[cell.Name] = cell
	}
	return body, err
}

// link returns the URL of the first page with one query parameter changed.
func (b fleetBody) link(key, value string) string {
	values := url.Values{}
	for _, kv := range [][2]string{{"namespace", b.Namespace}, {"q", b.query.Text}, {"state", string(b.query.State)}, {key, value}} {
		if kv[1] == "" {
			values.Del(kv[0])
		} else {
			values.Set(kv[0], kv[1])
		}
	}
	if len(values) == 0 {
		return "/"
	}
	return "/?" + values.Encode()
}
