package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// topologyModel is the result of the data source.
type topologyModel struct {
	Core     coreModel   `tfsdk:"core"`
	Cells    []cellModel `tfsdk:"cells"`
	Healthy  bool        `tfsdk:"healthy"`
	Problems []string    `tfsdk:"problems"`
}

type coreModel struct {
	Server  string       `tfsdk:"server"`
	Version types.String `tfsdk:"version"`
	UID     types.String `tfsdk:"uid"`
}

type cellModel struct {
	Name                string            `tfsdk:"name"`
	Ready               string            `tfsdk:"ready"`
	Connected           string            `tfsdk:"connected"`
	AggregationFresh    string            `tfsdk:"aggregation_fresh"`
	Guarded             string            `tfsdk:"guarded"`
	Overlapping         string            `tfsdk:"overlapping"`
	Messages            map[string]string `tfsdk:"messages"`
	Deleting            bool              `tfsdk:"deleting"`
	ClusterUID          types.String      `tfsdk:"cluster_uid"`
	KubeconfigSecretRef attr.Value        `tfsdk:"kubeconfig_secret_ref"`
	Namespaces          attr.Value        `tfsdk:"namespaces"`
	PodSelector         attr.Value        `tfsdk:"pod_selector"`
}

// Schema defines the result, and what healthy means.
func (t *topology) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A core cluster with its cells, and whether they are healthy: for a `check` block, or a " +
			"`precondition` of resources that need a healthy core. A configuration of the provider is for one core. If there are several, configure the " +
			"provider with an alias for each, and use this data source once for each `provider`. Nothing in it changes unless the state of a cell does, so " +
			"an output of it causes no change in a plan; `breakwater_cell` also has the numbers of a cell and its last heartbeat.",
		Attributes: map[string]schema.Attribute{
			"healthy": schema.BoolAttribute{Computed: true, MarkdownDescription: "`true` when there is a Cell, and each one is `ready`, " +
				"`aggregation_fresh`, `connected` and `guarded`, none is `overlapping`, and none is deleted and still draining. For a Cell without " +
				"`kubeconfig_secret_ref`, to whose cluster no flag gives the topology controller access, it is unknown whether it is `connected` and " +
				"`guarded`: that alone does not make it unhealthy. `breakwater check` applies the same rule to Cells."},
			"problems": schema.ListAttribute{Computed: true, ElementType: types.StringType,
				MarkdownDescription: "The problems, in sentences that name the Cell. Empty if `healthy`."},
			"core": coreAttribute(),
			"cells": schema.ListNestedAttribute{Computed: true, MarkdownDescription: "The Cells of the core, by name.",
				NestedObject: schema.NestedAttributeObject{Attributes: t.cellAttributes()}},
		},
	}
}

func coreAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		Computed: true, MarkdownDescription: "The core cluster of the provider.",
		Attributes: map[string]schema.Attribute{
			"server": schema.StringAttribute{Computed: true, MarkdownDescription: "URL of its API server, as the provider calls it."},
			"version": schema.StringAttribute{Computed: true,
				MarkdownDescription: "Version of its API server, such as `v1.36.3`. Null if the provider's user may not read it."},
			"uid": schema.StringAttribute{Computed: true, MarkdownDescription: "UID of its namespace kube-system, by which Breakwater identifies " +
				"clusters. Null if the provider's user may not read that namespace."},
		},
	}
}

func (t *topology) cellAttributes() map[string]schema.Attribute {
	text := func(of string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: of}
	}
	const state = " `True`, `False` or `Unknown`."
	spec := t.cells.Spec.Fields.SourceAttributes()
	return map[string]schema.Attribute{
		"name":              text("Name of the Cell: the `cell_id` in the status of protectors."),
		"ready":             text("Whether an aggregator leads the cell and has listed its pods." + state),
		"connected":         text("Whether the kubeconfig of the Cell connects to its cluster. `Unknown` if no controller checks it." + state),
		"aggregation_fresh": text("Whether the aggregator of the cell has reported within `stale_after`." + state),
		"guarded":           text("Whether the cell's cluster sends removals of its pods to the webhook. `Unknown` if no controller checks it." + state),
		"overlapping": text("Whether another Cell of the same cluster can have the same pods, which can break floors: `True` is a problem. `False` also " +
			"if the topology controller has checked and found nothing." + state),
		"messages": schema.MapAttribute{Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Why one of these does not have the desired status, by its name, such as `guarded`. The others are not in it."},
		"deleting":              schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the Cell is deleted, and still drained."},
		"cluster_uid":           text("UID of the namespace kube-system of the cell's cluster. Null while it is not known."),
		"kubeconfig_secret_ref": spec["kubeconfig_secret_ref"],
		"namespaces":            spec["namespaces"],
		"pod_selector":          spec["pod_selector"],
	}
}
