package provider

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/internal/cli/finalizers"
	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
	"github.com/breakwater-k8s/breakwater/terraform-provider/validate"
)

// release is an action that removes Breakwater's finalizers from one object.
type release struct {
	actionBase
}

// releaseTimeout is the timeout of the action.
const releaseTimeout = time.Minute

// Metadata sets the name of the action.
func (*release) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_release"
}

type releaseModel struct {
	Namespace  types.String `tfsdk:"namespace"`
	Kind       types.String `tfsdk:"kind"`
	APIVersion types.String `tfsdk:"api_version"`
	Name       types.String `tfsdk:"name"`
}

// Schema defines the attributes that name the object.
func (*release) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Removes Breakwater's finalizers from one object, as `breakwater release KIND/NAME --yes` does. Use it when the " +
			"generator that would do so no longer exists. A deleted protector then protects nothing any more, and its pods can be removed at " +
			"once. An object that was not deleted stays, and a running generator sets its finalizers again. Other finalizers stay. An object that does not " +
			"exist is a warning, and one without these finalizers stays unchanged. Needs Terraform 1.14.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{Required: true, Validators: []validator.String{validate.Name()}, MarkdownDescription: "Name of the object."},
			"namespace": schema.StringAttribute{Optional: true, Validators: []validator.String{validate.Namespace()},
				MarkdownDescription: "Namespace of the object, in the core cluster. Leave it out for cluster-scoped kinds, such as Cell and ClusterProtectionPolicy."},
			"kind": schema.StringAttribute{Optional: true, MarkdownDescription: "Kind of the object: `PodProtector`, `ProtectionPolicy`, " +
				"`ClusterProtectionPolicy`, `Cell`, `Deployment`, `StatefulSet`, `ReplicaSet` or `ReplicationController`; or any other kind, with its " +
				"`api_version`. Default: `PodProtector`."},
			"api_version": schema.StringAttribute{Optional: true, MarkdownDescription: "API version of the kind, such as `argoproj.io/v1alpha1`, where " +
				"it is none of those."},
		},
	}
}

// kind returns the kind of the object.
func (m *releaseModel) kind() (runtimeschema.GroupVersionKind, error) {
	name := m.Kind.ValueString()
	if m.Kind.IsNull() {
		name = "PodProtector"
	}
	if m.APIVersion.ValueString() != "" {
		return runtimeschema.FromAPIVersionAndKind(m.APIVersion.ValueString(), name), nil
	}
	if kind, ok := finalizers.WellKnownKind(name); ok {
		return kind, nil
	}
	return runtimeschema.GroupVersionKind{}, fmt.Errorf("%q is not a known kind: set its api_version, such as argoproj.io/v1alpha1", name)
}

// ValidateConfig rejects a kind that is not known, and a missing or superfluous namespace.
func (*release) ValidateConfig(ctx context.Context, req action.ValidateConfigRequest, resp *action.ValidateConfigResponse) {
	var m releaseModel
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); resp.Diagnostics.HasError() || m.Kind.IsUnknown() || m.APIVersion.IsUnknown() {
		return
	}
	kind, err := m.kind()
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("kind"), "Unknown kind", sentence(err.Error()))
		return
	}
	if m.APIVersion.ValueString() != "" {
		return // only the cluster knows whether the kind is namespaced
	}
	switch wide := kind.Kind == "Cell" || kind.Kind == "ClusterProtectionPolicy"; {
	case wide && !m.Namespace.IsNull():
		resp.Diagnostics.AddAttributeError(path.Root("namespace"), "No such namespace", fmt.Sprintf("A %s has no namespace: leave it out.", kind.Kind))
	case !wide && m.Namespace.IsNull():
		resp.Diagnostics.AddAttributeError(path.Root("namespace"), "No namespace", fmt.Sprintf("A %s has a namespace: name it.", kind.Kind))
	}
}

// Invoke releases the object.
func (r *release) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var m releaseModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() || !r.cluster.isUsable("release it in", &resp.Diagnostics) {
		return
	}
	kind, err := m.kind()
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("kind"), "Unknown kind", sentence(err.Error()))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	object := strings.TrimPrefix(m.Namespace.ValueString()+"/"+m.Name.ValueString(), "/")
	finder, err := r.cluster.finder(m.Namespace.ValueString())
	var found bool
	if err == nil {
		found, err = releaseObject(ctx, finder, kind, m.Name.ValueString(), newProgress(ctx, resp))
	}
	switch {
	case err != nil:
		addErrorWithRemedy(&resp.Diagnostics, kind.Kind+" could not be released", "", fmt.Errorf("%s %s: %w", kind.Kind, object, err))
	case !found:
		resp.Diagnostics.AddWarning("There is no such "+kind.Kind,
			fmt.Sprintf("There is no %s %s, so there is nothing to release. If it should exist, check its namespace and name, and that the provider is "+
				"configured for the right cluster.", kind.Kind, object))
	}
}

// releaseObject releases an object if it exists.
func releaseObject(ctx context.Context, finder *finalizers.Finder, kind runtimeschema.GroupVersionKind, name string, report progress) (found bool, err error) {
	var hold *finalizers.HeldObject
	look := func(ctx context.Context) (err error) {
		hold, err = finder.Get(ctx, kind, name)
		return err
	}
	if err := transport.Retry(ctx, look); err != nil || hold == nil {
		return false, err
	}
	if len(hold.Finalizers) == 0 {
		report("No finalizer of Breakwater holds %s.", hold.Name())
		return true, nil
	}
	held := *hold
	if err := transport.Retry(ctx, func(ctx context.Context) error { return finder.Release(ctx, &held) }); err != nil {
		return true, err
	}
	report("Removed from %s: %s.", held.Name(), strings.Join(held.Finalizers, ", "))
	if err := transport.Retry(ctx, look); err != nil {
		return true, err
	}
	report("%s", describeReleased(&held, hold))
	return true, nil
}

// describeReleased describes the state of an object after its release.
func describeReleased(held, now *finalizers.HeldObject) string {
	switch {
	case now == nil || now.Object.UID != held.Object.UID:
		return held.Name() + " is gone."
	case !now.IsDeleted():
		return held.Name() + " was not deleted, and stays. A running generator sets its finalizers again."
	case len(now.Object.Finalizers) > 0:
		return fmt.Sprintf("%s is deleted, and still held by %s.", held.Name(), strings.Join(now.Object.Finalizers, ", "))
	default:
		return held.Name() + " is being deleted."
	}
}

// finder returns a Finder for objects that finalizers hold in a namespace.
func (c *cluster) finder(namespace string) (*finalizers.Finder, error) {
	return finalizers.NewFinder(c.config, c.client, namespace)
}

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
