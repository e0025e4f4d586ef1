package provider_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/breakwater-k8s/breakwater/terraform-provider/provider"
)

// protocolClient calls the provider with Terraform's protocol, for features that the Terraform version of the tests lacks.
type protocolClient struct {
	tfprotov6.ProviderServer
	t       *testing.T
	schemas *tfprotov6.GetProviderSchemaResponse
}

// values are some attributes of an object. Omitted ones are null.
type values map[string]tftypes.Value

// newProtocolClient configures a provider.
func newProtocolClient(t *testing.T, configuration values) *protocolClient {
	t.Helper()
	server := provider.Server("test")()
	s := &protocolClient{ProviderServer: server, t: t}
	var err error
	if s.schemas, err = server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{}); err != nil {
		t.Fatal(err)
	}
	s.wantNoDiagnostics(s.schemas.Diagnostics)
	configured, err := server.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{
		TerraformVersion: "1.14.0", Config: s.object(s.schemas.Provider, configuration),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.wantNoDiagnostics(configured.Diagnostics)
	return s
}

// newProtocolClientFor configures a provider for the cluster of a kubeconfig.
func newProtocolClientFor(t *testing.T, kubeconfig string) *protocolClient {
	t.Helper()
	return newProtocolClient(t, values{"config_path": stringArgument(kubeconfig)})
}

// newProtocolClientWithoutCluster configures a provider whose cluster only becomes known during the apply.
func newProtocolClientWithoutCluster(t *testing.T) *protocolClient {
	t.Helper()
	return newProtocolClient(t, values{"config_path": tftypes.NewValue(tftypes.String, tftypes.UnknownValue)})
}

func stringArgument(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }

func trueArgument() tftypes.Value { return tftypes.NewValue(tftypes.Bool, true) }

// object returns an object of a schema, with the given attributes.
func (s *protocolClient) object(schema *tfprotov6.Schema, given values) *tfprotov6.DynamicValue {
	s.t.Helper()
	if schema == nil {
		s.t.Fatal("the provider has no such schema")
	}
	of := schema.ValueType().(tftypes.Object)
	all := map[string]tftypes.Value{}
	for name, t := range of.AttributeTypes {
		all[name] = tftypes.NewValue(t, nil)
	}
	for name, v := range given {
		if _, known := all[name]; !known {
			s.t.Fatalf("there is no attribute %s", name)
		}
		all[name] = v
	}
	value, err := tfprotov6.NewDynamicValue(of, tftypes.NewValue(of, all))
	if err != nil {
		s.t.Fatal(err)
	}
	return &value
}

// read decodes an object.
func (s *protocolClient) read(schema *tfprotov6.Schema, value *tfprotov6.DynamicValue) tftypes.Value {
	s.t.Helper()
	v, err := value.Unmarshal(schema.ValueType())
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// wantNoDiagnostics fails the test if there are diagnostics.
func (s *protocolClient) wantNoDiagnostics(all []*tfprotov6.Diagnostic) {
	s.t.Helper()
	if len(all) > 0 {
		s.t.Fatal(diagnosticText(all))
	}
}

// diagnosticText joins diagnostics into one text.
func diagnosticText(all []*tfprotov6.Diagnostic) string {
	var text strings.Builder
	for _, d := range all {
		text.WriteString(d.Severity.String() + ": " + d.Summary + ": " + d.Detail + "\n")
	}
	return text.String()
}
