package provider

import (
	"context"
	"encoding/json"
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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
)

// Delete deletes the object and waits until the API server has removed it.
func (o *object) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	w, err := o.kind.desired(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The state could not be read", err.Error())
		return
	}
	if o.kind.checkProtection(w, "deleted", &resp.Diagnostics); resp.Diagnostics.HasError() || !o.cluster.isUsable("delete it from", &resp.Diagnostics) {
		return
	}
	var limits timeouts.Value
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("timeouts"), &limits)...)
	limit, d := limits.Delete(ctx, defaultTimeout)
	resp.Diagnostics.Append(d...)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	if !o.isClusterOf(ctx, w, req.Private, &resp.Diagnostics) {
		return
	}
	if o.deleteObject(ctx, w, types.UID(stringAttribute(w.attributes, "uid")), o.kind.isProtectionLifted(w), &resp.Diagnostics); resp.Diagnostics.HasError() {
		return
	}
	if o.kind.derived != nil {
		o.warnHeld(ctx, w, &resp.Diagnostics)
	}
	if namespace, name, key := secretOf(w); o.kind.kubeconfigs && name != "" {
		o.clearKubeconfig(ctx, namespace, name, key, &resp.Diagnostics)
	}
}

// deleteObject deletes the object, with a confirmation if its protection was lifted, and waits until the API server has removed it.
func (o *object) deleteObject(ctx context.Context, w *desired, uid types.UID, lifted bool, d *diag.Diagnostics) {
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
	isRemoved := false
	err := transport.Retry(ctx, func(ctx context.Context) (err error) {
		isRemoved, err = o.cluster.delete(ctx, o.kind, w, options)
		return err
	})
	switch {
	case apierrors.IsNotFound(err), err == nil && isRemoved:
	case apierrors.IsConflict(err):
		d.AddWarning(o.kind.Kind.Kind+" is another object now",
			o.kind.of(w.String())+": The object in the state was deleted, and another client created a new one with its name. Terraform did not delete the new one.")
	case err != nil:
		o.kind.explain(d, "deleted", w.String(), err)
	default:
		o.awaitDeletion(ctx, w, uid, confirmed, d)
	}
}

// delete deletes an object, and reports whether the API server has removed it. Otherwise it may have finalizers.
func (c *cluster) delete(ctx context.Context, k *kind, w *desired, options metav1.DeleteOptions) (isRemoved bool, err error) {
	options.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}
	body, err := json.Marshal(options)
	if err != nil {
		return false, err
	}
	result := k.key(w.namespace).In(c.rest.Delete()).Name(w.name).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(body).Do(ctx)
	if err := result.Error(); err != nil {
		return false, err
	}
	raw, err := result.Raw()
	if err != nil {
		return false, err
	}
	// The answer is the object if it stays for now.
	var status metav1.Status
	return json.Unmarshal(raw, &status) == nil && status.Kind == "Status" && status.Status == metav1.StatusSuccess, nil
}

// awaitDeletion waits until the API server has removed the object, and reports whether it has. If the timeout expires first, the error
// says what holds the object and what confirms its deletion.
func (o *object) awaitDeletion(ctx context.Context, w *desired, uid types.UID, confirmed confirmation, d *diag.Diagnostics) bool {
	why := ""
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		live, err := o.cluster.resourceClient(o.kind, w.namespace).Get(ctx, w.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil && (transport.IsTransient(err) || ctx.Err() != nil):
			return false, nil
		case err != nil:
			return false, err
		case uid != "" && live.GetUID() != uid:
			return true, nil
		}
		now := describeHolders(live)
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
		d.AddError(o.kind.Kind.Kind+" was deleted, but finalizers still hold it",
			fmt.Sprintf("%s: The timeout has expired. %s It stays in force until then. Apply again to continue waiting.", o.kind.of(w.String()), why))
	default:
		o.kind.explain(d, "deleted", w.String(), err)
	}
	return false
}

// describeHolders says what holds an object: a large decrease that is pending for a protector, and finalizers with the components that
// remove them.
func describeHolders(live *unstructured.Unstructured) string {
	var all []string
	for _, name := range live.GetFinalizers() {
		all = append(all, fmt.Sprintf("%s: %s.", name, describeFinalizerRemoval(name, live)))
	}
	finalizers := "It has no finalizers, and will be deleted at once."
	if len(all) > 0 {
		finalizers = "It is held by " + strings.Join(all, " And by ")
	}
	if c := pendingOf(live); c != nil {
		return fmt.Sprintf("The release brake keeps its floor in force (condition %s, reason %s): %s %s", c.Type, c.Reason, sentence(c.Message), finalizers)
	}
	return finalizers
}

func describeFinalizerRemoval(finalizer string, live *unstructured.Unstructured) string {
	switch finalizer {
	case v1alpha1.FinalizerProtector:
		source := live.GetLabels()[v1alpha1.LabelSourceKind] + "/" + live.GetAnnotations()[v1alpha1.AnnotationSourceName]
		return fmt.Sprintf("breakwater generator removes it when the workload %s that it was derived from is deleted, or no policy selects the workload any more; "+
			"breakwater release removes it manually", source)
	case v1alpha1.FinalizerHold:
		if pendingOf(live) != nil {
			return "breakwater generator removes it when the release brake allows it"
		}
		return "breakwater generator removes it as soon as it observes the deletion, so check that it runs; breakwater release removes it manually"
	case v1alpha1.FinalizerCell:
		return "breakwater topology removes it when the cell's aggregator has stopped and no protector counts pods of the cell any more"
	case v1alpha1.FinalizerPolicy:
		return "breakwater generator removes it when it has processed the policy's protectors, so check that it runs; breakwater release removes it manually"
	default:
		return "another component set it, and must remove it"
	}
}
