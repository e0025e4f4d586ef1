package provider

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/breakwater-k8s/breakwater/terraform-provider/validate"
)

// The descriptions of the attributes that select objects of a kind.
const (
	selectorText = "Only objects with these labels, in the syntax of kubectl's `--selector`: `app=web,tier!=cache` or `app in (web, " +
		"api),!legacy`. Default: all."
	namespaceText = "Only objects in this namespace of the core cluster. Default: all namespaces."
)

// sources is a data source: all objects of a kind, or a selection of them.
type sources struct {
	dataSourceBase
	kind *kind
}

// Metadata names the data source by the plural of the kind's resource.
func (s *sources) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + s.plural()
}

func (s *sources) plural() string { return pluralOf(s.kind.name) }

// Schema defines the attributes that select the objects, and a list of objects with the attributes of the singular data source.
func (s *sources) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	order := "name"
	all := map[string]schema.Attribute{
		"label_selector": schema.StringAttribute{Optional: true, Validators: []validator.String{validate.Selector()}, MarkdownDescription: selectorText},
	}
	if s.kind.Namespaced {
		order = "namespace and name"
		all["namespace"] = schema.StringAttribute{Optional: true, Validators: []validator.String{validate.Namespace()}, MarkdownDescription: namespaceText}
	}
	all[s.plural()] = schema.ListNestedAttribute{
		Computed: true, NestedObject: schema.NestedAttributeObject{Attributes: s.kind.dataSourceAttributes()},
		MarkdownDescription: "The objects, by " + order + ". The list is empty if none is selected.",
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: fmt.Sprintf("The %s of a core cluster, all or those that labels select, each with its status, whichever client created it. %s",
			s.kind.plural(), s.kind.Description),
		Attributes: all,
	}
}

// Read reads the objects page by page.
func (s *sources) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if !s.isReady(ctx, &req, resp) {
		return
	}
	all, err := attributes(req.Config.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The configuration could not be read", err.Error())
		return
	}
	namespace := stringAttribute(all, "namespace")
	var objects []*unstructured.Unstructured
	for object, err := range s.cluster.list(ctx, s.kind, namespace, stringAttribute(all, "label_selector"), 0) {
		if err != nil {
			s.kind.explain(&resp.Diagnostics, "listed", listScope(namespace), err)
			return
		}
		objects = append(objects, object)
	}
	// An API server sorts by namespace/name as one string, in which a-b comes before a.
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	list, _ := resp.State.Schema.GetAttributes()[s.plural()].GetType().TerraformType(ctx).(tftypes.List)
	elements := make([]tftypes.Value, len(objects))
	for i, object := range objects {
		told, err := s.kind.dataSourceValues(object)
		if err != nil {
			resp.Diagnostics.AddError("The answer of the cluster could not be read", fmt.Sprintf("%s %s: %v", object.GetNamespace(), object.GetName(), err))
			return
		}
		elements[i] = tftypes.NewValue(list.ElementType, told)
	}
	all[s.plural()] = tftypes.NewValue(list, elements)
	resp.State.Raw = tftypes.NewValue(resp.State.Schema.Type().TerraformType(ctx), all)
}

// listScope says in error messages where the objects were listed.
func listScope(namespace string) string {
	if namespace == "" {
		return "objects"
	}
	return "objects of the namespace " + namespace
}
