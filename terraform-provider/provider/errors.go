package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-log/tflog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/breakwater-k8s/breakwater/terraform-provider/shape"
)

// isUnreachable reports whether the request got no answer. An answer that denies the request is an answer.
func isUnreachable(err error) bool {
	var network net.Error
	var address *url.Error
	switch {
	case err == nil, apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return false
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.DeadlineExceeded):
		return true
	case utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err), utilnet.IsHTTP2ConnectionLost(err):
		return true
	case errors.As(err, &network):
		// A certificate from an untrusted authority is wrapped in a url.Error as well, and a retry does not help.
		return !errors.As(err, &address) || network.Timeout() || isDial(err)
	}
	return false
}

func isDial(err error) bool {
	var name *net.DNSError
	if errors.As(err, &name) {
		return true
	}
	// An error of an unreachable proxy is one net.OpError inside another.
	for operation := (*net.OpError)(nil); errors.As(err, &operation); err = operation.Err {
		if operation.Op == "dial" {
			return true
		}
	}
	return false
}

// isTransient reports whether the same request may succeed later. A failing webhook of the cluster is an internal error, too, but does
// not recover within the seconds of a retry.
func isTransient(err error) bool {
	return isUnreachable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) ||
		apierrors.IsInternalError(err) && !strings.Contains(err.Error(), "webhook")
}

// isKindMissing reports whether a NotFound error means that the cluster does not serve the kind, and not that the object does not
// exist.
func isKindMissing(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == "" || strings.Contains(err.Error(), "could not find the requested resource")
}

// retryTransient retries until do succeeds, fails permanently, or the context ends. The error is the last one that explains the failure.
func retryTransient(ctx context.Context, do func(context.Context) error) error {
	var last error
	pace := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.5, Steps: 8, Cap: 3 * time.Second}
	err := pace.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := do(ctx)
		if err == nil || !isTransient(err) {
			return true, err
		}
		// The error of the expired context says less than the error before it.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		tflog.Warn(ctx, "Retrying request after a temporary error", map[string]any{"error": err.Error()})
		return false, nil
	})
	if last != nil && wait.Interrupted(err) {
		return fmt.Errorf("%w (until the timeout expired)", last)
	}
	return err
}

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
	case isKindMissing(err):
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
	d.AddError(summary, strings.TrimSpace(prefix+text+" "+remedy(err)))
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
