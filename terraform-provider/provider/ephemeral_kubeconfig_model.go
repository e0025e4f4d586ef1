package provider

import (
	"context"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/util/cert"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// The ServiceAccount that the chart creates for components of other clusters, and the default lifetime of its tokens.
const (
	accessNamespace = "breakwater-system"
	accessName      = "breakwater-access"
	tokenSeconds    = 3600
)

var httpsURL = regexp.MustCompile(`^https://[^/@?#\s]+(/[^?#\s]*)?$`)

// kubeconfigModel holds the configuration and the result.
type kubeconfigModel struct {
	ServiceAccount       types.Object `tfsdk:"service_account"`
	Audiences            types.List   `tfsdk:"audiences"`
	ExpirationSeconds    types.Int64  `tfsdk:"expiration_seconds"`
	Server               types.String `tfsdk:"server"`
	CertificateAuthority types.String `tfsdk:"certificate_authority"`
	Kubeconfig           types.String `tfsdk:"kubeconfig"`
	Token                types.String `tfsdk:"token"`
	ExpiresAt            types.String `tfsdk:"expires_at"`
}

// Schema defines the attributes of the configuration and of the result.
func (e *workerKubeconfig) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "A short-lived kubeconfig of a ServiceAccount in the cluster of the provider, usually an alias for a worker cluster. " +
			"Configure another provider with it, or use it as `kubeconfig_wo` of a `breakwater_cell`. Apply again with a higher `kubeconfig_wo_version` before it " +
			"expires, or the core loses its connection to the cell. For a permanent cell, `breakwater join --token-lifetime 0` creates a kubeconfig " +
			"that does not expire.\n\n" +
			"Every plan and every apply requests its own token. Tokens are not renewed, and closing does nothing: a token cannot be revoked, " +
			"and is valid until it expires or its ServiceAccount is deleted. If the same apply creates the cluster, OpenTofu needs a `depends_on` with its resource. " +
			"Needs Terraform 1.10 or OpenTofu 1.11.",
		Attributes: map[string]schema.Attribute{
			"service_account": schema.SingleNestedAttribute{
				Optional: true, Computed: true, Validators: []validator.Object{shape.SetsSomething{}},
				MarkdownDescription: "The ServiceAccount. Default: the one that the chart creates with `access.enabled: true`.",
				Attributes: map[string]schema.Attribute{
					"namespace": schema.StringAttribute{
						Optional: true, Computed: true, MarkdownDescription: "Its namespace. Default: `" + accessNamespace + "`.",
						Validators: []validator.String{stringvalidator.RegexMatches(namespaceName, "must be the name of a namespace")},
					},
					"name": schema.StringAttribute{
						Optional: true, Computed: true, MarkdownDescription: "Its name. Default: `" + accessName + "`.",
						Validators: []validator.String{stringvalidator.RegexMatches(objectName, "must be the name of a ServiceAccount")},
					},
				},
			},
			"audiences": schema.ListAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Audiences of the token. Default: the API server of the cluster, which accepts no other.",
				Validators:          []validator.List{listvalidator.SizeAtLeast(1), listvalidator.ValueStringsAre(stringvalidator.LengthAtLeast(1))},
			},
			"expiration_seconds": schema.Int64Attribute{
				Optional: true, Computed: true, Validators: []validator.Int64{int64validator.Between(600, 1<<32)},
				MarkdownDescription: "Lifetime of the token in seconds, at least 600. The cluster may grant less: see `expires_at`. Default: `3600`.",
			},
			"server": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "URL by which users of the kubeconfig reach the API server. Default: that of the provider.",
				Validators:          []validator.String{stringvalidator.RegexMatches(httpsURL, "must be a URL like https://worker.example:6443")},
			},
			"certificate_authority": schema.StringAttribute{
				Optional: true, Computed: true, MarkdownDescription: "PEM CA certificates that verify the API server at that URL. Default: those of the provider.",
			},
			"kubeconfig": schema.StringAttribute{Computed: true, Sensitive: true, MarkdownDescription: "The text of the kubeconfig."},
			"token":      schema.StringAttribute{Computed: true, Sensitive: true, MarkdownDescription: "The token in the kubeconfig."},
			"expires_at": schema.StringAttribute{Computed: true, MarkdownDescription: "When the token expires, as `2006-01-02T15:04:05Z`."},
		},
	}
}

// ValidateConfig rejects a certificate_authority that is not PEM certificates.
func (e *workerKubeconfig) ValidateConfig(ctx context.Context, req ephemeral.ValidateConfigRequest, resp *ephemeral.ValidateConfigResponse) {
	var said types.String
	at := path.Root("certificate_authority")
	if resp.Diagnostics.Append(req.Config.GetAttribute(ctx, at, &said)...); said.IsNull() || said.IsUnknown() {
		return
	}
	if _, err := cert.ParseCertsPEM([]byte(said.ValueString())); err != nil {
		resp.Diagnostics.AddAttributeError(at, "No certificate", `It must contain PEM certificates, for example file("ca.crt").`)
	}
}

// setDefaults sets the defaults.
func (m *kubeconfigModel) setDefaults() {
	namespace, name := types.StringValue(accessNamespace), types.StringValue(accessName)
	said := m.ServiceAccount.Attributes()
	if v, ok := said["namespace"].(types.String); ok && !v.IsNull() {
		namespace = v
	}
	if v, ok := said["name"].(types.String); ok && !v.IsNull() {
		name = v
	}
	m.ServiceAccount = types.ObjectValueMust(map[string]attr.Type{"namespace": types.StringType, "name": types.StringType},
		map[string]attr.Value{"namespace": namespace, "name": name})
	if m.ExpirationSeconds.IsNull() {
		m.ExpirationSeconds = types.Int64Value(tokenSeconds)
	}
}

// setUnknown marks the values that only the cluster can provide as unknown.
func (m *kubeconfigModel) setUnknown() {
	m.Kubeconfig, m.Token, m.ExpiresAt = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
	for _, s := range []*types.String{&m.Server, &m.CertificateAuthority} {
		if s.IsNull() {
			*s = types.StringUnknown()
		}
	}
}

func (m *kubeconfigModel) account(attribute string) string {
	s, _ := m.ServiceAccount.Attributes()[attribute].(types.String)
	return s.ValueString()
}

func (m *kubeconfigModel) request(ctx context.Context, d *diag.Diagnostics) *authenticationv1.TokenRequest {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: m.ExpirationSeconds.ValueInt64Pointer()}}
	d.Append(m.Audiences.ElementsAs(ctx, &request.Spec.Audiences, false)...)
	return request
}
