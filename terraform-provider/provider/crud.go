package provider

import (
	"context"
	"errors"
	"fmt"
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
)

// patience is the default timeout of an apply or a deletion.
const patience = 10 * time.Minute

// Create applies an object that does not exist yet. An existing object belongs to another owner: the user imports it, or takes it
// over with force_conflicts.
func (o *object) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	t := o.task(ctx, &req.Plan, &req.Config, &resp.Diagnostics)
	if t == nil {
		return
	}
	limit, d := t.timeouts.Create(ctx, patience)
	resp.Diagnostics.Append(d...)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if !t.over.all && !t.isFree(ctx, &resp.Diagnostics) {
		return
	}
	t.run(ctx, &resp.State, resp.Identity, &resp.Diagnostics)
}

// Update applies the object as planned.
func (o *object) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	t := o.task(ctx, &req.Plan, &req.Config, &resp.Diagnostics)
	if t == nil {
		return
	}
	var err error
	if t.before, err = o.kind.wanted(req.State.Raw); err != nil {
		resp.Diagnostics.AddError("The state could not be read", err.Error())
		return
	}
	over, d := overOf(ctx, t.over.all, req.Private)
	resp.Diagnostics.Append(d...)
	t.over = over
	limit, d := t.timeouts.Update(ctx, patience)
	resp.Diagnostics.Append(d...)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if t.run(ctx, &resp.State, resp.Identity, &resp.Diagnostics); !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.Private.SetKey(ctx, formerKey, nil)...)
	}
}

// task is one apply of an object.
type task struct {
	*object
	want, before *wanted
	plan         tftypes.Value
	config       *tfsdk.Config
	over         over
	wait         *waiting
	timeouts     timeouts.Value
}

func (o *object) task(ctx context.Context, plan *tfsdk.Plan, config *tfsdk.Config, d *diag.Diagnostics) *task {
	if !o.cluster.usable("apply it to", d) {
		return nil
	}
	t := &task{object: o, plan: plan.Raw, config: config}
	all, err := attributes(plan.Raw)
	if err == nil {
		t.want, err = o.kind.wanted(plan.Raw)
	}
	if err != nil {
		d.AddError("The plan could not be read", err.Error())
		return nil
	}
	t.over.all = isTrue(all, "force_conflicts")
	d.Append(plan.GetAttribute(ctx, path.Root("timeouts"), &t.timeouts)...)
	t.wait = waitingOf(ctx, plan, d)
	if d.HasError() {
		return nil
	}
	return t
}

