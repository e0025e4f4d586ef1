package main

import "slices"

// source is the data source that the user selects.
func source() *Datasource { return &Datasource{Type: "prometheus", UID: "${datasource}"} }

// query is a query of a panel, and the legend of its results.
type query struct {
	expr, legend string
	// exemplars requests exemplars, which link to traces, as well.
	exemplars bool
}

func one(expr, legend string) []query { return []query{{expr: expr, legend: legend}} }

func targets(queries []query, format string, instant bool) []Target {
	var all []Target
	for i, q := range queries {
		all = append(all, Target{
			RefID: string(rune('A' + i)), Expr: q.expr, LegendFormat: q.legend, Format: format, Instant: instant, Range: !instant,
			Exemplar: q.exemplars, Datasource: source(),
		})
	}
	return all
}

// change modifies the defaults of a panel.
type change func(*Panel)

func describe(text string) change { return func(p *Panel) { p.Description = text } }

// colors sets the color for values from each step on. The first color is for all lower values.
func colors(first string, steps ...Step) change {
	return func(p *Panel) {
		p.FieldConfig.Defaults.Color = &Color{Mode: "thresholds"}
		p.FieldConfig.Defaults.Thresholds = &Thresholds{Mode: "absolute", Steps: append([]Step{{Color: first}}, steps...)}
	}
}

func from(value float64, color string) Step { return Step{Value: &value, Color: color} }

// words shows values as words.
func words(of map[string]Word) change {
	return func(p *Panel) { p.FieldConfig.Defaults.Mappings = []Mapping{{Type: "value", Options: of}} }
}

// stacked stacks series.
func stacked(p *Panel) {
	p.FieldConfig.Defaults.Custom["stacking"] = map[string]any{"mode": "normal", "group": "A"}
	p.FieldConfig.Defaults.Custom["fillOpacity"] = 30
}

// as sets the color of a series by its legend, and optionally dashes.
func as(name, color string, dashes bool) change {
	return func(p *Panel) {
		properties := []Property{{ID: "color", Value: Color{Mode: "fixed", FixedColor: color}}}
		if dashes {
			properties = append(properties,
				Property{ID: "custom.lineStyle", Value: map[string]any{"fill": "dash", "dash": []int{10, 6}}}, Property{ID: "custom.fillOpacity", Value: 0})
		}
		p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, Override{Matcher: Matcher{ID: "byName", Options: name}, Properties: properties})
	}
}

func panel(kind, title, unit string, all []Target, changes []change) Panel {
	p := Panel{
		Type: kind, Title: title, Datasource: source(), Targets: all,
		FieldConfig: &FieldConfig{Defaults: Field{Unit: unit, Custom: map[string]any{}}, Overrides: []Override{}},
	}
	for _, c := range changes {
		c(&p)
	}
	if len(p.FieldConfig.Defaults.Custom) == 0 {
		p.FieldConfig.Defaults.Custom = nil
	}
	return p
}

// lines is a panel of values over time.
func lines(title, unit string, queries []query, changes ...change) Panel {
	defaults := func(p *Panel) {
		p.FieldConfig.Defaults.Color = &Color{Mode: "palette-classic"}
		p.FieldConfig.Defaults.Custom = map[string]any{"drawStyle": "line", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": false}
		p.Options = map[string]any{
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		}
	}
	return panel("timeseries", title, unit, targets(queries, "time_series", false), slices.Concat([]change{defaults}, changes))
}

// number is a panel of one or a few current values.
func number(title, unit string, queries []query, changes ...change) Panel {
	defaults := func(p *Panel) {
		p.FieldConfig.Defaults.NoValue = "–"
		p.Options = map[string]any{
			"reduceOptions": map[string]any{"values": false, "calcs": []string{"lastNotNull"}, "fields": ""},
			"orientation":   "auto", "textMode": "auto", "colorMode": "value", "graphMode": "area", "justifyMode": "auto",
		}
	}
	return panel("stat", title, unit, targets(queries, "time_series", false), slices.Concat([]change{defaults}, changes))
}

// states is a panel of conditions over time.
func states(title string, queries []query, changes ...change) Panel {
	defaults := func(p *Panel) {
		p.FieldConfig.Defaults.Custom = map[string]any{"fillOpacity": 70, "lineWidth": 0}
		p.Options = map[string]any{
			"showValue": "never", "rowHeight": 0.8, "mergeValues": true, "alignValue": "left",
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			"tooltip": map[string]any{"mode": "single", "sort": "none"},
		}
	}
	return panel("state-timeline", title, "", targets(queries, "time_series", false), slices.Concat([]change{defaults}, changes))
}

// density is a panel of a histogram over time.
func density(title, unit, expr string, changes ...change) Panel {
	defaults := func(p *Panel) {
		p.Options = map[string]any{
			"calculate": false, "cellGap": 1, "showValue": "never",
			"yAxis":        map[string]any{"axisPlacement": "left", "unit": unit},
			"color":        map[string]any{"mode": "scheme", "scheme": "Oranges", "scale": "exponential", "exponent": 0.5, "steps": 64, "reverse": false, "fill": "dark-orange"},
			"filterValues": map[string]any{"le": 1e-9},
			"legend":       map[string]any{"show": true},
			"tooltip":      map[string]any{"mode": "single", "yHistogram": false, "showColorScale": false},
			"exemplars":    map[string]any{"color": "rgba(255,0,255,0.7)"},
			"rowsFrame":    map[string]any{"layout": "auto"},
		}
	}
	return panel("heatmap", title, "", targets([]query{{expr: expr, legend: "{{le}}", exemplars: true}}, "heatmap", false), slices.Concat([]change{defaults}, changes))
}

// table is a panel with a row for each current series, without the hidden labels.
func table(title string, expr string, names map[string]string, hidden []string, changes ...change) Panel {
	exclude := map[string]bool{"Time": true, "__name__": true}
	for _, label := range hidden {
		exclude[label] = true
	}
	defaults := func(p *Panel) {
		p.Options = map[string]any{"showHeader": true, "cellHeight": "sm"}
		p.Transformations = []Transformation{{ID: "organize", Options: map[string]any{
			"excludeByName": exclude, "renameByName": names, "indexByName": map[string]int{},
		}}}
	}
	return panel("table", title, "", targets(one(expr, ""), "table", true), slices.Concat([]change{defaults}, changes))
}
