package provider

import (
	"context"
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
	"github.com/breakwater-k8s/breakwater/terraform-provider/validate"
)

// dataSourceBase holds what all data sources share: the cluster to read from.
type dataSourceBase struct {
	cluster *cluster
}

// Configure stores the cluster.
func (l *dataSourceBase) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	l.cluster, _ = req.ProviderData.(*cluster)
}

// isReady reports whether there is a cluster to read from. If the cluster only becomes known during the apply, ready defers the
// read where Terraform supports that.
func (l *dataSourceBase) isReady(ctx context.Context, req *datasource.ReadRequest, resp *datasource.ReadResponse) bool {
	if !l.cluster.isUnknown() {
		return l.cluster.isUsable("read from", &resp.Diagnostics)
	}
	if req.ClientCapabilities.DeferralAllowed {
		resp.Deferred = &datasource.Deferred{Reason: datasource.DeferredReasonProviderConfigUnknown}
		resp.State.Raw = tftypes.NewValue(resp.State.Schema.Type().TerraformType(ctx), tftypes.UnknownValue)
		return false
	}
	resp.Diagnostics.AddError("No cluster to read from yet",
		fmt.Sprintf("The provider does not know its cluster: %v. Set depends_on to the resources that create the cluster, and the data source is "+
			"read after they are applied; or apply them first, with -target.", errClusterUnknown))
	return false
}

// source is a data source: one object of a kind, regardless of which client created it.
type source struct {
	dataSourceBase
	kind *kind
}

// Metadata gives the data source the same name as the resource of the kind.
func (s *source) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + s.kind.name
}

// Schema defines the attributes: the object's metadata and spec side by side, as in the resource, and its status.
func (s *source) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	all := s.kind.dataSourceAttributes()
	all["name"] = schema.StringAttribute{Required: true, MarkdownDescription: "Name of the " + s.kind.Kind.Kind + ".",
		Validators: []validator.String{validate.Name()}}
	if s.kind.Namespaced {
		all["namespace"] = schema.StringAttribute{Required: true, MarkdownDescription: "Namespace of the " + s.kind.Kind.Kind + ", in the core cluster.",
			Validators: []validator.String{validate.Namespace()}}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "One " + s.kind.Kind.Kind + " of the core cluster, with its status, whichever client created it. It is an error if it " +
			"does not exist. " + s.kind.Description,
		Attributes: all,
	}
}

// Read reads the object.
func (s *source) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if !s.isReady(ctx, &req, resp) {
		return
	}
	config, err := attributes(req.Config.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The configuration could not be read", err.Error())
		return
	}
	w := &desired{namespace: stringAttribute(config, "namespace"), name: stringAttribute(config, "name")}
	live, err := s.cluster.get(ctx, s.kind, w.namespace, w.name)
	if err != nil {
		s.explainMissing(&resp.Diagnostics, w, err)
		return
	}
	told, err := s.kind.dataSourceValues(live)
	if err != nil {
		resp.Diagnostics.AddError("The answer of the cluster could not be read", err.Error())
		return
	}
	resp.State.Raw = tftypes.NewValue(resp.State.Schema.Type().TerraformType(ctx), told)
}

func (s *source) explainMissing(d *diag.Diagnostics, w *desired, err error) {
	if !apierrors.IsNotFound(err) || transport.IsKindMissing(err) {
		s.kind.explain(d, "read", w.String(), err)
		return
	}
	server, _ := transport.ServerOf(s.cluster.config)
	d.AddError("There is no such "+s.kind.Kind.Kind,
		fmt.Sprintf("There is no %s in the cluster at %s. A data source reads existing objects: if another part of this configuration creates it, "+
			"refer to that, or name it in depends_on; or check that the provider is configured for the right cluster.", s.kind.of(w.String()), server))
}

// dataSourceAttributes returns the attributes that data sources have for an object.
func (k *kind) dataSourceAttributes() map[string]schema.Attribute {
	all := k.Spec.Fields.SourceAttributes()
	text := func(of string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: of}
	}
	maps.Copy(all, map[string]schema.Attribute{
		"name": text("Name of the " + k.Kind.Kind + "."),
		"id":   text("The ID by which the object is imported."),
		"uid":  text("UID of the object in the cluster."),
		"labels": schema.MapAttribute{Computed: true, ElementType: metadataFields[2].Element.Type(),
			MarkdownDescription: "All labels of the object."},
		"annotations": schema.MapAttribute{Computed: true, ElementType: metadataFields[3].Element.Type(),
			MarkdownDescription: "All annotations of the object."},
		"generation": schema.Int64Attribute{Computed: true,
			MarkdownDescription: "Generation of the object, which increases with each change of its spec. The status is of it if its `observed_generation` is equal."},
		"status": schema.SingleNestedAttribute{Computed: true, Attributes: k.Status.Fields.SourceAttributes(),
			MarkdownDescription: "State of the object, which the components of Breakwater write. Null until one of them has."},
	})
	if k.Namespaced {
		all["namespace"] = text("Namespace of the " + k.Kind.Kind + ", in the core cluster.")
	}
	return all
}

// dataSourceValues returns the values of dataSourceAttributes for an object.
func (k *kind) dataSourceValues(live *unstructured.Unstructured) (map[string]tftypes.Value, error) {
	w := &desired{namespace: live.GetNamespace(), name: live.GetName()}
	all := map[string]tftypes.Value{
		"name": stringValue(w.name), "id": stringValue(w.String()), "uid": stringValue(string(live.GetUID())),
		"generation": tftypes.NewValue(tftypes.Number, live.GetGeneration()),
	}
	if k.Namespaced {
		all["namespace"] = stringValue(w.namespace)
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
