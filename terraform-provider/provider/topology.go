package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/terraform-provider/health"
	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
)

// topology is a data source: an overview of a core cluster and its cells.
type topology struct {
	dataSourceBase
	// cells is the kind Cell.
	cells *kind
}

// Metadata sets the name of the data source.
func (t *topology) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_topology"
}

// Read reads the core cluster and all its Cells.
func (t *topology) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	if !t.isReady(ctx, &req, resp) {
		return
	}
	m := topologyModel{Cells: []cellModel{}, Problems: []string{}}
	for object, err := range t.cluster.list(ctx, t.cells, "", "", 0) {
		if err != nil {
			t.cells.explain(&resp.Diagnostics, "listed", listScope(""), err)
			return
		}
		cell, problems, err := t.cell(object)
		if err != nil {
			resp.Diagnostics.AddError("The answer of the cluster could not be read", fmt.Sprintf("Cell %s: %v", object.GetName(), err))
			return
		}
		m.Cells, m.Problems = append(m.Cells, *cell), append(m.Problems, problems...)
	}
	if len(m.Cells) == 0 {
		m.Problems = append(m.Problems, "The core has no Cells, so no pod is counted or guarded.")
	}
	m.Healthy = len(m.Problems) == 0
	var err error
	if m.Core, err = t.cluster.core(ctx); err != nil {
		addErrorWithRemedy(&resp.Diagnostics, "The core cluster could not be read", "", err)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// cell returns the attributes of a Cell and its problems.
func (t *topology) cell(object *unstructured.Unstructured) (*cellModel, []string, error) {
	cell := &v1alpha1.Cell{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, cell); err != nil {
		return nil, nil, err
	}
	h := health.Of(cell)
	m := &cellModel{
		Name: cell.Name, Deleting: cell.DeletionTimestamp != nil, Messages: h.Messages,
		Ready: h.States["ready"], Connected: h.States["connected"], AggregationFresh: h.States["aggregation_fresh"],
		Guarded: h.States["guarded"], Overlapping: h.States["overlapping"],
		ClusterUID: stringOrNull(cell.Status.Cluster),
	}
	spec, _ := object.Object["spec"].(map[string]any)
	for name, into := range map[string]*attr.Value{
		"kubeconfigSecretRef": &m.KubeconfigSecretRef, "namespaces": &m.Namespaces, "podSelector": &m.PodSelector,
	} {
		var err error
		if *into, err = t.cells.Spec.Child(name).Value(spec[name]); err != nil {
			return nil, nil, err
		}
	}
	return m, h.Problems, nil
}

// core reads facts about the cluster itself. It leaves out what the provider's user may not read.
func (c *cluster) core(ctx context.Context) (m coreModel, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if m.Server, err = transport.ServerOf(c.config); err != nil {
		return m, err
	}
	if m.Version, err = valueOrNull(ctx, c.version); err != nil {
		return m, err
	}
	m.UID, err = valueOrNull(ctx, c.readUID)
	return m, err
}

// valueOrNull returns a text that ask reads from the cluster, or null if the provider's user may not read it.
func valueOrNull(ctx context.Context, ask func(context.Context) (string, error)) (types.String, error) {
	var text string
	err := transport.Retry(ctx, func(ctx context.Context) (err error) {
		text, err = ask(ctx)
		return err
	})
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return types.StringNull(), nil
	}
	return stringOrNull(text), err
}

// stringOrNull returns the text, or null if it is empty.
func stringOrNull(s string) types.String {
	if s == "" {
		return types.StringNull()
	}
	return types.StringValue(s)
}
