package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// planTimeout is how long a plan waits for the cluster. A plan can do without the answer.
const planTimeout = 10 * time.Second

// ModifyPlan reports changes that an apply would fail at: a deletion of a protected object, a change that the rules forbid, and,
// if the cluster answers, a change that fails a dry run.
func (o *object) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var before *desired
	var had map[string]tftypes.Value
	if !req.State.Raw.IsNull() {
		var err error
		if had, err = attributes(req.State.Raw); err == nil {
			before, err = o.kind.desired(req.State.Raw)
		}
		if err != nil {
			resp.Diagnostics.AddError("The state could not be read", err.Error())
			return
		}
	}
	if req.Plan.Raw.IsNull() {
		o.kind.checkProtection(before, had, "deleted", &resp.Diagnostics)
		return
	}
	now, err := o.kind.desired(req.Plan.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The plan could not be read", err.Error())
		return
	}
	if before != nil && (now.name != before.name || now.namespace != before.namespace) {
		o.kind.checkProtection(before, had, "replaced, because its name or namespace changes", &resp.Diagnostics)
		before = nil
	}
	if before != nil && len(now.unknown) == 0 && equality.Semantic.DeepEqual(before.object, now.object) {
		return
	}
	o.kind.check(ctx, now, before, &resp.Diagnostics)
	if resp.Diagnostics.HasError() || len(now.unknown) > 0 || o.cluster == nil || o.cluster.absentErr != nil {
		return
	}
	all, err := attributes(req.Plan.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The plan could not be read", err.Error())
		return
	}
	over, d := newTakeover(ctx, isTrue(all, "force_conflicts"), req.Private)
	if resp.Diagnostics.Append(d...); d.HasError() {
		return
	}
	o.dryRun(ctx, now, before == nil, over, &resp.Diagnostics)
}

// checkProtection adds an error if the object is protected from deletion.
func (k *kind) checkProtection(w *desired, had map[string]tftypes.Value, doing string, d *diag.Diagnostics) {
	if !k.isProtected(had) {
		return
	}
	d.AddError(fmt.Sprintf("%s %s is protected from deletion", k.Kind.Kind, w),
		fmt.Sprintf("It would be %s, and its deletion_protection is true. Set deletion_protection = false and apply that first. "+
			"If Terraform wants to replace it because a wait failed when it was created, run terraform untaint instead.", doing))
}

// dryRun adds the result of a dry run, if the cluster answers. An invalid object is an error, as in validate. All other
// failures are warnings, because their cause can still change before the apply, by the same apply or by hand. An error would also
// block a destroy, for which Terraform plans first as for an apply.
func (o *object) dryRun(ctx context.Context, w *desired, isNew bool, over takeover, d *diag.Diagnostics) {
	if o.cluster.unreachable.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	if isNew && !over.force && o.isNameTaken(ctx, w, d) {
		return
	}
	_, err := o.cluster.apply(ctx, o.kind, w, over, true)
	switch {
	case err == nil:
	case isUnreachable(err):
		if !o.cluster.unreachable.Swap(true) {
			d.AddWarning("The cluster did not answer", "The plan was made without a dry run: "+sentence(err.Error()))
		}
	case isKindMissing(err):
		d.AddWarning(fmt.Sprintf("The cluster does not know %s yet", o.kind.Kind.Kind),
			"The plan was made without a dry run. The chart breakwater-crds must be installed before this is applied.")
	case apierrors.IsInvalid(err):
		o.kind.explain(d, "applied", w.String(), err)
	default:
		var verdict diag.Diagnostics
		o.kind.explain(&verdict, "applied as the cluster is now", w.String(), err)
		d.Append(asWarnings(verdict)...)
	}
}

// isNameTaken reports whether an object of that name exists that is not in the state, and warns of it. A dry run is not possible
// while an object is being deleted.
func (o *object) isNameTaken(ctx context.Context, w *desired, d *diag.Diagnostics) bool {
	found, err := o.cluster.resourceClient(o.kind, w.namespace).Get(ctx, w.name, metav1.GetOptions{})
	switch {
	case err != nil: // The dry run reports the error.
		return false
	case found.GetDeletionTimestamp() != nil:
		d.AddWarning(fmt.Sprintf("%s %s is still being deleted", o.kind.Kind.Kind, w), "The apply waits until it is deleted. "+describeHolders(found))
	default:
		var verdict diag.Diagnostics
		o.kind.addExistsError(w, &verdict)
		d.Append(asWarnings(verdict)...)
	}
	return true
}

// asWarnings converts errors to warnings.
func asWarnings(all diag.Diagnostics) diag.Diagnostics {
	warnings := make(diag.Diagnostics, len(all))
	for i, one := range all {
		warnings[i] = diag.NewWarningDiagnostic(one.Summary(), one.Detail())
		if at, ok := one.(diag.DiagnosticWithPath); ok {
			warnings[i] = diag.NewAttributeWarningDiagnostic(at.Path(), one.Summary(), one.Detail())
		}
	}
	return warnings
}
