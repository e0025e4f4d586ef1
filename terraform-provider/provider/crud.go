package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
)

// defaultTimeout is the default timeout of an apply or a deletion.
const defaultTimeout = 10 * time.Minute

// Create applies an object that does not exist yet. An existing object belongs to another owner: the user imports it, or takes it
// over with force_conflicts, unless Terraform manages it already.
func (o *object) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	t := o.newTask(ctx, &req.Plan, &req.Config, &resp.Diagnostics)
	if t == nil {
		return
	}
	limit, d := t.timeouts.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(d...)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if !o.isClusterOf(ctx, t.want, resp.Private, &resp.Diagnostics) || !t.claimName(&resp.Diagnostics) || !t.isNameFree(ctx, &resp.Diagnostics) {
		return
	}
	resp.Diagnostics.Append(o.cluster.record(ctx, resp.Private)...)
	t.isNew = true
	t.run(ctx, &resp.State, resp.Identity, &resp.Diagnostics)
}

// Update applies the object as planned.
func (o *object) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	t := o.newTask(ctx, &req.Plan, &req.Config, &resp.Diagnostics)
	if t == nil {
		return
	}
	var err error
	if t.before, err = o.kind.desired(req.State.Raw); err != nil {
		resp.Diagnostics.AddError("The state could not be read", err.Error())
		return
	}
	over, d := o.cluster.newTakeover(ctx, t.takeover.force, req.Private)
	resp.Diagnostics.Append(d...)
	t.takeover = over
	limit, d := t.timeouts.Update(ctx, defaultTimeout)
	resp.Diagnostics.Append(d...)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if !o.isClusterOf(ctx, t.want, req.Private, &resp.Diagnostics) {
		return
	}
	if t.run(ctx, &resp.State, resp.Identity, &resp.Diagnostics); !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(o.cluster.record(ctx, resp.Private)...)
	}
}

// task is one apply of an object.
type task struct {
	*object
	want, before *desired
	plan         tftypes.Value
	config       *tfsdk.Config
	takeover     takeover
	wait         *waitConditions
	timeouts     timeouts.Value
	// isNew means that Terraform has no object of this name in the state.
	isNew bool
}

func (o *object) newTask(ctx context.Context, plan *tfsdk.Plan, config *tfsdk.Config, d *diag.Diagnostics) *task {
	if !o.cluster.isUsable("apply it to", d) {
		return nil
	}
	t := &task{object: o, plan: plan.Raw, config: config}
	var err error
	if t.want, err = o.kind.desired(plan.Raw); err != nil {
		d.AddError("The plan could not be read", err.Error())
		return nil
	}
	t.takeover.force = isTrue(t.want.attributes, "force_conflicts")
	d.Append(plan.GetAttribute(ctx, path.Root("timeouts"), &t.timeouts)...)
	t.wait = newWaitConditions(ctx, plan, d)
	if d.HasError() {
		return nil
	}
	return t
}

// claimName reports whether this is the only resource of this apply that creates an object of this name, and adds an error if not. The claim stays: the
// object exists afterwards, or the apply fails.
func (t *task) claimName(d *diag.Diagnostics) bool {
	_, isTaken := t.cluster.created.LoadOrStore(t.kind.of(t.want.String()), true)
	if isTaken {
		d.AddError("Two resources have the same "+t.kind.Kind.Kind, fmt.Sprintf("Another resource of this apply creates %s. "+
			"An object can have one resource only: remove one, or change its name.", t.kind.of(t.want.String())))
	}
	return !isTaken
}

