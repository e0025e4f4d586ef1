package check_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/check"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// hook is a webhook server with the certificate of a Service.
type hook struct {
	ca []byte
	// lastRequest is the last review, and path its request path.
	lastRequest *admissionv1.AdmissionRequest
	path        string
	check.Dial
}

// newHook starts a hook with a certificate for name. answer can change the response, which allows by default.
func newHook(t *testing.T, name string, answer func(*admissionv1.AdmissionReview)) *hook {
	t.Helper()
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	r := &rotator.CertRotator{CAName: "ca", DNSName: name, ExtKeyUsages: &usages}
	begin, end := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ca, err := r.CreateCACert(begin, end)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := r.CreateCertPEM(ca, begin, end)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	h := &hook{ca: ca.CertPEM}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		review := &admissionv1.AdmissionReview{}
		raw, _ := io.ReadAll(request.Body)
		if err := json.Unmarshal(raw, review); err != nil || review.Request == nil || !strings.HasPrefix(request.URL.Path, "/cells/a/") {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		h.lastRequest, h.path = review.Request, request.URL.Path
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		answer(review)
		_ = json.NewEncoder(w).Encode(review)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	h.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != "webhook.ns.svc:8443" {
			return nil, &net.DNSError{Err: "no such host", Name: address}
		}
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	return h
}

// configuration refers to the Service of a hook.
func configuration(ca []byte, group string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	path, port := "/cells/a/validate", int32(8443)
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:  "pods.breakwater.dev",
			Rules: []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{APIGroups: []string{group}}}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: ca,
				Service: &admissionregistrationv1.ServiceReference{Namespace: "ns", Name: "webhook", Path: &path, Port: &port}},
		}},
	}
}

func runChecks(t *testing.T, dial check.Dial, core bool, objects ...client.Object) []check.Finding {
	t.Helper()
	checker := newChecker(t, dial, objects)
	checker.Core = core
	if !core {
		checker.Configurations = []string{"hook"}
	}
	return checker.Run(t.Context())
}

func newChecker(t *testing.T, dial check.Dial, objects []client.Object) *check.Checker {
	t.Helper()
	return &check.Checker{
		Client: fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(objects...).Build(), Namespace: "ns", Dial: dial,
		Discovery: discovery.NewDiscoveryClientForConfigOrDie(testplane.Config(t)),
	}
}

func TestRunCallsWebhooks(t *testing.T) {
	allow := func(*admissionv1.AdmissionReview) {}
	good, another := newHook(t, "webhook.ns.svc", allow), newHook(t, "another.ns.svc", allow)
	denying := newHook(t, "webhook.ns.svc", func(r *admissionv1.AdmissionReview) {
		r.Response.Allowed, r.Response.Result = false, &metav1.Status{Message: "unknown cell"}
	})
	confused := newHook(t, "webhook.ns.svc", func(r *admissionv1.AdmissionReview) { r.Response.UID = "another" })
	empty := configuration(good.ca, "")
	empty.Webhooks = nil
	elsewhere := configuration(good.ca, "")
	elsewhere.Webhooks[0].ClientConfig.Service.Name = "elsewhere"
	for claim, test := range map[string]struct {
		hook          *hook
		configuration *admissionregistrationv1.ValidatingWebhookConfiguration
		want          string
	}{
		"one that works":                      {good, configuration(good.ca, ""), ""},
		"one for protectors":                  {good, configuration(good.ca, "breakwater.dev"), ""},
		"one without a caBundle yet":          {good, configuration(nil, ""), "has no caBundle yet"},
		"one with an invalid caBundle":        {good, configuration([]byte("garbage"), ""), "has no certificate in its caBundle"},
		"one of another CA":                   {good, configuration(another.ca, ""), "certificate signed by unknown authority"},
		"one of another name":                 {another, configuration(another.ca, ""), "not webhook.ns.svc"},
		"one that does not know the cell":     {denying, configuration(denying.ca, ""), "unknown cell"},
		"one that answers another review":     {confused, configuration(confused.ca, ""), "answers, but is not a webhook"},
		"a Service that does not exist":       {good, elsewhere, "does not answer"},
		"a configuration without webhooks":    {good, empty, "removals are not reviewed"},
		"a configuration that does not exist": {good, nil, "does not exist"},
	} {
		t.Run(claim, func(t *testing.T) {
			var objects []client.Object
			if test.configuration != nil {
				objects = append(objects, test.configuration)
			}
			found := runChecks(t, test.hook.Dial, false, objects...)
			if len(found) != 1 || !strings.Contains(found[0].Problem, test.want) || (found[0].Problem == "") != (test.want == "") {
				t.Errorf("Run() = %+v, want %q", found, test.want)
			}
		})
	}
	runChecks(t, good.Dial, false, configuration(good.ca, ""))
	if a := good.lastRequest; a.Operation != admissionv1.Delete || a.Resource.Resource != "pods" || a.DryRun == nil || !*a.DryRun || a.Namespace != "ns" {
		t.Errorf("the webhook received %+v, want a dry run about an object that does not exist", a)
	}
	runChecks(t, good.Dial, false, configuration(good.ca, "breakwater.dev"))
	if a := good.lastRequest; a.Operation != admissionv1.Create || a.Resource.Resource != "podprotectors" || !*a.DryRun {
		t.Errorf("the webhook received %+v, want a dry run about an object that does not exist", a)
	}
}

