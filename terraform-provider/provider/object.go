package provider

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/terraform-provider/validate"
)

// object is a resource: one object of a kind.
type object struct {
	kind    *kind
	cluster *cluster
}

// Metadata sets the name of the resource. The identity of a resource never changes: another name is another object.
func (o *object) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + o.kind.name
}

// Configure stores the cluster.
func (o *object) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	o.cluster, _ = req.ProviderData.(*cluster)
}

// Schema defines the attributes: the object's metadata and spec side by side, and those that control how Terraform manages the
// object.
func (o *object) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	all := o.kind.Spec.Fields.Attributes()
	maps.Copy(all, o.kind.metadataAttributes())
	maps.Copy(all, o.kind.behaviorAttributes())
	resp.Schema = schema.Schema{
		MarkdownDescription: o.kind.Description,
		Attributes:          all,
		Blocks: map[string]schema.Block{
			"wait":     waitBlock(),
			"timeouts": timeouts.Block(ctx, timeouts.Opts{Create: true, Update: true, Delete: true}),
		},
	}
}

func (k *kind) metadataAttributes() map[string]schema.Attribute {
	another := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	kept := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	all := map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required: true, PlanModifiers: another,
			MarkdownDescription: "Name of the " + k.Kind.Kind + ". A new name replaces the object.",
			Validators:          []validator.String{validate.Name()},
		},
		"labels": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Labels of the object. Labels that other field managers set are not changed.",
		},
		"annotations": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Annotations of the object. Annotations that other field managers set are not changed.",
		},
		"id":  schema.StringAttribute{Computed: true, PlanModifiers: kept, MarkdownDescription: "The ID by which the object is imported."},
		"uid": schema.StringAttribute{Computed: true, PlanModifiers: kept, MarkdownDescription: "UID of the object in the cluster."},
	}
	if k.Namespaced {
		all["namespace"] = schema.StringAttribute{
			Required: true, PlanModifiers: another,
			MarkdownDescription: "Namespace of the object, in the core cluster. A new namespace replaces the object.",
			Validators:          []validator.String{validate.Namespace()},
		}
	}
	return all
}

func (k *kind) behaviorAttributes() map[string]schema.Attribute {
	all := map[string]schema.Attribute{
		"force_conflicts": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "Take over fields that another field manager owns, and an existing object of this name that Terraform does not manage. " +
				"If it is `false`, either is an error that names the other manager. Default: `false`.",
		},
		"deletion_protection": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(k.protected),
			MarkdownDescription: k.protectionText(),
		},
	}
	if k.kubeconfigs {
		maps.Copy(all, kubeconfigAttributes())
	}
	return all
}

// protectionText describes deletion_protection, and what it means for the release brake.
func (k *kind) protectionText() string {
	text := "Refuse to delete or replace the object. To delete it, set this to `false` and apply first. "
	switch {
	case k.protected:
		text += "Then a destroy is a decision: Terraform confirms it to the release brake with the annotation `" + v1alpha1.AnnotationConfirmRelease +
			"`, which ends shortly after the `delete` timeout. So the floors of many protectors are released at once. If the configuration sets the " +
			"annotation, Terraform leaves it as it is. "
	case k.derived != nil:
		text += "The deletion of a policy confirms nothing to the release brake, which may hold the floors of protectors that the policy generated: " +
			"Terraform warns of them. "
	}
	return text + fmt.Sprintf("Default: `%t`.", k.protected)
}

// IdentitySchema defines the attributes that identify an object.
func (o *object) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	all := map[string]identityschema.Attribute{
		"name": identityschema.StringAttribute{RequiredForImport: true, Description: "Name of the object."},
	}
	if o.kind.Namespaced {
		all["namespace"] = identityschema.StringAttribute{RequiredForImport: true, Description: "Namespace of the object."}
	}
	resp.IdentitySchema = identityschema.Schema{Attributes: all}
}

// ValidateConfig validates the configuration against the rules of the kind, as the API server would.
func (o *object) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	w, err := o.kind.desired(req.Config.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The configuration could not be read", err.Error())
		return
	}
	o.kind.check(ctx, w, nil, &resp.Diagnostics)
	o.kind.validateWait(ctx, &req.Config, &resp.Diagnostics)
	if o.kind.kubeconfigs {
		validateKubeconfig(ctx, &req.Config, &resp.Diagnostics)
	}
}

// ImportState imports an object by namespace/name, or by its identity. Read fills in the rest.
func (o *object) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	var namespace, name string
	if req.ID == "" {
		resp.Diagnostics.Append(req.Identity.GetAttribute(ctx, path.Root("name"), &name)...)
		if o.kind.Namespaced {
			resp.Diagnostics.Append(req.Identity.GetAttribute(ctx, path.Root("namespace"), &namespace)...)
		}
	} else {
		var ok bool
		if namespace, name, ok = o.kind.parseID(req.ID); !ok {
			resp.Diagnostics.AddError("Not the name of a "+o.kind.Kind.Kind,
				fmt.Sprintf("%q is not the name of a %s. Import it by %s.", req.ID, o.kind.Kind.Kind, o.kind.idForm()))
			return
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), name)...)
	if o.kind.Namespaced {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("namespace"), namespace)...)
	}
	if o.cluster != nil {
		resp.Diagnostics.Append(writePrivate(ctx, resp.Private, managerKey, o.cluster.manager)...)
	}
	if resp.Identity != nil {
		o.setIdentity(ctx, resp.Identity, &desired{namespace: namespace, name: name}, &resp.Diagnostics)
	}
}

func (k *kind) idForm() string {
	if k.Namespaced {
		return "NAMESPACE/NAME, such as shop/web"
	}
	return "its NAME"
}

func (k *kind) parseID(id string) (namespace, name string, ok bool) {
	if !k.Namespaced {
		return "", id, validate.IsName(id)
	}
	namespace, name, _ = strings.Cut(id, "/")
	return namespace, name, validate.IsNamespace(namespace) && validate.IsName(name)
}