// isFree reports whether no object of that name exists, and adds an error if one does. It waits for an object that is being
// deleted.
func (t *task) isFree(ctx context.Context, d *diag.Diagnostics) bool {
	var found *unstructured.Unstructured
	err := persist(ctx, func(ctx context.Context) (err error) {
		found, err = t.cluster.of(t.kind, t.want.namespace).Get(ctx, t.want.name, metav1.GetOptions{})
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return true
	case err != nil:
		t.kind.explain(d, "looked for", t.want.String(), err)
		return false
	case found.GetDeletionTimestamp() != nil:
		return t.gone(ctx, t.want, found.GetUID(), confirmation{}, d)
	}
	t.kind.taken(t.want, d)
	return false
}

// taken adds the error that an object of that name exists which Terraform did not create.
func (k *kind) taken(w *wanted, d *diag.Diagnostics) {
	d.AddError(fmt.Sprintf("%s %s is there already", k.Kind.Kind, w),
		fmt.Sprintf("It is not in the state. Import it (terraform import breakwater_%s.NAME %s), or set force_conflicts = true to take it over.", k.name, w))
}

// run applies the object, stores the result in the state, and waits for the configured conditions.
func (t *task) run(ctx context.Context, state *tfsdk.State, identity *tfsdk.ResourceIdentity, d *diag.Diagnostics) {
	if t.kind.kubeconfigs && !t.writeKubeconfig(ctx, d) {
		return
	}
	var live *unstructured.Unstructured
	err := persist(ctx, func(ctx context.Context) (err error) {
		live, err = t.cluster.apply(ctx, t.kind, t.want, t.over, false)
		return err
	})
	if err != nil {
		t.kind.explain(d, "applied", t.want.String(), err)
		return
	}
	tflog.Info(ctx, "applied", map[string]any{"kind": t.kind.Kind.Kind, "name": t.want.String(), "generation": live.GetGeneration()})
	if state.Raw, err = t.kind.shown(t.planned(), live); err != nil {
		d.AddError("The answer of the cluster could not be read", err.Error())
		return
	}
	if identity != nil {
		t.identity(ctx, identity, t.want, d)
	}
	t.left(live, d)
	if t.wait != nil {
		t.await(ctx, d)
	}
}

// planned returns the plan as that of an object that Terraform created. Values that the plan does not know are null, and come
// from the cluster.
func (t *task) planned() tftypes.Value {
	all, err := attributes(t.plan)
	if err != nil {
		return t.plan
	}
	all["uid"] = text("")
	for name, v := range all {
		if !v.IsFullyKnown() {
			all[name] = tftypes.NewValue(v.Type(), nil)
		}
	}
	return tftypes.NewValue(t.plan.Type(), all)
}

// left warns of fields that were removed from the configuration but stay in the object, because another field manager sets them
// too.
func (t *task) left(live *unstructured.Unstructured, d *diag.Diagnostics) {
	if t.before == nil {
		return
	}
	for _, name := range t.kind.Spec.Left(t.before.object.Object["spec"], t.want.object.Object["spec"], live.Object["spec"]) {
		attribute := name[:strings.IndexAny(name+".", ".[")]
		d.AddAttributeWarning(path.Root(attribute), fmt.Sprintf("%s of %s %s stays", name, t.kind.Kind.Kind, t.want),
			"It was taken out of the configuration, but another field manager has set it as well, and Terraform only lets go of its own part. "+
				"Remove it there, or set it here to what it should be.")
	}
}

// Read refreshes the state from the object. While the cluster does not answer, the state stays as it is.
func (o *object) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	w, err := o.kind.wanted(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The state could not be read", err.Error())
		return
	}
	all, _ := attributes(req.State.Raw)
	live, err := o.look(ctx, w)
	switch {
	case err != nil && readOf(all, "id") == "" && !apierrors.IsNotFound(err):
		// The object is being imported, so there is no earlier state to keep.
		resp.Diagnostics.AddError(fmt.Sprintf("%s %s could not be imported", o.kind.Kind.Kind, w), sentence(err.Error()))
		return
	case errors.Is(err, errNoCluster):
		return
	case isUnreachable(err):
		if !o.cluster.silent.Swap(true) {
			resp.Diagnostics.AddWarning("The cluster did not answer", "The state is as it was when it last did: "+sentence(err.Error()))
		}
		return
	case isKindMissing(err):
		resp.Diagnostics.AddWarning(fmt.Sprintf("The cluster does not know %s", o.kind.Kind.Kind),
			fmt.Sprintf("So %s is gone. If that is not what you expect, see whether the provider leads to the right cluster, and do not apply.", w))
		resp.State.RemoveResource(ctx)
		return
	case apierrors.IsNotFound(err):
		resp.State.RemoveResource(ctx)
		return
	case err != nil:
		o.kind.explain(&resp.Diagnostics, "read", w.String(), err)
		return
	}
	if live.GetDeletionTimestamp() != nil {
		resp.Diagnostics.AddWarning(fmt.Sprintf("%s %s is being deleted", o.kind.Kind.Kind, w), holding(live))
	}
	if resp.State.Raw, err = o.kind.shown(req.State.Raw, live); err != nil {
		resp.Diagnostics.AddError("The answer of the cluster could not be read", err.Error())
		return
	}
	if resp.Identity != nil {
		o.identity(ctx, resp.Identity, w, &resp.Diagnostics)
	}
}

var errNoCluster = errors.New("there is no cluster yet")

// look reads the object for a plan. A plan can do without the answer.
func (o *object) look(ctx context.Context, w *wanted) (*unstructured.Unstructured, error) {
	switch {
	case o.cluster == nil || o.cluster.silent.Load():
		return nil, errNoCluster
	case o.cluster.absent != nil:
		return nil, fmt.Errorf("%w: %w", errNoCluster, o.cluster.absent)
	}
	ctx, cancel := context.WithTimeout(ctx, planPatience)
	defer cancel()
	return o.cluster.of(o.kind, w.namespace).Get(ctx, w.name, metav1.GetOptions{})
}

// identity sets the identity of the resource: the name and namespace of its object.
func (o *object) identity(ctx context.Context, identity *tfsdk.ResourceIdentity, w *wanted, d *diag.Diagnostics) {
	d.Append(identity.SetAttribute(ctx, path.Root("name"), w.name)...)
	if o.kind.Namespaced {
		d.Append(identity.SetAttribute(ctx, path.Root("namespace"), w.namespace)...)
	}
}
