package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflog"
	"k8s.io/apimachinery/pkg/util/wait"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
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

// IsTransient reports whether the same request may succeed later. A failing webhook of the cluster is an internal error, too, but does
// not recover within the seconds of a retry.
func IsTransient(err error) bool {
	return isUnreachable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) ||
		apierrors.IsInternalError(err) && !strings.Contains(err.Error(), "webhook")
}

// IsKindMissing reports whether a NotFound error means that the cluster does not serve the kind, and not that the object does not
// exist.
func IsKindMissing(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details == nil || details.Name == "" || strings.Contains(err.Error(), "could not find the requested resource")
}

// Retry retries until do succeeds, fails permanently, or the context ends. The error is the last one that explains the failure.
func Retry(ctx context.Context, do func(context.Context) error) error {
	var last error
	pace := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.5, Steps: 8, Cap: 3 * time.Second}
	err := pace.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		err := do(ctx)
		if err == nil || !IsTransient(err) {
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
