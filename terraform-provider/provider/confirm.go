package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
)

// confirmGrace is how long a confirmation outlives Terraform's own timeout, because the generator's clock may be ahead.
const confirmGrace = time.Minute

// confirmation records how a deletion was confirmed to the release brake (rule 13). At most one of its fields is set.
type confirmation struct {
	// until is when the confirmation that Terraform set ends, in RFC 3339.
	until string
	// configured is the value of the annotation that the configuration sets. Terraform leaves it unchanged.
	configured string
	// rejection is why the API server rejected the confirmation.
	rejection error
}

// isProtected reports whether the state protects the object from deletion. If the state has no value, the default of the kind
// applies.
func (k *kind) isProtected(had *desired) bool {
	if had.attributes["deletion_protection"].IsNull() {
		return k.protected
	}
	return isTrue(had.attributes, "deletion_protection")
}

// isProtectionLifted reports whether the user lifted the deletion protection of the object: the state has false, and the default is true.
// Where false is the default, the value shows no intent.
func (k *kind) isProtectionLifted(had *desired) bool {
	return k.protected && !k.isProtected(had)
}

// confirm confirms the deletion to the release brake, because the user has lifted the protection and then requested the deletion.
// The confirmation expires, so that an object that is not deleted in time does not stay confirmed. confirm also covers a
// protector that the brake has held since an earlier attempt. It returns an error only if a retry may succeed.
func (o *object) confirm(ctx context.Context, w *desired, uid types.UID) (confirmation, error) {
	if value, ok := w.keys("annotations")[v1alpha1.AnnotationConfirmRelease].(string); ok {
		return confirmation{configured: value}, nil
	}
	deadline, _ := ctx.Deadline()
	until := deadline.Add(confirmGrace).UTC().Format(time.RFC3339)
	metadata := map[string]any{"annotations": map[string]string{v1alpha1.AnnotationConfirmRelease: until}}
	if uid != "" {
		metadata["uid"] = uid
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return confirmation{}, err
	}
	err = transport.Retry(ctx, func(ctx context.Context) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			_, err := o.cluster.resourceClient(o.kind, w.namespace).Patch(
				ctx, w.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: o.cluster.manager + "-actions"})
			return err
		})
	})
	switch {
	case err == nil:
		return confirmation{until: until}, nil
	case transport.IsTransient(err):
		return confirmation{}, err
	default:
		// The brake lets a single deletion pass without a confirmation. If the object was replaced in the meantime, the deletion
		// reports it.
		tflog.Warn(ctx, "deletion not confirmed", map[string]any{"kind": o.kind.Kind.Kind, "name": w.String(), "error": err.Error()})
		return confirmation{rejection: err}, nil
	}
}

// advice says how to confirm a deletion that the brake still holds. It is empty if Terraform had no reason to confirm the
// deletion.
func (c confirmation) advice() string {
	switch {
	case c.until != "":
		return fmt.Sprintf("Terraform confirmed the deletion until %s, but the generator has not released it: check that the generator runs and that "+
			"its clock is right. Then destroy it again, which confirms it again.", c.until)
	case c.configured != "":
		return fmt.Sprintf("The configuration sets the annotation %s to %q, so Terraform does not confirm the deletion. Remove the annotation or set "+
			"a future time, apply, and destroy it again.", v1alpha1.AnnotationConfirmRelease, c.configured)
	case c.rejection != nil:
		return fmt.Sprintf("Terraform could not confirm the deletion: %s Remove the cause (the provider's user needs the verb patch), and destroy it again.", sentence(c.rejection.Error()))
	default:
		return ""
	}
}

// pendingOf returns the condition of the large decrease that is pending for a protector; nil if none is.
func pendingOf(live *unstructured.Unstructured) *metav1.Condition {
	status := struct {
		Conditions []metav1.Condition `json:"conditions"`
	}{}
	raw, _ := live.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &status); err != nil {
		return nil
	}
	c := apimeta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDecreasePending)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	return c
}

// warnHeld warns of the protectors of a deleted policy whose release the brake holds. No annotation of a policy confirms it.
func (o *object) warnHeld(ctx context.Context, w *desired, d *diag.Diagnostics) {
	policy := o.kind.Kind.Kind + "/" + w.name
	var held []string
	for live, err := range o.cluster.list(ctx, o.kind.derived, w.namespace, "", 0) {
		if err != nil {
			tflog.Warn(ctx, "protectors of the deleted policy not listed", map[string]any{"policy": policy, "error": err.Error()})
			return
		}
		c := pendingOf(live)
		if live.GetAnnotations()[v1alpha1.AnnotationPolicy] == policy && c != nil && c.Reason != v1alpha1.ReasonQuietPeriod {
			held = append(held, live.GetNamespace()+"/"+live.GetName())
		}
	}
	if len(held) == 0 {
		return
	}
	d.AddWarning(o.kind.Kind.Kind+" was deleted, but the floors of its protectors are held",
		fmt.Sprintf("%s was deleted, but the floors of %s are held. The deletion of a policy does not confirm the release of its protectors, so the release brake keeps them in force (condition %s): %s. "+
			"If you intend their release, run \"kubectl breakwater release --pending\" in their namespaces, or annotate the namespaces with %s.",
			o.kind.of(w.String()), formatProtectors(len(held)), v1alpha1.ConditionDecreasePending, joinNames(held), v1alpha1.AnnotationConfirmRelease))
}
