package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

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
