package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

type panel = cog.Builder[dashboard.Panel]

// row is a heading and the lines of panels below it.
type row struct {
	title string
	lines []line
}

// line is a number of panels side by side, which have the same height and share the width of the page.
type line struct {
	height uint32
	panels []panel
}

const columns = 24

// placed is a panel with an ID and a size. The SDK computes its position from those of the panels before it.
type placed struct {
	panel
	id, width, height uint32
}

// Build builds the panel.
func (p placed) Build() (dashboard.Panel, error) {
	built, err := p.panel.Build()
	built.Id, built.GridPos = &p.id, &dashboard.GridPos{W: p.width, H: p.height}
	return built, err
}

// place adds the panels to a dashboard.
func place(d *dashboard.DashboardBuilder, rows []row) {
	id := uint32(0)
	next := func() uint32 { id++; return id }
	for _, r := range rows {
		d.WithRow(dashboard.NewRowBuilder(r.title).Id(next()))
		for _, l := range r.lines {
			left := uint32(columns)
			for i, p := range l.panels {
				width := left / uint32(len(l.panels)-i) //nolint:gosec // a line has a few panels
				d.WithPanel(placed{p, next(), width, l.height})
				left -= width
			}
		}
	}
}

// tag is the tag of all dashboards, by which they link to each other.
const tag = "breakwater"

func page(uid, title, description string, variables []*dashboard.QueryVariableBuilder, rows ...row) (dashboard.Dashboard, error) {
	d := dashboard.NewDashboardBuilder(title).Uid(uid).Description(description).Tags([]string{tag}).
		Tooltip(dashboard.DashboardCursorSyncCrosshair).Refresh("30s").Time("now-1h", "now").
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus"))
	for _, v := range variables {
		d.WithVariable(v)
	}
	place(d, rows)
	built, err := d.Build()
	// Grafana migrates a dashboard of an older schema, but not of a newer one: this is the schema of Grafana 10.4.
	built.SchemaVersion = 39
	// The SDK's builder of links places them in a menu.
	built.Links = []dashboard.DashboardLink{{
		Title: "Breakwater", Type: dashboard.DashboardLinkTypeDashboards, Icon: "external link", Tags: []string{tag}, IncludeVars: true, KeepTime: true,
	}}
	return built, err
}

// several is a variable with multiple values. By default all are selected.
func several(name, label, query string) *dashboard.QueryVariableBuilder {
	return single(name, label, query).Multi(true).IncludeAll(true).AllValue(".*")
}

// single is a variable with one value. Grafana queries its values again when the time range changes.
func single(name, label, query string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(label).Query(dashboard.StringOrMap{String: &query}).Datasource(source()).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc)
}
