package local_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

func TestCoreServesOurAPI(t *testing.T) {
	api, err := dynamic.NewForConfig(sharedCluster(t).RESTConfig())
	must(t, err)
	for _, resource := range []string{"podprotectors", "cells"} {
		_, err := api.Resource(schema.GroupVersionResource{Group: "breakwater.dev", Version: "v1alpha1", Resource: resource}).
			List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Errorf("%s: %v", resource, err)
		}
	}
}

func TestUserMayDoWhatRBACAllows(t *testing.T) {
	c := sharedCluster(t)
	admin := clients(t, c)
	namespace := newNamespace(t, admin)
	config, file, err := c.User("jane", "readers")
	must(t, err)
	checkKubeconfigIs(t, file, "jane")
	jane, err := kubernetes.NewForConfig(config)
	must(t, err)
	if _, err := jane.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without permissions got %v, want forbidden", err)
	}
	_, err = admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "readers"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "readers"}},
	}, metav1.CreateOptions{})
	must(t, err)
	eventually(t, "the user may read by the group's role", func(ctx context.Context) error {
		_, err := jane.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return err
	})
}

func checkKubeconfigIs(t *testing.T, file, user string) {
	t.Helper()
	api, err := kubernetes.NewForConfig(fromFile(t, file))
	must(t, err)
	review, err := api.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	must(t, err)
	if got := review.Status.UserInfo.Username; got != user {
		t.Errorf("kubeconfig %s authenticates as %s, want %s", file, got, user)
	}
}

func TestServiceAccountTokensWork(t *testing.T) {
	c := sharedCluster(t)
	admin := clients(t, c)
	namespace := newNamespace(t, admin)
	token, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](600)}},
		metav1.CreateOptions{})
	must(t, err)
	config := rest.AnonymousClientConfig(c.RESTConfig())
	config.BearerToken = token.Status.Token
	api, err := kubernetes.NewForConfig(config)
	must(t, err)
	review, err := api.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	must(t, err)
	if want := "system:serviceaccount:" + namespace + ":default"; review.Status.UserInfo.Username != want {
		t.Errorf("the token authenticates as %s, want %s", review.Status.UserInfo.Username, want)
	}
}

// The demo and the end-to-end tests depend on webhooks on the loopback interface.
func TestAPIServerCallsWebhooksOnLoopback(t *testing.T) {
	api := clients(t, sharedCluster(t))
	namespace := newNamespace(t, api)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{
			Code: http.StatusTooManyRequests, Message: "refused on " + r.URL.Path,
		}}
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	configurations := api.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := configurations.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "test.breakwater.dev",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      ptr.To(server.URL + "/cells/main/validate"),
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	defer func() {
		if err := configurations.Delete(context.Background(), namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}()
	n := 0
	eventually(t, "the webhook denies a deletion", func(ctx context.Context) error {
		n++
		name := fmt.Sprintf("victim-%d", n)
		if _, err := api.CoreV1().ConfigMaps(namespace).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		err := api.CoreV1().ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		if err == nil {
			return fmt.Errorf("deletion %d was allowed: the API server does not call the webhook yet", n)
		}
		if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "refused on /cells/main/validate") {
			t.Fatalf("deletion error %v, want the denial of the webhook", err)
		}
		return nil
	})
}
