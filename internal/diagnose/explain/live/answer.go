package live

import (
	"context"
	"errors"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
)

func evict(ctx context.Context, c kubernetes.Interface, namespace, name string, how metav1.DeleteOptions) error {
	return c.PolicyV1().Evictions(namespace).Evict(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, DeleteOptions: &how,
	})
}

// RecordAnswer records the answer of the API server in an explanation. It returns dryRunErr if that is not an API status, and if it does not come from
// admission while the explanation IsUnknown: the answer is then the only verdict, and a missing permission or pod is none.
func RecordAnswer(e *explain.Explanation, dryRunErr error) error {
	status := apierrors.APIStatus(nil)
	answer := &explain.Answer{Allowed: dryRunErr == nil}
	switch {
	case dryRunErr == nil:
		answer.Agrees = e.IsAdmitted() // false if it is unknown
	case e.IsUnknown() && !isOfAdmission(dryRunErr):
		return dryRunErr
	case errors.As(dryRunErr, &status):
		answer.Code, answer.Message = status.Status().Code, status.Status().Message
		answer.OfBudget = removal.IsDisruptionBudgetDenial(dryRunErr)
		answer.Agrees = answer.OfBudget && e.IsAdmitted() || !answer.OfBudget && !e.IsAdmitted() && answer.Code == e.Code &&
			strings.HasSuffix(answer.Message, e.Message)
	default:
		return dryRunErr
	}
	e.Answer = answer
	return nil
}

// isOfAdmission reports whether a webhook denied a dry run or could not be called, or a PodDisruptionBudget denied it.
func isOfAdmission(dryRunErr error) bool {
	return removal.IsDisruptionBudgetDenial(dryRunErr) || strings.Contains(dryRunErr.Error(), "admission webhook ") ||
		strings.Contains(dryRunErr.Error(), "failed calling webhook ")
}
