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
)

// removeCell is an action that clears a dead cell from one protector, or from all.
type removeCell struct {
	acting
	cells, protectors *kind
}

// removeTime is the default timeout of the action.
const removeTime = 5 * time.Minute

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
		MarkdownDescription: "Clears a dead cell out of a protector, or out of all: the topology controller forgets its counts and reservations, " +
			"which no aggregator will settle any more. It sets the annotation `breakwater.dev/remove-cell` and waits until the controller has taken it " +
			"off. What was admitted in the cell and is still under way is forgotten as well, so be sure that it is dead: the action refuses while the " +
			"cell's aggregator reports, and so does the controller. A cell that still runs leaves by deleting its Cell, which drains it. Needs " +
			"Terraform 1.14.",
		Attributes: map[string]schema.Attribute{
			"cell": schema.StringAttribute{Required: true, Validators: []validator.String{nameRule()},
				MarkdownDescription: "Name of the cell, as in the `cell_id` of the status of protectors. Its Cell may be gone."},
			"namespace": schema.StringAttribute{Optional: true, Validators: []validator.String{namespaceRule()},
				MarkdownDescription: "Namespace of the protector."},
			"name": schema.StringAttribute{Optional: true, Validators: []validator.String{nameRule()},
				MarkdownDescription: "Name of the protector."},
			"all_protectors": schema.BoolAttribute{Optional: true,
				Validators:          []validator.Bool{boolvalidator.ConflictsWith(path.MatchRoot("namespace"), path.MatchRoot("name"))},
				MarkdownDescription: "Clear the cell out of all protectors that have it, in place of the one that `namespace` and `name` say. Default: `false`."},
			"timeout": schema.StringAttribute{Optional: true, Validators: []validator.String{durationRule{}},
				MarkdownDescription: "How long to wait for the topology controller, such as `90s`. It waits itself for the `stale_after` of the Cell, " +
					"when it has not watched that for long. Default: `5m`."},
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
			resp.Diagnostics.AddAttributeError(path.Root(name), "Which protector?",
				"Give the namespace and the name of the protector that the cell is cleared out of, or set all_protectors = true.")
		}
	}
}

// Invoke clears the cell.
func (r *removeCell) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var m removeCellModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() || !r.cluster.usable("clear the cell in", &resp.Diagnostics) {
		return
	}
	limit := removeTime
	if d, err := time.ParseDuration(m.Timeout.ValueString()); err == nil {
		limit = d
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cell := m.Cell.ValueString()
	why, err := r.isAlive(ctx, cell, time.Now())
	switch {
	case err != nil:
		r.cells.explain(&resp.Diagnostics, "read", cell, err)
		return
	case why != "":
		resp.Diagnostics.AddAttributeError(path.Root("cell"), fmt.Sprintf("Cell %s is not dead", cell), why)
		return
	}
	c := &clearance{removeCell: r, cell: cell, limit: limit, tell: tellerOf(ctx, resp)}
	all := r.one
	if m.AllProtectors.ValueBool() {
		all = r.all
	}
	found, ok := all(ctx, &m, &resp.Diagnostics)
	switch {
	case !ok:
	case len(found) == 0:
		c.tell("No protector has anything of the cell %s.", cell)
	default:
		c.run(ctx, found, &resp.Diagnostics)
	}
}

// one returns the configured protector.
func (r *removeCell) one(ctx context.Context, m *removeCellModel, d *diag.Diagnostics) ([]*wanted, bool) {
	w := &wanted{namespace: m.Namespace.ValueString(), name: m.Name.ValueString()}
	if _, err := r.cluster.get(ctx, r.protectors, w.namespace, w.name); err != nil {
		r.protectors.explain(d, "read", w.String(), err)
		return nil, false
	}
	return []*wanted{w}, true
}

// all returns the protectors that have data of the cell.
func (r *removeCell) all(ctx context.Context, m *removeCellModel, d *diag.Diagnostics) ([]*wanted, bool) {
	var found []*wanted
	for object, err := range r.cluster.list(ctx, r.protectors, "", "", 0) {
		if err != nil {
			r.protectors.explain(d, "listed", among(""), err)
			return nil, false
		}
		entry, err := entryOf(object, m.Cell.ValueString())
		if err != nil {
			d.AddError("The answer of the cluster could not be read", sentence(err.Error()))
			return nil, false
		}
		if entry != nil {
			found = append(found, &wanted{namespace: object.GetNamespace(), name: object.GetName()})
		}
	}
	return found, true
}
