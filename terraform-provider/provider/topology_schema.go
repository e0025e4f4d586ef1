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
	Pods                int64             `tfsdk:"pods"`
	Protectors          int64             `tfsdk:"protectors"`
	Epoch               int64             `tfsdk:"epoch"`
	Holder              types.String      `tfsdk:"holder"`
	LastHeartbeat       types.String      `tfsdk:"last_heartbeat"`
	KubeconfigSecretRef attr.Value        `tfsdk:"kubeconfig_secret_ref"`
	Namespaces          attr.Value        `tfsdk:"namespaces"`
	PodSelector         attr.Value        `tfsdk:"pod_selector"`
}

// Schema defines the result, and what healthy means.
func (t *topology) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A core cluster and its cells at one look, and whether they are as they should be: for a `check` block, or a " +
			"`precondition` of what must not go on otherwise. A configuration of the provider leads to one core; where there are several, give the " +
			"provider an alias for each, and this data source once with each `provider`.",
		Attributes: map[string]schema.Attribute{
			"healthy": schema.BoolAttribute{Computed: true, MarkdownDescription: "`true` when there is a Cell, and each one is `ready`, " +
				"`aggregation_fresh`, `connected` and `guarded`, none is `overlapping`, and none is deleted and still draining. Of a Cell without " +
				"`kubeconfig_secret_ref`, to whose cluster no flag told the topology controller the way, nobody can say whether it is `connected` and " +
				"`guarded`: that alone is not held against it. It is what `breakwater check` says of Cells."},
			"problems": schema.ListAttribute{Computed: true, ElementType: types.StringType,
				MarkdownDescription: "What is wrong, in sentences that name the Cell. Empty when `healthy`."},
			"core": coreAttribute(),
			"cells": schema.ListNestedAttribute{Computed: true, MarkdownDescription: "The Cells of the core, by name.",
				NestedObject: schema.NestedAttributeObject{Attributes: t.cellAttributes()}},
		},
	}
}

func coreAttribute() schema.Attribute {
	return schema.SingleNestedAttribute{
		Computed: true, MarkdownDescription: "The core cluster that the provider leads to.",
		Attributes: map[string]schema.Attribute{
			"server": schema.StringAttribute{Computed: true, MarkdownDescription: "URL of its apiserver, as the provider calls it."},
			"version": schema.StringAttribute{Computed: true,
				MarkdownDescription: "Version of its apiserver, such as `v1.36.3`. Null when the provider's user may not ask for it."},
			"uid": schema.StringAttribute{Computed: true, MarkdownDescription: "UID of its namespace kube-system, by which Breakwater tells clusters " +
				"apart. Null when the provider's user may not read that namespace."},
		},
	}
}

func (t *topology) cellAttributes() map[string]schema.Attribute {
	text := func(of string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: of}
	}
	number := func(of string) schema.Attribute {
		return schema.Int64Attribute{Computed: true, MarkdownDescription: of}
	}
	const state = " `True`, `False` or `Unknown`."
	spec := t.cells.Spec.SourceAttributes()
	return map[string]schema.Attribute{
		"name":              text("Name of the Cell: the `cell_id` in the status of protectors."),
		"ready":             text("Whether an aggregator leads the cell and has listed its pods." + state),
		"connected":         text("Whether the kubeconfig of the Cell leads to its cluster. `Unknown` where nobody looks." + state),
		"aggregation_fresh": text("Whether the aggregator of the cell has reported within `stale_after`." + state),
		"guarded":           text("Whether the cell's cluster asks the webhook about removals of its pods. `Unknown` where nobody looks." + state),
		"overlapping": text("Whether another Cell of the same cluster can have the same pods, which can break floors: `True` is bad. `False` also " +
			"when the topology controller has looked and has nothing to say." + state),
		"messages": schema.MapAttribute{Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Why one of these is not as it should be, by its name, such as `guarded`. What is as it should be is not in it."},
		"deleting":              schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the Cell is deleted, and still drained."},
		"cluster_uid":           text("UID of the namespace kube-system of the cell's cluster. Null while it is not known."),
		"pods":                  number("Pods in the newest snapshot of the cell."),
		"protectors":            number("Protectors that the aggregator of the cell counts for."),
		"epoch":                 number("Leaderships of the cell so far: each new leader of its aggregator raises it."),
		"holder":                text("Which aggregator leads the cell. Null when none ever did."),
		"last_heartbeat":        text("When the aggregator reported last, by its own clock. Null when it never did."),
		"kubeconfig_secret_ref": spec["kubeconfig_secret_ref"],
		"namespaces":            spec["namespaces"],
		"pod_selector":          spec["pod_selector"],
	}
}
