package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/provider"

	"github.com/breakwater-k8s/breakwater/terraform-provider/connection"
)

// ValidateConfig tells of what cannot lead to a cluster, before anything is asked there.
func (b *Breakwater) ValidateConfig(ctx context.Context, req provider.ValidateConfigRequest, resp *provider.ValidateConfigResponse) {
	var m connection.Model
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(m.Validate()...)
	}
}
