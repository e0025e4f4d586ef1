// Package connection turns the configuration of the provider into that of a client, as users know it from other providers for
// Kubernetes.
package connection

import (
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Model is the configuration of the provider.
type Model struct {
	ConfigPath    types.String `tfsdk:"config_path"`
	ConfigContext types.String `tfsdk:"config_context"`
}

// Schema is that of the configuration.
func Schema() schema.Schema {
	return schema.Schema{Attributes: map[string]schema.Attribute{
		"config_path":    schema.StringAttribute{Optional: true},
		"config_context": schema.StringAttribute{Optional: true},
	}}
}

// Unknown tells whether something of it is only known when it is applied.
func (m *Model) Unknown() bool { return m.ConfigPath.IsUnknown() }

// Config is what a client needs. Environment variables stand in for what the configuration does not say.
func (m *Model) Config(_ func(string) string) (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", m.ConfigPath.ValueString())
}
