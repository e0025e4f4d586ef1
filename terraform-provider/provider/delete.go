package provider

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Delete deletes the object and waits until the API server has removed it.
func (o *object) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	w, err := o.kind.wanted(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The state could not be read", err.Error())
		return
	}
	all, err := attributes(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The state could not be read", err.Error())
		return
	}
	if o.kind.keep(w, all, "deleted", &resp.Diagnostics); resp.Diagnostics.HasError() || !o.cluster.usable("delete it from", &resp.Diagnostics) {
		return
	}
	var limits timeouts.Value
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("timeouts"), &limits)...)
	limit, d := limits.Delete(ctx, patience)
	resp.Diagnostics.Append(d...)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	if o.remove(ctx, w, types.UID(readOf(all, "uid")), o.kind.isLifted(all), &resp.Diagnostics); resp.Diagnostics.HasError() {
		return
	}
	if o.kind.derived != nil {
		o.warnHeld(ctx, w, &resp.Diagnostics)
	}
	if namespace, name, key := secretOf(w); o.kind.kubeconfigs && name != "" {
		o.clearKubeconfig(ctx, namespace, name, key, &resp.Diagnostics)
	}
}

// remove deletes the object, with a confirmation if its protection was lifted, and waits until the API server has removed it.
func (o *object) remove(ctx context.Context, w *wanted, uid types.UID, lifted bool, d *diag.Diagnostics) {
	var confirmed confirmation
	if lifted {
		var err error
		if confirmed, err = o.confirm(ctx, w, uid); err != nil {
			o.kind.explain(d, "deleted", w.String(), err)
			return
		}
	}
	options := metav1.DeleteOptions{}
	if uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	err := persist(ctx, func(ctx context.Context) error {
		return o.cluster.of(o.kind, w.namespace).Delete(ctx, w.name, options)
	})
	switch {
	case apierrors.IsNotFound(err):
	case apierrors.IsConflict(err):
		d.AddWarning(fmt.Sprintf("%s %s is another one now", o.kind.Kind.Kind, w),
			"The one that Terraform knew is gone, and somebody has made a new one of its name, which was left alone.")
	case err != nil:
		o.kind.explain(d, "deleted", w.String(), err)
	default:
		o.gone(ctx, w, uid, confirmed, d)
	}
}

// gone waits until the API server has removed the object, and reports whether it has. If the timeout expires first, the error
// says what holds the object and what confirms its deletion.
func (o *object) gone(ctx context.Context, w *wanted, uid types.UID, confirmed confirmation, d *diag.Diagnostics) bool {
	why := ""
	err := wait.PollUntilContextCancel(ctx, pace, true, func(ctx context.Context) (bool, error) {
		live, err := o.cluster.of(o.kind, w.namespace).Get(ctx, w.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil && (isPassing(err) || ctx.Err() != nil):
			return false, nil
		case err != nil:
			return false, err
		case uid != "" && live.GetUID() != uid:
			return true, nil
		}
		now := holding(live)
		if pendingOf(live) != nil {
			now = strings.TrimSpace(now + " " + confirmed.advice())
		}
		if now != why {
			why = now
			tflog.Info(ctx, "waiting for a deletion", map[string]any{"kind": o.kind.Kind.Kind, "name": w.String(), "held by": now})
		}
		return false, nil
	})
	switch {
	case err == nil:
		return true
	case wait.Interrupted(err):
		d.AddError(fmt.Sprintf("%s %s was deleted, and is still held", o.kind.Kind.Kind, w),
			fmt.Sprintf("The time for it is over. %s It stays in force until then. Apply again to continue waiting.", why))
	default:
		o.kind.explain(d, "deleted", w.String(), err)
	}
	return false
}

// holding says what holds an object: a large decrease that is pending for a protector, and finalizers with the components that
// remove them.
func holding(live *unstructured.Unstructured) string {
	var all []string
	for _, name := range live.GetFinalizers() {
		all = append(all, fmt.Sprintf("%s: %s.", name, takenOff(name, live)))
	}
	finalizers := "It has no finalizers, and will be gone at once."
	if len(all) > 0 {
		finalizers = "It is held by " + strings.Join(all, " And by ")
	}
	if c := pendingOf(live); c != nil {
		return fmt.Sprintf("The release brake keeps its floor in force (condition %s, reason %s): %s %s", c.Type, c.Reason, sentence(c.Message), finalizers)
	}
	return finalizers
}

func takenOff(finalizer string, live *unstructured.Unstructured) string {
	switch finalizer {
	case v1alpha1.FinalizerProtector:
		source := live.GetLabels()[v1alpha1.LabelSourceKind] + "/" + live.GetAnnotations()[v1alpha1.AnnotationSourceName]
		return fmt.Sprintf("breakwater generator takes it off when the workload %s that it was derived from is deleted, or no policy asks for it any more; "+
			"breakwater release takes it off by hand", source)
	case v1alpha1.FinalizerHold:
		if pendingOf(live) != nil {
			return "breakwater generator takes it off when the release brake allows it"
		}
		return "breakwater generator takes it off as soon as it sees the deletion, so see whether it runs; breakwater release takes it off by hand"
	case v1alpha1.FinalizerCell:
		return "breakwater topology takes it off when the cell's aggregator has stopped and no protector counts pods of the cell any more"
	case v1alpha1.FinalizerPolicy:
		return "breakwater generator takes it off when it has dealt with the policy's protectors, so see whether it runs; breakwater release takes it off by hand"
	default:
		return "somebody else put it there, and must take it off"
	}
}
