package generator

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// outcome is the result of one reconciliation.
type outcome string

const (
	// ignored: the source needs no protector and has no generated one.
	ignored outcome = "Ignored"
	// protected: the source has its protectors.
	protected outcome = "Protected"
	// retained: the protectors stay, without the policy that generated them.
	retained outcome = "PolicyGone"
	// released: the source was deleted or opted out; protectors and finalizers were removed.
	released outcome = "Released"
	// sourceVanished: the protectors stay, without their source.
	sourceVanished outcome = "SourceVanished"
	// decreaseHeld: protectors stay in force, because their release is pending.
	decreaseHeld outcome = "DecreaseHeld"
	// nameTaken: a protector that was not generated has the name.
	nameTaken outcome = "NameTaken"
	// refused: the source requests a protector that cannot be created.
	denied outcome = "Refused"
	// outdated: the API server has a newer state than the cache. Usually an event follows. The generator also looks again in case it does
	// not.
	outdated outcome = "Outdated"
)

// classifyWriteError classifies a failed write. If it failed because the object is no longer as the cache shows it, an event will follow, and an
// immediate retry would only fail again. All other errors are returned, to be retried.
func classifyWriteError(err error, action string) (outcome, error) {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) ||
		isInvalidAt(err, "metadata.uid", "metadata.finalizers") {
		return outdated, nil
	}
	return "", fmt.Errorf("%s: %w", action, err)
}

// isInvalidSpec reports whether the API server rejects the spec of an object.
func isInvalidSpec(err error) bool { return isInvalidAt(err, "spec") }

// isInvalidAt reports whether the API server finds an object invalid in one of the fields, or below it.
func isInvalidAt(err error, fields ...string) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return slices.ContainsFunc(fields, func(field string) bool {
			return cause.Field == field || strings.HasPrefix(cause.Field, field+".")
		})
	})
}
