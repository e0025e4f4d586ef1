package provider

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
	"github.com/breakwater-k8s/breakwater/terraform-provider/transport"
)

// explain turns an answer of the API server into diagnostics at the attributes that it concerns.
func (k *kind) explain(d *diag.Diagnostics, doing, name string, err error) {
	summary := fmt.Sprintf("%s could not be %s", k.Kind.Kind, doing)
	prefix := k.of(name) + ": "
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		addErrorWithRemedy(d, summary, prefix, err)
		return
	}
	details := status.Status().Details
	switch {
	case transport.IsKindMissing(err):
		d.AddError(summary, prefix+fmt.Sprintf("The cluster does not know the kind %s: install the chart breakwater-crds first, or check that the provider is configured for the right cluster. (%v)",
			k.Kind.Kind, err))
	case apierrors.IsConflict(err) && len(conflictsOf(err)) > 0:
		k.explainConflicts(d, summary, prefix, conflictsOf(err))
	case apierrors.IsInvalid(err) && details != nil && len(details.Causes) > 0:
		for _, cause := range details.Causes {
			at := k.attributePath(cause.Field)
			errorAt(d, at, summary, prefix+k.message(at, cause.Message))
		}
	default:
		addErrorWithRemedy(d, summary, prefix, err)
	}
}

// addErrorWithRemedy adds the error, with a remedy where that does not depend on the object.
func addErrorWithRemedy(d *diag.Diagnostics, summary, prefix string, err error) {
	if addOutage(d, err) {
		return
	}
	text := sentence(err.Error())
	switch {
	case apierrors.IsForbidden(err):
		text += " The provider's user needs this permission in the cluster; its documentation lists all permissions."
	case apierrors.IsUnauthorized(err):
		text = "The cluster does not accept the provider's credentials: they are wrong, or have expired. " + text
	}
	d.AddError(summary, strings.TrimSpace(prefix+text+" "+transport.Remedy(err)))
}

// explainConflicts names the other field managers and their fields.
func (k *kind) explainConflicts(d *diag.Diagnostics, summary, prefix string, conflicts []metav1.StatusCause) {
	for _, c := range conflicts {
		at := k.attributePath(strings.TrimPrefix(c.Field, "."))
		errorAt(d, at, summary, prefix+fmt.Sprintf("The field manager %q owns %s, and has set it to another value. "+
			"Remove it from the configuration, or set force_conflicts = true to take it over.", managerOf(c), cmp.Or(at.String(), c.Field)))
	}
}

// errorAt adds an error for an attribute, or for the whole resource if the path is empty. Terraform shows no error that has an
// empty path.
func errorAt(d *diag.Diagnostics, at path.Path, summary, detail string) {
	if at.Equal(path.Empty()) {
		d.AddError(summary, detail)
		return
	}
	d.AddAttributeError(at, summary, detail)
}

// attributePath returns the attribute of a field that the API server names.
func (k *kind) attributePath(field string) path.Path {
	p, err := shape.ParsePath(strings.TrimPrefix(field, "<nil>"))
	if err != nil {
		return path.Empty()
	}
	return k.attribute(p)
}

func sentence(s string) string {
	if s == "" {
		return s
	}
	s = strings.ToUpper(s[:1]) + s[1:]
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// addOutage adds the error of a request that the guard has stopped, which is the same for all resources. It reports whether it was stopped.
func addOutage(d *diag.Diagnostics, err error) bool {
	var outage *transport.Outage
	if !errors.As(err, &outage) {
		return false
	}
	d.AddError("The cluster is unreachable", sentence(outage.Error())+" Check the address and the network. The provider has stopped all requests to "+
		"the cluster: run Terraform again when it answers.")
	return true
}
