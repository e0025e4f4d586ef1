package provider_test

import (
	"context"
	"encoding/json"
	"maps"
	"math/big"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	providerschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// manifests is a fake of the provider hashicorp/kubernetes, which cannot be built here: its module path lacks /v2 or /v3, so Go
// finds no release newer than v1.13.4, and kubernetes_manifest came with v2.4. A move depends only on what the provider leaves
// behind, and the fake takes that from the provider's sources: the schema of its state (version 1), which Terraform writes here
// as it does for the real one; the content of the attribute object; and the owner of the fields in the cluster. The owner is the
// field manager "Terraform", or the one that the resource names, by server-side apply.
type manifests struct {
	client client.Client
}

func (k manifests) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "kubernetes"
}

func (k manifests) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = providerschema.Schema{}
}

func (k manifests) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {
}

func (k manifests) DataSources(context.Context) []func() datasource.DataSource { return nil }

func (k manifests) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return &manifest{client: k.client} }}
}

// manifest is the resource kubernetes_manifest.
type manifest struct {
	client client.Client
}

// manifestState is the state of the resource.
type manifestState struct {
	Manifest       types.Dynamic `tfsdk:"manifest"`
	Object         types.Dynamic `tfsdk:"object"`
	WaitFor        types.Object  `tfsdk:"wait_for"`
	ComputedFields types.List    `tfsdk:"computed_fields"`
	SkipValidation types.Bool    `tfsdk:"skip_validation"`
	Timeouts       types.List    `tfsdk:"timeouts"`
	Wait           types.List    `tfsdk:"wait"`
	FieldManager   []struct {
		Name           types.String `tfsdk:"name"`
		ForceConflicts types.Bool   `tfsdk:"force_conflicts"`
	} `tfsdk:"field_manager"`
}

func (m *manifest) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "kubernetes_manifest"
}

func (m *manifest) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	text, texts := schema.StringAttribute{Optional: true}, types.MapType{ElemType: types.StringType}
	resp.Schema = schema.Schema{
		Version: 1,
		Attributes: map[string]schema.Attribute{
			"manifest":        schema.DynamicAttribute{Required: true},
			"object":          schema.DynamicAttribute{Optional: true, Computed: true},
			"wait_for":        schema.ObjectAttribute{Optional: true, AttributeTypes: map[string]attr.Type{"fields": texts}},
			"computed_fields": schema.ListAttribute{Optional: true, ElementType: types.StringType},
			"skip_validation": schema.BoolAttribute{Optional: true},
		},
		Blocks: map[string]schema.Block{
			"timeouts": schema.ListNestedBlock{NestedObject: schema.NestedBlockObject{
				Attributes: map[string]schema.Attribute{"create": text, "update": text, "delete": text}}},
			"field_manager": schema.ListNestedBlock{NestedObject: schema.NestedBlockObject{
				Attributes: map[string]schema.Attribute{"name": text, "force_conflicts": schema.BoolAttribute{Optional: true}}}},
			"wait": schema.ListNestedBlock{NestedObject: schema.NestedBlockObject{
				Attributes: map[string]schema.Attribute{
					"rollout": schema.BoolAttribute{Optional: true}, "fields": schema.MapAttribute{Optional: true, ElementType: types.StringType}},
				Blocks: map[string]schema.Block{"condition": schema.ListNestedBlock{NestedObject: schema.NestedBlockObject{
					Attributes: map[string]schema.Attribute{"type": text, "status": text}}}}}},
		},
	}
}

func (m *manifest) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	m.apply(ctx, req.Plan, &resp.State, &resp.Diagnostics)
}

func (m *manifest) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	m.apply(ctx, req.Plan, &resp.State, &resp.Diagnostics)
}

func (m *manifest) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

func (m *manifest) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var s manifestState
	if resp.Diagnostics.Append(req.State.Get(ctx, &s)...); resp.Diagnostics.HasError() {
		return
	}
	object := &unstructured.Unstructured{Object: plain(s.Manifest).(map[string]any)}
	if err := m.client.Delete(ctx, object); err != nil && !apierrors.IsNotFound(err) {
		resp.Diagnostics.AddError("Not deleted", err.Error())
	}
}

// apply stores in object what the real provider stores: everything except the fields that the API server sets.
func (m *manifest) apply(ctx context.Context, plan tfsdk.Plan, state *tfsdk.State, d *diag.Diagnostics) {
	var s manifestState
	if d.Append(plan.Get(ctx, &s)...); d.HasError() {
		return
	}
	owner := "Terraform"
	if len(s.FieldManager) > 0 {
		owner = s.FieldManager[0].Name.ValueString()
	}
	object := &unstructured.Unstructured{Object: plain(s.Manifest).(map[string]any)}
	if err := m.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(owner)); err != nil {
		d.AddError("Not applied", err.Error())
		return
	}
	delete(object.Object, "status")
	for _, own := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(object.Object, "metadata", own)
	}
	s.Object = types.DynamicValue(typed(object.Object))
	d.Append(state.Set(ctx, &s)...)
}

// plain converts a Terraform value to JSON, without nulls.
func plain(v attr.Value) any {
	switch v := v.(type) {
	case types.Dynamic:
		return plain(v.UnderlyingValue())
	case types.Object:
		object := map[string]any{}
		for name, of := range v.Attributes() {
			if !of.IsNull() {
				object[name] = plain(of)
			}
		}
		return object
	case types.Tuple:
		all := []any{}
		for _, of := range v.Elements() {
			all = append(all, plain(of))
		}
		return all
	case types.Number:
		n, _ := v.ValueBigFloat().Int64()
		return n
	case types.Bool:
		return v.ValueBool()
	case types.String:
		return v.ValueString()
	}
	return nil
}

// typed converts JSON to a Terraform value with the type of its content.
func typed(v any) attr.Value {
	switch v := v.(type) {
	case map[string]any:
		kinds, all := map[string]attr.Type{}, map[string]attr.Value{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all[name] = typed(v[name])
			kinds[name] = all[name].Type(context.Background())
		}
		return types.ObjectValueMust(kinds, all)
	case []any:
		kinds, all := []attr.Type{}, []attr.Value{}
		for _, of := range v {
			all = append(all, typed(of))
			kinds = append(kinds, all[len(all)-1].Type(context.Background()))
		}
		return types.TupleValueMust(kinds, all)
	case bool:
		return types.BoolValue(v)
	case int64:
		return types.NumberValue(new(big.Float).SetInt64(v))
	case string:
		return types.StringValue(v)
	default:
		raw, _ := json.Marshal(v)
		return types.StringValue(string(raw))
	}
}
