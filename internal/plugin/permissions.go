package plugin

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

// IsAllowed reports whether an account, or the user, has a permission in all namespaces.
func IsAllowed(ctx context.Context, client kubernetes.Interface, right *findings.Permission) (bool, error) {
	resource, sub, _ := strings.Cut(right.Resource, "/")
	attributes := &authorizationv1.ResourceAttributes{Verb: right.Verb, Group: right.Group, Resource: resource, Subresource: sub}
	if right.Account == "" {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	}
	namespace, _, _ := strings.Cut(strings.TrimPrefix(right.Account, "system:serviceaccount:"), ":")
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
	spec := authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: attributes, User: right.Account, Groups: groups}
	answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed, err
}
