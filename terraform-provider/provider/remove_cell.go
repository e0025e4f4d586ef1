package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/boolvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/breakwater-k8s/breakwater/terraform-provider/validate"
)

// removeCell is an action that clears a dead cell from one protector, or from all.
type removeCell struct {
	actionBase
	cells, protectors *kind
}

// removeTimeout is the default timeout of the action.
const removeTimeout = 5 * time.Minute

// Metadata sets the name of the action.
func (*removeCell) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_remove_cell"
}

type removeCellModel struct {
	Cell          types.String `tfsdk:"cell"`
	Namespace     types.String `tfsdk:"namespace"`
	Name          types.String `tfsdk:"name"`
	AllProtectors types.Bool   `tfsdk:"all_protectors"`
	Timeout       types.String `tfsdk:"timeout"`
}

// Schema defines the cell and the protectors to clear it from.
func (*removeCell) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Removes a dead cell from one protector, or from all: the topology controller deletes its counts and reservations, " +
			"which no aggregator will settle any more. The action sets the annotation `breakwater.dev/remove-cell` and waits until the controller has removed " +
			"it. Removals under way in the cell are no longer counted, so make sure that the cell is dead: the action fails while the " +
			"cell's aggregator reports, and so does the controller. To take a running cell out of service, delete its Cell, which drains it. Needs " +
			"Terraform 1.14.",
		Attributes: map[string]schema.Attribute{
			"cell": schema.StringAttribute{Required: true, Validators: []validator.String{validate.Name()},
				MarkdownDescription: "Name of the cell, as in the `cell_id` of the status of protectors. Its Cell need not exist."},
			"namespace": schema.StringAttribute{Optional: true, Validators: []validator.String{validate.Namespace()},
				MarkdownDescription: "Namespace of the protector."},
			"name": schema.StringAttribute{Optional: true, Validators: []validator.String{validate.Name()},
				MarkdownDescription: "Name of the protector."},
			"all_protectors": schema.BoolAttribute{Optional: true,
				Validators:          []validator.Bool{boolvalidator.ConflictsWith(path.MatchRoot("namespace"), path.MatchRoot("name"))},
				MarkdownDescription: "Remove the cell from all protectors that have it, instead of the one that `namespace` and `name` select. Default: `false`."},
			"timeout": schema.StringAttribute{Optional: true, Validators: []validator.String{validate.Duration()},
				MarkdownDescription: "How long to wait for the topology controller, such as `90s`. The controller itself waits for the `stale_after` of the Cell " +
					"if it has watched the Cell for less than that. Default: `5m`."},
		},
	}
}

// ValidateConfig rejects a configuration that does not say which protectors.
func (*removeCell) ValidateConfig(ctx context.Context, req action.ValidateConfigRequest, resp *action.ValidateConfigResponse) {
	var m removeCellModel
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	if m.AllProtectors.IsUnknown() || m.AllProtectors.ValueBool() {
		return
	}
	for name, given := range map[string]types.String{"namespace": m.Namespace, "name": m.Name} {
		if given.IsNull() {
			resp.Diagnostics.AddAttributeError(path.Root(name), "No protector selected",
				"Set the namespace and the name of the protector to remove the cell from, or set all_protectors = true.")
		}
	}
}

// Invoke clears the cell.
func (r *removeCell) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var m removeCellModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() || !r.cluster.isUsable("remove the cell in", &resp.Diagnostics) {
		return
	}
	limit := removeTimeout
	if d, err := time.ParseDuration(m.Timeout.ValueString()); err == nil {
		limit = d
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cell := m.Cell.ValueString()
	why, err := r.aliveReason(ctx, cell, time.Now())
	switch {
	case err != nil:
		r.cells.explain(&resp.Diagnostics, "read", cell, err)
		return
	case why != "":
		resp.Diagnostics.AddAttributeError(path.Root("cell"), "Cell is not dead", fmt.Sprintf("Cell %s is not dead: %s", cell, why))
		return
	}
	c := &cellRemoval{removeCell: r, cell: cell, timeout: limit, progress: newProgress(ctx, resp)}
	all := r.selectOne
	if m.AllProtectors.ValueBool() {
		all = r.selectAll
	}
	found, ok := all(ctx, &m, &resp.Diagnostics)
	switch {
	case !ok:
	case len(found) == 0:
		c.progress("No protector has counts or reservations of the cell %s.", cell)
	default:
		c.run(ctx, found, &resp.Diagnostics)
	}
}

// selectOne returns the configured protector.
func (r *removeCell) selectOne(ctx context.Context, m *removeCellModel, d *diag.Diagnostics) ([]*desired, bool) {
	w := &desired{namespace: m.Namespace.ValueString(), name: m.Name.ValueString()}
	if _, err := r.cluster.get(ctx, r.protectors, w.namespace, w.name); err != nil {
		r.protectors.explain(d, "read", w.String(), err)
		return nil, false
	}
	return []*desired{w}, true
}

// selectAll returns the protectors that have data of the cell.
func (r *removeCell) selectAll(ctx context.Context, m *removeCellModel, d *diag.Diagnostics) ([]*desired, bool) {
	var found []*desired
	for object, err := range r.cluster.list(ctx, r.protectors, "", "", 0) {
		if err != nil {
			r.protectors.explain(d, "listed", listScope(""), err)
			return nil, false
		}
		entry, err := entryOf(object, m.Cell.ValueString())
		if err != nil {
			d.AddError("The answer of the cluster could not be read", sentence(err.Error()))
			return nil, false
		}
		if entry != nil {
			found = append(found, &desired{namespace: object.GetNamespace(), name: object.GetName()})
		}
	}
	return found, true
}
