package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/provider"

	"github.com/breakwater-k8s/breakwater/terraform-provider/connection"
)

// ValidateConfig reports a configuration that cannot point to a cluster, before the provider sends any request.
func (b *Breakwater) ValidateConfig(ctx context.Context, req provider.ValidateConfigRequest, resp *provider.ValidateConfigResponse) {
	var m connection.Model
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(m.Validate()...)
	}
}
