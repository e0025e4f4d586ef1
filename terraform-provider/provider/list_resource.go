package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/breakwater-k8s/breakwater/terraform-provider/validate"
)

// listResource is a list resource: the existing objects of a kind, for terraform query to import.
type listResource struct {
	object
}

// ListResourceConfigSchema defines the attributes that select the objects.
func (l *listResource) ListResourceConfigSchema(_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse) {
	all := map[string]schema.Attribute{
		"label_selector": schema.StringAttribute{Optional: true, Validators: []validator.String{validate.Selector()}, MarkdownDescription: selectorText},
	}
	if l.kind.Namespaced {
		all["namespace"] = schema.StringAttribute{Optional: true, Validators: []validator.String{validate.Namespace()}, MarkdownDescription: namespaceText}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: fmt.Sprintf("Lists all %s of a core cluster, whichever client created them, so that `terraform query` can import them. Needs Terraform 1.14. %s",
			l.kind.plural(), l.kind.Description),
		Attributes: all,
	}
}

// List reads the objects page by page, as the caller consumes them.
func (l *listResource) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	var d diag.Diagnostics
	config, err := attributes(req.Config.Raw)
	switch {
	case err != nil:
		d.AddError("The configuration could not be read", err.Error())
	case l.cluster.isUnknown():
		d.AddError("No cluster to list from yet", fmt.Sprintf("The provider does not know its cluster: %v. terraform query applies nothing: first apply "+
			"the resources that create the cluster, or configure the address of an existing one.", errClusterUnknown))
	default:
		l.cluster.isUsable("list from", &d)
	}
	if d.HasError() {
		stream.Results = list.ListResultsStreamDiagnostics(d)
		return
	}
	namespace := stringAttribute(config, "namespace")
	found := l.cluster.list(ctx, l.kind, namespace, stringAttribute(config, "label_selector"), req.Limit)
	stream.Results = func(push func(list.ListResult) bool) {
		for live, err := range found {
			if err != nil {
				failed := list.ListResult{}
				l.kind.explain(&failed.Diagnostics, "listed", listScope(namespace), err)
				push(failed)
				return
			}
			if !push(l.result(ctx, &req, live)) {
				return
			}
		}
	}
}

// result returns one object, as an import would read it.
func (l *listResource) result(ctx context.Context, req *list.ListRequest, live *unstructured.Unstructured) list.ListResult {
	w := &desired{namespace: live.GetNamespace(), name: live.GetName()}
	result := req.NewListResult(ctx)
	result.DisplayName = w.String()
	l.setIdentity(ctx, result.Identity, w, &result.Diagnostics)
	if !req.IncludeResource {
		return result
	}
	var err error
	if result.Resource.Raw, err = l.kind.refreshedState(result.Resource.Raw, live); err != nil {
		result.Diagnostics.AddError("The answer of the cluster could not be read", fmt.Sprintf("%s %s: %v", l.kind.Kind.Kind, w, err))
	}
	return result
}
