package console

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/console/access"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

const (
	group       = "breakwater.dev"
	eventsGroup = "events.k8s.io"
)

// forbidden returns a problem that names the missing permission.
func forbidden(what, core string) problem {
	return problem{http.StatusForbidden, "You may not see this", "You need permission to list " + what + " in " + core + "."}
}

// visibleNamespaces returns the namespaces of a core in which a visitor may see protectors, and those of them in which the visitor may see events.
func (c *core) visibleNamespaces(v visit, namespaces []string) (protectors, events access.VisibleNamespaces, err error) {
	protectors, err = v.VisibleNamespaces(v.Context(), c.name, group, "podprotectors", namespaces)
	if err != nil {
		return protectors, events, err
	}
	if !protectors.All {
		namespaces = slices.DeleteFunc(slices.Clone(namespaces), func(n string) bool { return !protectors.Has(n) })
	}
	events, err = v.VisibleNamespaces(v.Context(), c.name, eventsGroup, "events", namespaces)
	return protectors, events, err
}

// coresBody is what a page shows about cores, and about all cells that the visitor may see.
type coresBody struct {
	// Alarms are the states in which removals are not checked, or are all denied, or are decided by old counts; the worst first.
	Alarms []alarm `json:"alarms,omitempty"`
	// Cores is empty if there is one core and it is reachable.
	Cores []coreState `json:"cores,omitempty"`
}

// alarm is an alarm of a core or a cell.
type alarm struct {
	status.Alarm
	// CellID is the identifier of the cell within the page of cells; empty if the alarm is about a core.
	CellID string `json:"-"`
}

// coreState says whether the data of a core are current.
type coreState struct {
	Name string `json:"name"`
	// Unreachable reports whether the core does not answer. Its last known data are shown, if the visitor may see them. Answered is when it last
	// answered, unless it never did.
	Unreachable bool       `json:"unreachable,omitempty"`
	Answered    *time.Time `json:"lastAnswer,omitempty"`
	// Unknown reports whether the core does not know the visitor.
	Unknown bool `json:"userUnknown,omitempty"`
}

// eachCore calls show for all cores. If a core does not answer, the others are shown. It returns the error if no core answers.
func (s *server) eachCore(v visit, show func(*core) error) (body coresBody, failure error) {
	isShown := false
	for _, c := range s.cores {
		err := show(c)
		if err != nil {
			failure = err
		}
		isShown = isShown || err == nil
		body.addCore(c.stateFor(v, err))
	}
	if isShown {
		failure = nil
	}
	if len(body.Cores) == 1 && !body.Cores[0].Unreachable {
		body.Cores = nil
	}
	return body, failure
}

// addCore adds the state of a core, and its alarm if it is unreachable.
func (b *coresBody) addCore(c coreState) {
	b.Cores = append(b.Cores, c)
	if c.Unreachable {
		b.Alarms = append(b.Alarms, alarm{Alarm: status.CoreAlarm(c.Name, c.Answered)})
	}
}

// addAlarms adds the alarms of cells.
func (b *coresBody) addAlarms(cells ...cellView) {
	for i := range cells {
		for _, a := range cells[i].Alarms {
			b.Alarms = append(b.Alarms, alarm{a, cells[i].ID})
		}
	}
	slices.SortFunc(b.Alarms, func(a, b alarm) int { return status.CompareAlarms(a.Alarm, b.Alarm) })
}

// stateFor returns the state of a core for a visitor. err is the error of the core, or nil.
func (c *core) stateFor(v visit, err error) coreState {
	state := coreState{Name: c.name, Unreachable: err != nil || c.unreachable(), Unknown: err == nil && !v.Knows(c.name)}
	if answered := c.lastAnswer(); state.Unreachable && !answered.IsZero() {
		state.Answered = &answered
	}
	return state
}

// label returns the name of a core for objects, or nothing if there is only one core.
func (s *server) label(c *core) string {
	if len(s.cores) == 1 {
		return ""
	}
	return c.name
}

// placed adds where a row comes from. Protectors of the manager's core keep their URLs when other cores are added.
func (s *server) placed(r row, c *core) row {
	r.Core, r.CoreUnreachable, r.Path = s.label(c), c.unreachable(), "/protectors/"+r.Namespace+"/"+r.Name
	if c != s.cores[0] {
		r.Path = "/cores/" + c.name + r.Path
	}
	return r
}

