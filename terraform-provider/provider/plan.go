package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
)

// ModifyPlan reports changes that an apply would fail at: a deletion of a protected object, a change that the rules forbid, and a change
// that fails a dry run. If the plan does not require the cluster, it has no dry run while the cluster does not answer.
func (o *object) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	var before *desired
	hasState := !req.State.Raw.IsNull()
	if hasState {
		var err error
		if before, err = o.kind.desired(req.State.Raw); err != nil {
			resp.Diagnostics.AddError("The state could not be read", err.Error())
			return
		}
	}
	if req.Plan.Raw.IsNull() {
		o.kind.checkProtection(before, "deleted", &resp.Diagnostics)
		return
	}
	now, err := o.kind.desired(req.Plan.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The plan could not be read", err.Error())
		return
	}
	if before != nil && (now.name != before.name || now.namespace != before.namespace) {
		o.kind.checkProtection(before, "replaced, because its name or namespace changes", &resp.Diagnostics)
		before = nil
	}
	if before != nil && len(now.unknown) == 0 && equality.Semantic.DeepEqual(before.object, now.object) {
		return
	}
	o.kind.check(ctx, now, before, &resp.Diagnostics)
	o.kind.advise(now, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	required := o.cluster.isRequired(hasState)
	if len(now.unknown) > 0 {
		// There is nothing to send yet. Read has compared an object that is in the state.
		if required && !hasState {
			if err := o.cluster.sendForPlan(ctx, required, o.cluster.checkVersion); err != nil {
				o.kind.explain(&resp.Diagnostics, "planned", now.String(), err)
			}
		}
		return
	}
	over, d := o.cluster.newTakeover(ctx, isTrue(now.attributes, "force_conflicts"), req.Private)
	if resp.Diagnostics.Append(d...); d.HasError() {
		return
	}
	if !o.isClusterOf(ctx, now, req.Private, &resp.Diagnostics) {
		return
	}
	if before == nil && (o.isCreatable(ctx, now, required, over, &resp.Diagnostics) || !o.canCreate(ctx, now, required, over, &resp.Diagnostics)) {
		return
	}
	o.dryRun(ctx, now, required, over, &resp.Diagnostics)
}

// checkProtection adds an error if the object is protected from deletion.
func (k *kind) checkProtection(w *desired, doing string, d *diag.Diagnostics) {
	if !k.isProtected(w) {
		return
	}
	d.AddError(k.Kind.Kind+" is protected from deletion",
		fmt.Sprintf("%s would be %s, and its deletion_protection is true. Set deletion_protection = false and apply that first. "+
			"If Terraform wants to replace it because it is tainted, run terraform untaint instead.", k.of(w.String()), doing))
}

// isCreatable reports whether a dry run creates the object, or the plan can do without. Then no more requests are needed: no such object exists, and
// the API server accepts it.
func (o *object) isCreatable(ctx context.Context, w *desired, required bool, over takeover, d *diag.Diagnostics) bool {
	if over.force {
		return false
	}
	err := o.cluster.sendForPlan(ctx, required, func(ctx context.Context) error {
		_, err := o.cluster.resourceClient(o.kind, w.namespace).Create(ctx, w.object, metav1.CreateOptions{
			FieldManager: o.cluster.manager, DryRun: []string{metav1.DryRunAll}})
		return err
	})
	if errors.Is(err, errNotCompared) {
		o.cluster.warnOnce(d, "The plan was made without the cluster", err)
		return true
	}
	return err == nil
}

// canCreate reads the object that a plan creates, and reports whether a dry run is possible. It warns if the object exists, and cannot be taken over.
func (o *object) canCreate(ctx context.Context, w *desired, required bool, over takeover, d *diag.Diagnostics) bool {
	found, err := o.cluster.readForPlan(ctx, o.kind, w, required)
	switch {
	case errors.Is(err, errNotCompared):
		o.cluster.warnOnce(d, "The plan was made without the cluster", err)
	case transport.IsKindMissing(err):
		d.AddWarning(fmt.Sprintf("The cluster does not know %s yet", o.kind.Kind.Kind),
			"The plan was made without a dry run. The chart breakwater-crds must be installed before this is applied.")
	case apierrors.IsNotFound(err):
		return true
	case err != nil:
		o.kind.explain(d, "looked for", w.String(), err)
	case found.GetDeletionTimestamp() != nil:
		d.AddWarning(o.kind.Kind.Kind+" is still being deleted", fmt.Sprintf("The apply waits until %s is deleted. ", o.kind.of(w.String()))+describeHolders(found))
	case o.cluster.manages(found):
		d.AddWarning(o.kind.managedSummary(), "If the plan deletes the object before it creates it again (-/+), nothing protects its pods in between: "+
			"terraform untaint keeps an object that is only tainted. Otherwise the apply will fail. "+o.kind.managedDetail(w, o.cluster.manager))
	case over.force:
		return true
	default:
		var verdict diag.Diagnostics
		o.kind.addExistsError(w, &verdict)
		d.Append(asWarnings(verdict)...)
	}
	return false
}

// dryRun adds the result of a dry run. An invalid object is an error, as in validate. Other answers of the API server are warnings,
// because their cause can still change before the apply, by the same apply or by hand. An error would also block a destroy, for which
// Terraform plans first as for an apply.
func (o *object) dryRun(ctx context.Context, w *desired, required bool, over takeover, d *diag.Diagnostics) {
	err := o.cluster.sendForPlan(ctx, required, func(ctx context.Context) error {
		_, _, err := o.cluster.apply(ctx, o.kind, w, over, true)
		return err
	})
	var status apierrors.APIStatus
	switch {
	case err == nil:
	case errors.Is(err, errNotCompared):
		o.cluster.warnOnce(d, "The plan was made without the cluster", err)
	case !errors.As(err, &status), apierrors.IsInvalid(err), apierrors.IsUnauthorized(err):
		o.kind.explain(d, "applied", w.String(), err)
	default:
		var verdict diag.Diagnostics
		o.kind.explain(&verdict, "applied as the cluster is now", w.String(), err)
		d.Append(asWarnings(verdict)...)
	}
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