func TestRunReportsCells(t *testing.T) {
	cell := func(change ...func(*v1alpha1.Cell)) *v1alpha1.Cell {
		c := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		c.Spec.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: "ns", Name: "cell-a"}
		for _, name := range []string{"Ready", "Connected", "AggregationFresh", "Guarded"} {
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: name, Status: metav1.ConditionTrue})
		}
		for _, f := range change {
			f(c)
		}
		return c
	}
	for claim, test := range map[string]struct {
		cells []client.Object
		want  string
	}{
		"none":            {nil, "there are none"},
		"one that works":  {[]client.Object{cell()}, ""},
		"one that is new": {[]client.Object{cell(func(c *v1alpha1.Cell) { c.Status.Conditions = nil })}, "no controller has set condition Ready yet"},
		"one that is not guarded": {[]client.Object{cell(func(c *v1alpha1.Cell) {
			c.Status.Conditions[3] = metav1.Condition{Type: "Guarded", Status: metav1.ConditionFalse, Reason: "WebhookMissing", Message: "no configuration"}
		})}, "Guarded=False (WebhookMissing): no configuration"},
		"one by flags, which no controller checks": {[]client.Object{cell(func(c *v1alpha1.Cell) {
			c.Spec.KubeconfigSecretRef, c.Status.Conditions = nil, []metav1.Condition{c.Status.Conditions[0], c.Status.Conditions[2]}
		})}, ""},
		"one by flags, for which the controller has no kubeconfig": {[]client.Object{cell(func(c *v1alpha1.Cell) {
			c.Spec.KubeconfigSecretRef = nil
			for _, at := range []int{1, 3} {
				c.Status.Conditions[at].Status, c.Status.Conditions[at].Reason = metav1.ConditionUnknown, v1alpha1.ReasonNoKubeconfig
			}
		})}, ""},
		"one by flags, which the controller checked": {[]client.Object{cell(func(c *v1alpha1.Cell) {
			c.Spec.KubeconfigSecretRef = nil
			c.Status.Conditions[3] = metav1.Condition{Type: "Guarded", Status: metav1.ConditionFalse, Reason: "WebhookMissing", Message: "no configuration"}
		})}, "Guarded=False (WebhookMissing): no configuration"},
		"one that overlaps": {[]client.Object{cell(func(c *v1alpha1.Cell) {
			c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: "Overlapping", Status: metav1.ConditionTrue, Message: "with b"})
		})}, "with b"},
		"one that is being deleted": {[]client.Object{cell(func(c *v1alpha1.Cell) {
			now := metav1.Now()
			c.DeletionTimestamp, c.Finalizers = &now, []string{"breakwater.dev/cell"}
		})}, "not drained yet"},
	} {
		t.Run(claim, func(t *testing.T) {
			found := runChecks(t, nil, true, test.cells...)
			if len(found) != 2 || found[0].Problem != "" || !strings.Contains(found[1].Problem, test.want) || (found[1].Problem == "") != (test.want == "") {
				t.Errorf("Run() = %+v, want the API and %q", found, test.want)
			}
		})
	}
}
