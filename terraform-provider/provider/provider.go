// Package provider is the Terraform provider of Breakwater: protectors, policies and topology as code.
package provider

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/breakwater-k8s/breakwater/terraform-provider/connection"
	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
)

// Source is the address of the provider, without the host of a registry.
const Source = "breakwater-k8s/breakwater"

// Breakwater is the provider.
type Breakwater struct {
	version string
	// patience is how long a cluster may be unreachable.
	patience time.Duration
	kinds    []*kind
	// cluster is that of the last configuration.
	cluster atomic.Pointer[cluster]
}

func newProvider(version string) *Breakwater {
	return &Breakwater{version: version, patience: transport.DefaultPatience, kinds: kinds()}
}

// Metadata sets the name of the provider.
func (b *Breakwater) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "breakwater", b.version
}

// Schema defines the configuration of the provider.
func (b *Breakwater) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = connection.Schema()
}

// Configure sets the cluster that all resources, data sources and actions use.
func (b *Breakwater) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	c := newCluster(ctx, req, &resp.Diagnostics, b)
	resp.ResourceData, resp.DataSourceData, resp.ListResourceData, resp.ActionData = c, c, c, c
	b.cluster.Store(c)
}

// Resources returns one resource for each kind.
func (b *Breakwater) Resources(context.Context) []func() resource.Resource {
	all := make([]func() resource.Resource, len(b.kinds))
	for i, k := range b.kinds {
		all[i] = func() resource.Resource { return &object{kind: k} }
	}
	return all
}

// DataSources returns the data sources for existing objects.
func (b *Breakwater) DataSources(context.Context) []func() datasource.DataSource {
	var all []func() datasource.DataSource
	for _, k := range b.kinds {
		all = append(all, func() datasource.DataSource { return &source{kind: k} }, func() datasource.DataSource { return &sources{kind: k} })
	}
	return append(all, func() datasource.DataSource { return &topology{cells: b.kind("cell")} })
}

// ListResources returns one list resource for each kind.
func (b *Breakwater) ListResources(context.Context) []func() list.ListResource {
	all := make([]func() list.ListResource, len(b.kinds))
	for i, k := range b.kinds {
		all[i] = func() list.ListResource { return &listResource{object{kind: k}} }
	}
	return all
}

// Actions returns operations that a state cannot express.
func (b *Breakwater) Actions(context.Context) []func() action.Action {
	return []func() action.Action{
		func() action.Action { return &release{} },
		func() action.Action { return &removeCell{protectors: b.kind("pod_protector"), cells: b.kind("cell")} },
	}
}

// Functions returns functions, which need no cluster.
func (b *Breakwater) Functions(context.Context) []func() function.Function {
	return []func() function.Function{func() function.Function { return &floor{protectors: b.kind("pod_protector")} }}
}

// kind returns the kind with the name of a resource.
func (b *Breakwater) kind(name string) *kind {
	return b.kinds[slices.IndexFunc(b.kinds, func(k *kind) bool { return k.name == name })]
}

// ValidateConfig reports a configuration that cannot point to a cluster, before the provider sends any request.
func (b *Breakwater) ValidateConfig(ctx context.Context, req provider.ValidateConfigRequest, resp *provider.ValidateConfigResponse) {
	var m connection.Model
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(m.Validate()...)
	}
}
