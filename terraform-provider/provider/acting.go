package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// acting is what actions have in common: a cluster to act on.
type acting struct {
	cluster *cluster
}

// Configure keeps the cluster.
func (a *acting) Configure(_ context.Context, req action.ConfigureRequest, _ *action.ConfigureResponse) {
	a.cluster, _ = req.ProviderData.(*cluster)
}

// ModifyPlan asks no cluster. If there will only be one in the apply, that is put off where Terraform can.
func (a *acting) ModifyPlan(_ context.Context, req action.ModifyPlanRequest, resp *action.ModifyPlanResponse) {
	if a.cluster != nil && errors.Is(a.cluster.absent, errUnknown) && req.ClientCapabilities.DeferralAllowed {
		resp.Deferred = &action.Deferred{Reason: action.DeferredReasonProviderConfigUnknown}
	}
}

// teller tells whoever waits for an action how it goes.
type teller func(format string, arguments ...any)

func tellerOf(ctx context.Context, resp *action.InvokeResponse) teller {
	return func(format string, arguments ...any) {
		message := fmt.Sprintf(format, arguments...)
		tflog.Info(ctx, message)
		if ctx.Err() == nil { // nobody listens any more
			resp.SendProgress(action.InvokeProgressEvent{Message: message})
		}
	}
}

// failed tells why an action came to nothing.
func failed(d *diag.Diagnostics, summary string, err error) {
	detail := sentence(err.Error())
	switch {
	case apierrors.IsForbidden(err):
		detail += " The provider's user needs this right in the cluster; the documentation of the provider lists all that it needs."
	case apierrors.IsUnauthorized(err):
		detail = "The cluster does not accept the provider's credentials: they are wrong, or have expired. " + detail
	}
	d.AddError(summary, detail)
}
