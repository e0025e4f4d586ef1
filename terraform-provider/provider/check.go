package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// check validates an object as the API server would. If before is set, check also applies the rules for
// updates.
func (k *kind) check(ctx context.Context, now, before *desired, d *diag.Diagnostics) {
	rules, err := k.rules()
	if err != nil {
		d.AddError("The provider is broken", fmt.Sprintf("The rules of %s cannot be compiled: %v", k.Kind.Kind, err))
		return
	}
	var old map[string]any
	if before != nil {
		old = before.object.Object
	}
	for _, number := range shape.NotWhole(shape.Path{"spec"}, now.object.Object["spec"]) {
		at := k.attribute(number)
		errorAt(d, at, "Invalid "+k.Kind.Kind, at.String()+": must be a whole number from 0 to 2147483647.")
	}
	if d.HasError() {
		return
	}
	k.checkCounted(now, d)
	broken := rules.Check(ctx, now.object.Object, old, now.unknown)
	broken = append(broken, metav1validation.ValidateLabels(now.object.GetLabels(), field.NewPath("metadata", "labels"))...)
	broken = append(broken, apivalidation.ValidateAnnotations(now.object.GetAnnotations(), field.NewPath("metadata", "annotations"))...)
	for _, e := range broken {
		at := k.attributePath(e.Field)
		if at.Equal(path.Root("name")) || at.Equal(path.Root("namespace")) {
			continue // their attributes have validators, which distinguish a missing value from an unknown one
		}
		errorAt(d, at, fmt.Sprintf("Invalid %s", k.Kind.Kind), k.message(at, e.ErrorBody()))
	}
}
