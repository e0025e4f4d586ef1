package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// source is the data source that the user selects.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}

// query is a query of a panel, and the legend of its results.
type query struct {
	expr, legend string
	// exemplars requests exemplars, which link to traces, as well.
	exemplars bool
}

func one(expr, legend string) []query { return []query{{expr: expr, legend: legend}} }

func targets(queries []query) (all []cog.Builder[variants.Dataquery]) {
	for i, q := range queries {
		all = append(all, target(q).RefId(string(rune('A'+i))))
	}
	return all
}

func target(q query) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Datasource(source()).Expr(q.expr).LegendFormat(q.legend).Exemplar(q.exemplars).
		Format(prometheus.PromQueryFormatTimeSeries).Range()
}

// colors sets the color for values from each step on. The first color is for all lower values.
func colors(first string, steps ...dashboard.Threshold) cog.Builder[dashboard.ThresholdsConfig] {
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(append([]dashboard.Threshold{{Color: first}}, steps...))
}

func from(value float64, color string) dashboard.Threshold {
	return dashboard.Threshold{Value: &value, Color: color}
}

// fixed is the override that gives a series a color.
func fixed(color string) []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{{Id: "color", Value: map[string]string{"mode": "fixed", "fixedColor": color}}}
}

// dashed is the override that gives a series a color and dashes, for a limit.
func dashed(color string) []dashboard.DynamicConfigValue {
	return append(fixed(color),
		dashboard.DynamicConfigValue{Id: "custom.lineStyle", Value: map[string]any{"fill": "dash", "dash": []int{10, 6}}},
		dashboard.DynamicConfigValue{Id: "custom.fillOpacity", Value: 0})
}

// legend is shown below a panel. The SDK hides it by default.
func legend() *common.VizLegendOptionsBuilder {
	return common.NewVizLegendOptionsBuilder().ShowLegend(true)
}

// lines is a panel of values over time.
func lines(title, unit string, queries []query) *timeseries.PanelBuilder {
	return timeseries.NewPanelBuilder().Title(title).Unit(unit).Datasource(source()).Targets(targets(queries)).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdPaletteClassic)).
		DrawStyle(common.GraphDrawStyleLine).LineWidth(1).FillOpacity(10).ShowPoints(common.VisibilityModeNever).
		Legend(legend()).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
}

// stacked is a panel of values over time that add up.
func stacked(title, unit string, queries []query) *timeseries.PanelBuilder {
	return lines(title, unit, queries).FillOpacity(30).Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
}

// number is a panel of one or a few current values.
func number(title, unit string, queries []query) *stat.PanelBuilder {
	return stat.NewPanelBuilder().Title(title).Unit(unit).NoValue("–").Datasource(source()).Targets(targets(queries)).
		Orientation(common.VizOrientationAuto).ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
}

// states is a panel of conditions over time.
func states(title string, queries []query) *statetimeline.PanelBuilder {
	return statetimeline.NewPanelBuilder().Title(title).Datasource(source()).Targets(targets(queries)).
		Mappings([]dashboard.ValueMapping{{ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: goodOrBad()}}}).
		ShowValue(common.VisibilityModeNever).RowHeight(0.8).Legend(legend()).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeSingle).Sort(common.SortOrderNone))
}

// goodOrBad returns the words for the values of a condition that should be True.
func goodOrBad() map[string]dashboard.ValueMappingResult {
	word := func(text, color string, index int32) dashboard.ValueMappingResult {
		return dashboard.ValueMappingResult{Text: &text, Color: &color, Index: &index}
	}
	return map[string]dashboard.ValueMappingResult{
		"1": word("True", "green", 0), "0": word("False", "red", 1), "-1": word("Unknown", "yellow", 2),
	}
}

// density is a panel of a histogram over time.
func density(title, unit, expr string) *heatmap.PanelBuilder {
	return heatmap.NewPanelBuilder().Title(title).Datasource(source()).ShowValue(common.VisibilityModeNever).
		WithTarget(target(query{expr: expr, legend: "{{le}}", exemplars: true}).RefId("A").Format(prometheus.PromQueryFormatHeatmap)).
		YAxis(heatmap.NewYAxisConfigBuilder().AxisPlacement(common.AxisPlacementLeft).Unit(unit)).
		Color(heatmap.NewHeatmapColorOptionsBuilder().Mode(heatmap.HeatmapColorModeScheme).Scheme("Oranges").Fill("dark-orange").
			Scale(heatmap.HeatmapColorScaleExponential).Exponent(0.5).Steps(64)).
		Tooltip(heatmap.NewHeatmapTooltipBuilder().Mode(common.TooltipDisplayModeSingle))
}

// series is a panel with a row for each current series, without the hidden labels.
func series(title string, expr string, names map[string]string, hidden ...string) *table.PanelBuilder {
	exclude := map[string]bool{"Time": true, "__name__": true}
	for _, label := range hidden {
		exclude[label] = true
	}
	return table.NewPanelBuilder().Title(title).Datasource(source()).
		WithTarget(target(query{expr: expr}).RefId("A").Format(prometheus.PromQueryFormatTable).Instant()).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"excludeByName": exclude, "renameByName": names, "indexByName": map[string]int{},
		}})
}
