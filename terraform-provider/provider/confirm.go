package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// confirmGrace is how much longer a confirmation lasts than Terraform waits, because the clock of the generator may be ahead.
const confirmGrace = time.Minute

// confirmation is how a deletion was confirmed to the release brake (rule 13). At most one of its fields is set.
type confirmation struct {
	// until is when the confirmation ends that Terraform made, as RFC 3339.
	until string
	// configured is the value of the annotation that the configuration sets. Terraform leaves it as it is.
	configured string
	// refused is why the API server did not take the confirmation.
	refused error
}

// isProtected reports whether the state protects the object from deletion. A state that does not say so has the default.
func (k *kind) isProtected(had map[string]tftypes.Value) bool {
	if had["deletion_protection"].IsNull() {
		return k.protected
	}
	return isTrue(had, "deletion_protection")
}

// isLifted reports whether a practitioner lifted the protection of the object from deletion: the state has false, and the default is true.
// Where false is the default, it says nothing about anyone's intent.
func (k *kind) isLifted(had map[string]tftypes.Value) bool {
	return k.protected && !k.isProtected(had)
}

// confirm confirms the deletion to the release brake: a practitioner has lifted the protection and then asked for the deletion. The
// confirmation ends by itself, so that an object that is not deleted in time does not stay confirmed. A protector that the brake holds
// since an earlier attempt is confirmed as well. An error is one that may pass.
func (o *object) confirm(ctx context.Context, w *wanted, uid types.UID) (confirmation, error) {
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
	err = persist(ctx, func(ctx context.Context) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			_, err := o.cluster.of(o.kind, w.namespace).Patch(ctx, w.name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager + "-actions"})
			return err
		})
	})
	switch {
	case err == nil:
		return confirmation{until: until}, nil
	case isPassing(err):
		return confirmation{}, err
	default:
		// A single deletion passes the brake without a confirmation. If the object is another one by now, the deletion reports it.
		tflog.Warn(ctx, "deletion not confirmed", map[string]any{"kind": o.kind.Kind.Kind, "name": w.String(), "error": err.Error()})
		return confirmation{refused: err}, nil
	}
}

// advice says what confirms a deletion that the brake still holds; empty if Terraform had no reason to confirm it.
func (c confirmation) advice() string {
	switch {
	case c.until != "":
		return fmt.Sprintf("Terraform confirmed the deletion until %s, but the generator has not released it: check that the generator runs and that "+
			"its clock is right. Then destroy it again, which confirms it again.", c.until)
	case c.configured != "":
		return fmt.Sprintf("The configuration sets the annotation %s to %q, so Terraform does not confirm the deletion. Remove the annotation or set "+
			"a time to come, apply, and destroy it again.", v1alpha1.AnnotationConfirmRelease, c.configured)
	case c.refused != nil:
		return fmt.Sprintf("Terraform could not confirm the deletion: %s Remove the cause (the provider's user needs the verb patch), and destroy it again.", sentence(c.refused.Error()))
	default:
		return ""
	}
}
