package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/doctor"
)

// atOnce is the maximum number of concurrent reviews.
const atOnce = 8

// rightsAt returns the wanted permissions of the user. If the user may review others, it also returns those of the components' accounts.
func rightsAt(ctx context.Context, config *rest.Config, inCore bool, wanted []doctor.Right) ([]doctor.Right, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(wanted, neededBy(ctx, client, inCore))
	errs := make([]error, len(all))
	turns := make(chan struct{}, atOnce)
	var asking sync.WaitGroup
	for i := range all {
		asking.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			all[i].Allowed, errs[i] = mayDo(ctx, client, &all[i])
		})
	}
	asking.Wait()
	return all, failure(config, errors.Join(errs...))
}

// neededBy returns the permissions that accounts of components need. It returns none if the user may not list the accounts or review
// their permissions.
func neededBy(ctx context.Context, client kubernetes.Interface, inCore bool) (all []doctor.Right) {
	accounts, err := client.CoreV1().ServiceAccounts(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: doctor.LabelPart + "=" + doctor.PartOf})
	review := &doctor.Right{Verb: "create", Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}
	if may, askErr := mayDo(ctx, client, review); err != nil || askErr != nil || !may {
		return nil
	}
	for i := range accounts.Items {
		account := &accounts.Items[i]
		needed := doctor.Needed(account.Labels[doctor.LabelComponent], inCore)
		for j := range needed {
			needed[j].Account = "system:serviceaccount:" + account.Namespace + ":" + account.Name
		}
		all = slices.Concat(all, needed)
	}
	return all
}

// mayDo reports whether an account, or the user, has a permission in all namespaces.
func mayDo(ctx context.Context, client kubernetes.Interface, right *doctor.Right) (bool, error) {
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

// groupsOf returns the groups of a ServiceAccount.
func groupsOf(account string) []string {
	namespace, _, _ := strings.Cut(strings.TrimPrefix(account, "system:serviceaccount:"), ":")
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
}
