package e2e_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// countInMemory makes a webhook decide the removals of the namespace by a counter of each application's budget, which it keeps in memory and no other
// process knows. It is the least that any webhook with budgets costs, denials included.
func (n *benchFixture) countInMemory(budget int) {
	n.Helper()
	certificate, key, authority := testplane.Certificate(n)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	n.noError(err)
	server := &http.Server{Handler: &counter{budget: budget, used: map[string]int{}}, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.ServeTLS(listener, certificate, key) }()
	n.Cleanup(func() { _ = server.Close() })

	url, fail, none := "https://"+listener.Addr().String(), admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	removals := admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}
	hooks := n.cell.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = hooks.Create(n.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: n.namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "counter.example.com", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: authority},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: n.namespace}},
			Rules:             []admissionregistrationv1.RuleWithOperations{removals},
		}},
	}, metav1.CreateOptions{})
	n.noError(err)
	n.Cleanup(func() { n.noError(hooks.Delete(context.Background(), n.namespace, metav1.DeleteOptions{})) })
}

// counter admits as many removals of each application as its budget.
type counter struct {
	budget int

	mu   sync.Mutex
	used map[string]int
}

// ServeHTTP implements http.Handler.
func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	var pod corev1.Pod
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "not a review", http.StatusBadRequest)
		return
	}
	if err := json.Unmarshal(review.Request.OldObject.Raw, &pod); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: c.take(pod.Labels["app"])}
	if !review.Response.Allowed {
		review.Response.Result = &metav1.Status{Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "no budget is left"}
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&review)
}

func (c *counter) take(app string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used[app] >= c.budget {
		return false
	}
	c.used[app]++
	return true
}
