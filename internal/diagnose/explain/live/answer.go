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

// RecordAnswer records the answer of the API server in an explanation. It returns dryRunErr if that is not an API status.
func RecordAnswer(e *explain.Explanation, dryRunErr error) error {
	status := apierrors.APIStatus(nil)
	answer := &explain.Answer{Allowed: dryRunErr == nil}
	switch {
	case dryRunErr == nil:
		answer.Agrees = e.IsAdmitted()
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
