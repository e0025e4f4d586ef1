package gitops_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var certificates = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}

func TestCertificateRotationFailsNoReviewAndShowsNoDiff(t *testing.T) {
	asked, stop := removeContinuously(t)
	served := servedSerials(t)
	// Renew the CA first, which changes the bundle, and then the certificate that it signs.
	for _, name := range []string{"breakwater-ca", "breakwater-webhook"} {
		renewCertificate(t, name)
	}
	noErrors(t, gitops.WaitUntil(t.Context(), "the webhooks to serve the new certificate", func() string {
		if now := servedSerials(t); now.Intersection(served).Len() > 0 {
			return "a webhook serves the old certificate"
		}
		return ""
	}))
	last := asked()
	noErrors(t, gitops.WaitUntil(t.Context(), "reviews with the new certificate", func() string {
		if asked() < last+20 {
			return fmt.Sprintf("%d reviews since", asked()-last)
		}
		return ""
	}))
	reviews, failures := stop()
	if len(failures) > 0 {
		t.Errorf("%d of %d reviews failed during the rotation, such as: %s", len(failures), reviews, failures[0])
	}
	t.Logf("%d reviews during the rotation", reviews)
	noErrors(t, gitops.WaitUntil(t.Context(), "the webhook configurations to trust the new CA", func() string { return caBundleProblem(t) }))
	expectNoDiff(t)
	expectDenied(t)
}

// caBundleProblem returns why a webhook configuration does not trust the CA of the newest certificate, or "" if all of them do.
func caBundleProblem(t *testing.T) string {
	t.Helper()
	var s corev1.Secret
	noErrors(t, fixture.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: "breakwater-webhook-tls"}, &s))
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	noErrors(t, fixture.List(t.Context(), &validating), fixture.List(t.Context(), &mutating))
	trusts := map[string][]byte{}
	for _, c := range validating.Items {
		trusts[c.Name] = c.Webhooks[0].ClientConfig.CABundle
	}
	for _, c := range mutating.Items {
		trusts[c.Name] = c.Webhooks[0].ClientConfig.CABundle
	}
	for name, bundle := range trusts {
		// The cainjector keeps earlier CAs in the bundle until they expire, so that replicas can switch at different times.
		if !bytes.Contains(bundle, bytes.TrimSpace(s.Data["ca.crt"])) {
			return name + " does not have it"
		}
	}
	return ""
}

// removeContinuously requests dry-run removals until stop is called, on connections that the API server chooses. count returns the number
// of requests so far. stop returns that number and the problem of each request that was not denied.
func removeContinuously(t *testing.T) (count func() int, stop func() (int, []string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var asking sync.WaitGroup
	reviews, failures := 0, []string(nil)
	asking.Go(func() {
		for ctx.Err() == nil {
			word := fixture.denialProblem(ctx)
			mu.Lock()
			if ctx.Err() == nil {
				reviews++
				if word != "" {
					failures = append(failures, word)
				}
			}
			mu.Unlock()
		}
	})
	count = func() int { mu.Lock(); defer mu.Unlock(); return reviews }
	return count, func() (int, []string) {
		cancel()
		asking.Wait()
		return reviews, failures
	}
}

// renewCertificate makes cert-manager issue a certificate again, as cmctl renew does, and waits until it is issued.
func renewCertificate(t *testing.T, name string) {
	t.Helper()
	certificate, err := fixture.Read(t.Context(), certificates, systemNamespace, name)
	noErrors(t, err)
	secret, _, err := unstructured.NestedString(certificate.Object, "spec", "secretName")
	noErrors(t, err)
	old := issuedCertificate(t, secret)
	conditions, _, err := unstructured.NestedSlice(certificate.Object, "status", "conditions")
	noErrors(t, err)
	conditions = append(conditions, map[string]any{
		"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "renew", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	})
	noErrors(t, unstructured.SetNestedSlice(certificate.Object, conditions, "status", "conditions"), fixture.Status().Update(t.Context(), certificate))
	noErrors(t, gitops.WaitUntil(t.Context(), "certificate "+name+" to be renewed", func() string {
		if bytes.Equal(old, issuedCertificate(t, secret)) {
			return "its Secret has the old certificate"
		}
		return ""
	}))
}

func issuedCertificate(t *testing.T, secret string) []byte {
	t.Helper()
	var s corev1.Secret
	noErrors(t, fixture.Get(t.Context(), client.ObjectKey{Namespace: systemNamespace, Name: secret}, &s))
	return s.Data["tls.crt"]
}

// servedSerials returns the serial numbers of the certificates that the webhooks serve.
func servedSerials(t *testing.T) sets.Set[string] {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the test reads the certificate, and sends nothing
	serials := sets.New[string]()
	for _, address := range fixture.kubelet.Webhooks() {
		conn, err := dialer.DialContext(t.Context(), "tcp", address)
		noErrors(t, err)
		serials.Insert(conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String())
		noErrors(t, conn.Close())
	}
	if serials.Len() == 0 {
		t.Fatal("no webhook is ready")
	}
	return serials
}
