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

// Compare records the answer of the API server in an explanation. It returns said if that is not an API status.
func Compare(e *explain.Explanation, said error) error {
	status := apierrors.APIStatus(nil)
	answer := &explain.Answer{Allowed: said == nil}
	switch {
	case said == nil:
		answer.Agrees = e.Goes()
	case errors.As(said, &status):
		answer.Code, answer.Message = status.Status().Code, status.Status().Message
		answer.OfBudget = removal.IsOfDisruptionBudget(said)
		answer.Agrees = answer.OfBudget && e.Goes() || !answer.OfBudget && !e.Goes() && answer.Code == e.Code && strings.HasSuffix(answer.Message, e.Message)
	default:
		return said
	}
	e.Answer = answer
	return nil
}