// fleetBody is the data of the first page.
type fleetBody struct {
	coresBody
	fleet
	// Namespace is the requested namespace; empty means all. Unasked is the number of omitted namespaces.
	Namespace string `json:"namespace,omitempty"`
	Unasked   int    `json:"namespacesLeftOut,omitempty"`
	// Events reports whether the visitor may see denials in any of the namespaces.
	Events bool `json:"events"`
	// Cells is nil if the visitor may not see them.
	Cells []cellView `json:"cells,omitempty"`
	// Nothing reports whether the visitor may see none of the namespaces with protectors.
	Nothing bool `json:"-"`

	query query
}

func (s *server) fleet(v visit) (any, error) {
	values := v.URL.Query()
	page, err := strconv.Atoi(values.Get("page"))
	if err != nil {
		page = 1
	}
	body := fleetBody{
		Namespace: values.Get("namespace"), Nothing: true,
		query: query{Text: values.Get("q"), State: state(values.Get("state")), Page: page},
	}
	var rows []row
	body.coresBody, err = s.eachCore(v, func(c *core) error {
		of, err := s.rowsFor(v, c, &body)
		if err != nil {
			return err
		}
		cells, _, err := s.cellsFor(v, c)
		rows, body.Cells = append(rows, of...), append(body.Cells, cells...)
		return err
	})
	body.addAlarms(body.Cells...)
	body.fleet = fleetOf(rows, body.query)
	return body, err
}

// rowsFor returns the rows of a core that the visitor may see in the namespaces of the body, and adds to the body what is omitted.
func (s *server) rowsFor(v visit, c *core, body *fleetBody) (rows []row, err error) {
	namespaces := c.store.namespaces()
	if body.Namespace != "" {
		namespaces = []string{body.Namespace}
	}
	protectors, events, err := c.visibleNamespaces(v, namespaces)
	if err != nil {
		return nil, err
	}
	body.Unasked += protectors.Unreviewed
	body.Nothing = body.Nothing && !protectors.All && !slices.ContainsFunc(namespaces, protectors.Has)
	body.Events = body.Events || events.All || slices.ContainsFunc(namespaces, events.Has)
	rows = c.store.protectors(func(namespace string) bool {
		return (body.Namespace == "" || namespace == body.Namespace) && protectors.Has(namespace)
	}, events.Has)
	for i := range rows {
		rows[i] = s.placed(rows[i], c)
	}
	return rows, nil
}

// cellsFor returns the cells of a core; ok is false if the visitor may not see them.
func (s *server) cellsFor(v visit, c *core) (cells []cellView, ok bool, err error) {
	if ok, err = v.IsAllowed(v.Context(), c.name, access.Permission{Group: group, Resource: "cells"}); err != nil || !ok {
		return nil, false, err
	}
	reader, err := c.read()
	if err != nil {
		return nil, false, err
	}
	list := &v1alpha1.CellList{}
	if err := reader.List(v.Context(), list); err != nil {
		return nil, false, fmt.Errorf("list the Cells: %w", err)
	}
	now := s.now()
	for i := range list.Items {
		cell := viewOfCell(s.label(c), &list.Items[i], c.store.heartbeatOf(list.Items[i].Name), now)
		if c.unreachable() {
			cell = cell.lastKnown()
		}
		if c != s.cores[0] {
			cell.ID = c.name + "." + cell.Name
		}
		cells = append(cells, cell)
	}
	slices.SortFunc(cells, func(a, b cellView) int { return cmp.Compare(a.Name, b.Name) })
	return cells, true, nil
}

type cellsBody struct {
	coresBody
	Cells []cellView `json:"cells"`
}

func (s *server) cells(v visit) (any, error) {
	var body cellsBody
	isAllowed := false
	var err error
	body.coresBody, err = s.eachCore(v, func(c *core) error {
		cells, ok, err := s.cellsFor(v, c)
		isAllowed, body.Cells = isAllowed || ok, append(body.Cells, cells...)
		return err
	})
	body.addAlarms(body.Cells...)
	if err == nil && !isAllowed {
		err = forbidden("cells", "the core cluster")
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
