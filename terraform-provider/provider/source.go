package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// looking holds what all data sources share: the cluster to read from.
type looking struct {
	cluster *cluster
}

// Configure stores the cluster.
func (l *looking) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	l.cluster, _ = req.ProviderData.(*cluster)
}

// ready reports whether there is a cluster to read from. If the cluster only becomes known during the apply, ready defers the
// read where Terraform supports that.
func (l *looking) ready(ctx context.Context, req *datasource.ReadRequest, resp *datasource.ReadResponse) bool {
	if l.cluster == nil || !errors.Is(l.cluster.absent, errUnknown) {
		return l.cluster.usable("read from", &resp.Diagnostics)
	}
	if req.ClientCapabilities.DeferralAllowed {
		resp.Deferred = &datasource.Deferred{Reason: datasource.DeferredReasonProviderConfigUnknown}
		resp.State.Raw = tftypes.NewValue(resp.State.Schema.Type().TerraformType(ctx), tftypes.UnknownValue)
		return false
	}
	resp.Diagnostics.AddError("No cluster to read from yet",
		fmt.Sprintf("The provider does not know its cluster: %v. Let this data source depend on what makes the cluster, by depends_on, and it is "+
			"read when that was applied; or apply that first, by -target.", errUnknown))
	return false
}

// source is a data source: one object of a kind, regardless of which client created it.
type source struct {
	looking
	kind *kind
}

// Metadata gives the data source the same name as the resource of the kind.
func (s *source) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + s.kind.name
}

// Schema defines the attributes: the object's metadata and spec side by side, as in the resource, and its status.
func (s *source) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	all := s.kind.toldAttributes()
	all["name"] = schema.StringAttribute{Required: true, MarkdownDescription: "Name of the " + s.kind.Kind.Kind + ".",
		Validators: []validator.String{nameRule()}}
	if s.kind.Namespaced {
		all["namespace"] = schema.StringAttribute{Required: true, MarkdownDescription: "Namespace of the " + s.kind.Kind.Kind + ", in the core cluster.",
			Validators: []validator.String{namespaceRule()}}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "One " + s.kind.Kind.Kind + " as the core cluster has it, with its status, whoever made it. It is an error when there " +
			"is none. " + s.kind.Description,
		Attributes: all,
	}
}

// Read reads the object.
func (s *source) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if !s.ready(ctx, &req, resp) {
		return
	}
	config, err := attributes(req.Config.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The configuration could not be read", err.Error())
		return
	}
	w := &wanted{namespace: readOf(config, "namespace"), name: readOf(config, "name")}
	live, err := s.cluster.get(ctx, s.kind, w.namespace, w.name)
	if err != nil {
		s.explainMissing(&resp.Diagnostics, w, err)
		return
	}
	told, err := s.kind.told(live)
	if err != nil {
		resp.Diagnostics.AddError("The answer of the cluster could not be read", err.Error())
		return
	}
	resp.State.Raw = tftypes.NewValue(resp.State.Schema.Type().TerraformType(ctx), told)
}

func (s *source) explainMissing(d *diag.Diagnostics, w *wanted, err error) {
	if !apierrors.IsNotFound(err) || isKindMissing(err) {
		s.kind.explain(d, "read", w.String(), err)
		return
	}
	server, _ := serverOf(s.cluster.config)
	d.AddError(fmt.Sprintf("There is no %s %s", s.kind.Kind.Kind, w),
		fmt.Sprintf("The cluster at %s has none of that name. A data source reads what is there: if another part of this configuration makes it, "+
			"refer to that, or name it in depends_on; or see whether the provider leads to the right cluster.", server))
}

// toldAttributes returns the attributes that data sources have for an object.
func (k *kind) toldAttributes() map[string]schema.Attribute {
	all := k.Spec.SourceAttributes()
	text := func(of string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: of}
	}
	maps.Copy(all, map[string]schema.Attribute{
		"name": text("Name of the " + k.Kind.Kind + "."),
		"id":   text("What the object is imported by."),
		"uid":  text("UID of the object in the cluster."),
		"labels": schema.MapAttribute{Computed: true, ElementType: metadataFields[2].Element.Type(),
			MarkdownDescription: "All labels of the object."},
		"annotations": schema.MapAttribute{Computed: true, ElementType: metadataFields[3].Element.Type(),
			MarkdownDescription: "All annotations of the object."},
		"generation": schema.Int64Attribute{Computed: true,
			MarkdownDescription: "Generation of the object: how often its spec has changed. The status is of it when its `observed_generation` is as high."},
		"status": schema.SingleNestedAttribute{Computed: true, Attributes: k.Status.SourceAttributes(),
			MarkdownDescription: "State of the object, which the components of Breakwater write. Null while none of them has."},
	})
	if k.Namespaced {
		all["namespace"] = text("Namespace of the " + k.Kind.Kind + ", in the core cluster.")
	}
	return all
}

// told returns the values of toldAttributes for an object.
func (k *kind) told(live *unstructured.Unstructured) (map[string]tftypes.Value, error) {
	w := &wanted{namespace: live.GetNamespace(), name: live.GetName()}
	all := map[string]tftypes.Value{
		"name": text(w.name), "id": text(w.String()), "uid": text(string(live.GetUID())),
		"generation": tftypes.NewValue(tftypes.Number, live.GetGeneration()),
	}
	if k.Namespaced {
		all["namespace"] = text(w.namespace)
	}
	metadata, _ := live.Object["metadata"].(map[string]any)
	spec, _ := live.Object["spec"].(map[string]any)
	var err error
	for _, f := range metadataFields[2:] {
		if all[f.Name], err = f.Decode(metadata[f.JSON]); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	for _, f := range k.Spec.Fields {
		if all[f.Name], err = f.Decode(spec[f.JSON]); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if all["status"], err = k.Status.Decode(live.Object["status"]); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	return all, nil
}