// isNameFree reports whether no object of that name exists, or one that Terraform may take over, and adds an error if not. It waits for an object
// that is being deleted.
func (t *task) isNameFree(ctx context.Context, d *diag.Diagnostics) bool {
	var found *unstructured.Unstructured
	err := transport.Retry(ctx, func(ctx context.Context) (err error) {
		found, err = t.cluster.resourceClient(t.kind, t.want.namespace).Get(ctx, t.want.name, metav1.GetOptions{})
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return true
	case err != nil:
		t.kind.explain(d, "looked for", t.want.String(), err)
		return false
	case found.GetDeletionTimestamp() != nil:
		return t.awaitDeletion(ctx, t.want, found.GetUID(), confirmation{}, d)
	case t.cluster.manages(found):
		d.AddError(t.kind.managedSummary(), t.kind.managedDetail(t.want, t.cluster.manager))
		return false
	case t.takeover.force:
		return true
	}
	t.kind.addExistsError(t.want, d)
	return false
}

// manages reports whether this provider has applied the object.
func (c *cluster) manages(live *unstructured.Unstructured) bool {
	return shape.Owned(live.GetManagedFields(), c.manager) != nil
}

func (k *kind) managedSummary() string { return k.Kind.Kind + " is managed by Terraform already" }

// managedDetail says why a resource cannot create an object that this provider has applied, and what to do.
func (k *kind) managedDetail(w *desired, manager string) string {
	return fmt.Sprintf("%s exists, and this provider has applied it (field manager %q). An object can have one resource only, because two would overwrite each other. "+
		"If another resource, here or in another state, has the same name: remove one, or change its name. "+
		"If this resource replaces itself, because of create_before_destroy: remove that, or the new object would be deleted with the old one. "+
		"If the object moved to another index of count: use for_each, or a moved block. If its state was lost: import it (terraform import breakwater_%s.NAME %s).",
		k.of(w.String()), manager, k.name, w)
}

// addExistsError adds the error that an object of that name exists which Terraform did not create.
func (k *kind) addExistsError(w *desired, d *diag.Diagnostics) {
	d.AddError(k.Kind.Kind+" already exists", fmt.Sprintf("%s already exists, but is not in the state. Import it (terraform import breakwater_%s.NAME %s), "+
		"or set force_conflicts = true to take it over.", k.of(w.String()), k.name, w))
}

// run applies the object, stores the result in the state, and waits for the configured conditions.
func (t *task) run(ctx context.Context, state *tfsdk.State, identity *tfsdk.ResourceIdentity, d *diag.Diagnostics) {
	if t.kind.kubeconfigs && !t.writeKubeconfig(ctx, d) {
		return
	}
	var live *unstructured.Unstructured
	attempts, status := 0, 0
	err := transport.Retry(ctx, func(ctx context.Context) (err error) {
		attempts++
		live, status, err = t.cluster.apply(ctx, t.kind, t.want, t.takeover, false)
		return err
	})
	if err != nil {
		t.kind.explain(d, "applied", t.want.String(), err)
		return
	}
	// A second attempt may find the object that the first has created.
	if t.isNew && !t.takeover.force && attempts == 1 && status == http.StatusOK {
		d.AddError("Two clients created the same "+t.kind.Kind.Kind, fmt.Sprintf("Another client created %s at the same moment, and this apply may have changed its fields. "+
			"It is not in this state. Plan again where it belongs: that shows the changes and reverts them.", t.kind.of(t.want.String())))
		return
	}
	tflog.Info(ctx, "applied", map[string]any{"kind": t.kind.Kind.Kind, "name": t.want.String(), "generation": live.GetGeneration()})
	if state.Raw, err = t.kind.refreshedState(t.planned(), live, t.cluster.manager); err != nil {
		d.AddError("The answer of the cluster could not be read", err.Error())
		return
	}
	if identity != nil {
		t.setIdentity(ctx, identity, t.want, d)
	}
	t.warnLeftovers(live, d)
	if t.wait == nil {
		return
	}
	var unmet diag.Diagnostics
	t.await(ctx, &unmet)
	if t.isNew {
		// Terraform would taint a new resource with an error: the next apply would delete an object that protects pods.
		unmet = asWarnings(unmet)
	}
	d.Append(unmet...)
}

// planned returns the plan as that of an object that Terraform created. Values that the plan does not know are null, and come
// from the cluster.
func (t *task) planned() tftypes.Value {
	all := maps.Clone(t.want.attributes)
	all["uid"] = stringValue("")
	for name, v := range all {
		if !v.IsFullyKnown() {
			all[name] = tftypes.NewValue(v.Type(), nil)
		}
	}
	return tftypes.NewValue(t.plan.Type(), all)
}

// warnLeftovers warns of fields that were removed from the configuration but stay in the object, because another field manager sets them
// too. It is one warning for all, because Terraform shows only one of several with the same summary.
func (t *task) warnLeftovers(live *unstructured.Unstructured, d *diag.Diagnostics) {
	if t.before == nil {
		return
	}
	left := t.kind.Spec.Leftovers(t.before.object.Object["spec"], t.want.object.Object["spec"], live.Object["spec"])
	if len(left) == 0 {
		return
	}
	d.AddAttributeWarning(path.Root(left[0][:strings.IndexAny(left[0]+".", ".[")]), "Removed values stay",
		fmt.Sprintf("%s of %s stays: you removed it from the configuration, but another field manager sets it as well, and Terraform releases only "+
			"its own ownership. Remove it there as well, or set it in the configuration.", strings.Join(left, " and "), t.kind.of(t.want.String())))
}

// Read refreshes the state from the object. If the plan does not require the cluster, the state stays as it is while the cluster does not answer.
func (o *object) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	w, err := o.kind.desired(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The state could not be read", err.Error())
		return
	}
	// The framework requires an identity of each successful read, also if the object does not exist. Terraform and OpenTofu before 1.12 send none.
	if resp.Identity != nil {
		o.setIdentity(ctx, resp.Identity, w, &resp.Diagnostics)
	}
	isImport := stringAttribute(w.attributes, "id") == ""
	live, err := o.cluster.readListedForPlan(ctx, o.kind, w, isImport || o.cluster.isRequired(true))
	if (err == nil || apierrors.IsNotFound(err)) && !o.isClusterOf(ctx, w, req.Private, &resp.Diagnostics) {
		return
	}
	switch {
	case errors.Is(err, errNotCompared):
		o.cluster.warnOnce(&resp.Diagnostics, "Nothing was compared with the cluster", err)
		return
	case transport.IsKindMissing(err) && !isImport:
		resp.Diagnostics.AddWarning(fmt.Sprintf("The cluster does not know %s", o.kind.Kind.Kind),
			fmt.Sprintf("So Terraform treats %s as deleted. If you do not expect that, check that the provider is configured for the right cluster, and do not apply.", w))
		resp.State.RemoveResource(ctx)
		return
	case apierrors.IsNotFound(err) && !transport.IsKindMissing(err):
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		o.kind.explain(&resp.Diagnostics, "read", w.String(), err)
		return
	}
	if live.GetDeletionTimestamp() != nil {
		resp.Diagnostics.AddWarning(o.kind.Kind.Kind+" is being deleted", o.kind.of(w.String())+" is being deleted. "+describeHolders(live))
	}
	last, d := lastManager(ctx, req.Private)
	resp.Diagnostics.Append(d...)
	resp.Diagnostics.Append(o.cluster.recordCluster(ctx, resp.Private)...)
	if resp.State.Raw, err = o.kind.refreshedState(req.State.Raw, live, last, o.cluster.manager); err != nil {
		resp.Diagnostics.AddError("The answer of the cluster could not be read", err.Error())
	}
}

// setIdentity sets the identity of the resource: the name and namespace of its object.
func (o *object) setIdentity(ctx context.Context, setIdentity *tfsdk.ResourceIdentity, w *desired, d *diag.Diagnostics) {
	d.Append(setIdentity.SetAttribute(ctx, path.Root("name"), w.name)...)
	if o.kind.Namespaced {
		d.Append(setIdentity.SetAttribute(ctx, path.Root("namespace"), w.namespace)...)
	}
}
