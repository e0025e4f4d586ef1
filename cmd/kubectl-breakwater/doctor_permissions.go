package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/doctor"
)

// readPermissions returns the wanted permissions of the user. If the user may review others, it also returns those of the components' accounts.
func readPermissions(ctx context.Context, config *rest.Config, inCore bool, wanted []doctor.Permission) ([]doctor.Permission, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(wanted, componentPermissions(ctx, client, inCore))
	errs := make([]error, len(all))
	forEachConcurrently(all, func(i int, _ doctor.Permission) {
		all[i].Allowed, errs[i] = isAllowed(ctx, client, &all[i])
	})
	return all, withRemedy(config, errors.Join(errs...))
}

// componentPermissions returns the permissions that accounts of components need. It returns none if the user may not list the accounts or review
// their permissions.
func componentPermissions(ctx context.Context, client kubernetes.Interface, inCore bool) (all []doctor.Permission) {
	accounts, err := client.CoreV1().ServiceAccounts(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: doctor.LabelPartOf + "=" + doctor.PartOfBreakwater})
	review := &doctor.Permission{Verb: "create", Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}
	if allowed, reviewErr := isAllowed(ctx, client, review); err != nil || reviewErr != nil || !allowed {
		return nil
	}
	for i := range accounts.Items {
		account := &accounts.Items[i]
		needed := doctor.ComponentPermissions(account.Labels[doctor.LabelComponent], inCore)
		for j := range needed {
			needed[j].Account = "system:serviceaccount:" + account.Namespace + ":" + account.Name
		}
		all = slices.Concat(all, needed)
	}
	return all
}

// isAllowed reports whether an account, or the user, has a permission in all namespaces.
func isAllowed(ctx context.Context, client kubernetes.Interface, right *doctor.Permission) (bool, error) {
	resource, sub, _ := strings.Cut(right.Resource, "/")
	attributes := &authorizationv1.ResourceAttributes{Verb: right.Verb, Group: right.Group, Resource: resource, Subresource: sub}
	if right.Account == "" {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: attributes, User: right.Account, Groups: groupsOf(right.Account)}}
	answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed, err
}

func groupsOf(account string) []string {
	namespace, _, _ := strings.Cut(strings.TrimPrefix(account, "system:serviceaccount:"), ":")
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
}
