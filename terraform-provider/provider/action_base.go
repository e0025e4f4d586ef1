package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// actionBase holds what all actions share: the cluster to act on.
type actionBase struct {
	cluster *cluster
}

// Configure stores the cluster.
func (a *actionBase) Configure(_ context.Context, req action.ConfigureRequest, _ *action.ConfigureResponse) {
	a.cluster, _ = req.ProviderData.(*cluster)
}

// ModifyPlan sends no request to the cluster. If the cluster only becomes known during the apply, ModifyPlan defers the action
// where Terraform supports that.
func (a *actionBase) ModifyPlan(_ context.Context, req action.ModifyPlanRequest, resp *action.ModifyPlanResponse) {
	if a.cluster.isUnknown() && req.ClientCapabilities.DeferralAllowed {
		resp.Deferred = &action.Deferred{Reason: action.DeferredReasonProviderConfigUnknown}
	}
}

// progress reports the progress of an action to the user.
type progress func(format string, arguments ...any)

func newProgress(ctx context.Context, resp *action.InvokeResponse) progress {
	return func(format string, arguments ...any) {
		message := fmt.Sprintf(format, arguments...)
		tflog.Info(ctx, message)
		if ctx.Err() == nil { // Terraform canceled the action and reads no more events
			resp.SendProgress(action.InvokeProgressEvent{Message: message})
		}
	}
}

// addActionError adds an error that explains why an action failed.
func addActionError(d *diag.Diagnostics, summary string, err error) {
	if addOutage(d, err) {
		return
	}
	detail := sentence(err.Error())
	switch {
	case apierrors.IsForbidden(err):
		detail += " The provider's user needs this permission in the cluster; its documentation lists all permissions."
	case apierrors.IsUnauthorized(err):
		detail = "The cluster does not accept the provider's credentials: they are wrong, or have expired. " + detail
	}
	d.AddError(summary, detail)
}
