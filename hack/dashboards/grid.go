package main

// row is a heading and the lines of panels below it.
type row struct {
	title string
	lines []line
}

// line is a number of panels side by side, which have the same height and share the width of the page.
type line struct {
	height int
	panels []Panel
}

const columns = 24

// lay sets the positions and IDs of all panels.
func lay(rows ...row) []Panel {
	var all []Panel
	y := 0
	add := func(p Panel, x, w, h int) {
		p.ID, p.GridPos = len(all)+1, GridPos{H: h, W: w, X: x, Y: y}
		all = append(all, p)
	}
	for _, r := range rows {
		open := false
		add(Panel{Type: "row", Title: r.title, Collapsed: &open, Panels: &[]Panel{}}, 0, columns, 1)
		y++
		for _, l := range r.lines {
			x := 0
			for i, p := range l.panels {
				w := (columns - x) / (len(l.panels) - i)
				add(p, x, w, l.height)
				x += w
			}
			y += l.height
		}
	}
	return all
}

// tag is the tag of all dashboards, by which they link to each other.
const tag = "breakwater"

func dashboard(uid, title, description string, variables []Variable, rows ...row) Dashboard {
	return Dashboard{
		UID: uid, Title: title, Description: description, Tags: []string{tag}, SchemaVersion: 39, Editable: true, GraphTooltip: 1, Refresh: "30s",
		Time: TimeRange{From: "now-1h", To: "now"},
		Links: []Link{{
			Title: "Breakwater", Type: "dashboards", Icon: "external link", Tags: []string{tag}, IncludeVars: true, KeepTime: true,
		}},
		Templating:  Templating{List: append([]Variable{{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus"}}, variables...)},
		Annotations: Annotations{List: []any{}},
		Panels:      lay(rows...),
	}
}

// several is a variable with multiple values. By default all are selected.
func several(name, label, query string) Variable {
	v := single(name, label, query)
	v.Multi, v.IncludeAll, v.AllValue = true, true, ".*"
	return v
}

// single is a variable with one value. Grafana queries its values again when the time range changes.
func single(name, label, query string) Variable {
	return Variable{Name: name, Label: label, Type: "query", Query: query, Datasource: source(), Refresh: 2, Sort: 1}
}
