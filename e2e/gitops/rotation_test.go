package gitops_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var certificates = schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"}

func TestARotationFailsNoReviewAndIsNoDiff(t *testing.T) {
	asked, stop := ask(t)
	served := servedSerial(t)
	// First the CA, of which the bundle changes; then what it signs.
	for _, name := range []string{"breakwater-ca", "breakwater-webhook"} {
		renew(t, name)
	}
	must(t, gitops.Await(t.Context(), "the new certificate to be served", func() string {
		if servedSerial(t) == served {
			return "the webhook serves the old one"
		}
		return ""
	}))
	last := asked()
	must(t, gitops.Await(t.Context(), "reviews with the new certificate", func() string {
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
	must(t, gitops.Await(t.Context(), "the new CA to be trusted", func() string { return bundled(t) }))
	wantNoDiff(t)
	wantRefused(t)
}

// bundled says why the webhook configurations do not trust the CA of the newest certificate.
func bundled(t *testing.T) string {
	t.Helper()
	var s corev1.Secret
	must(t, stage.Get(t.Context(), client.ObjectKey{Namespace: system, Name: "breakwater-webhook-tls"}, &s))
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	must(t, stage.List(t.Context(), &validating), stage.List(t.Context(), &mutating))
	trusts := map[string][]byte{}
	for _, c := range validating.Items {
		trusts[c.Name] = c.Webhooks[0].ClientConfig.CABundle
	}
	for _, c := range mutating.Items {
		trusts[c.Name] = c.Webhooks[0].ClientConfig.CABundle
	}
	for name, bundle := range trusts {
		// The cainjector leaves those before in the bundle until they have expired, so that replicas may be slow.
		if !bytes.Contains(bundle, bytes.TrimSpace(s.Data["ca.crt"])) {
			return name + " has not got it"
		}
	}
	return ""
}

// ask tries removals all the time, each on a connection of the apiserver's choice, until stop, which gives what was no refusal.
func ask(t *testing.T) (count func() int, stop func() (int, []string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var asking sync.WaitGroup
	reviews, failures := 0, []string(nil)
	asking.Go(func() {
		for ctx.Err() == nil {
			word := stage.refused(ctx)
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

// renew has cert-manager issue a certificate again, as cmctl renew does, and waits until it has.
func renew(t *testing.T, name string) {
	t.Helper()
	certificate, err := stage.Read(t.Context(), certificates, system, name)
	must(t, err)
	secret, _, err := unstructured.NestedString(certificate.Object, "spec", "secretName")
	must(t, err)
	old := issued(t, secret)
	conditions, _, err := unstructured.NestedSlice(certificate.Object, "status", "conditions")
	must(t, err)
	conditions = append(conditions, map[string]any{
		"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "renew", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	})
	must(t, unstructured.SetNestedSlice(certificate.Object, conditions, "status", "conditions"), stage.Status().Update(t.Context(), certificate))
	must(t, gitops.Await(t.Context(), "certificate "+name+" to be renewed", func() string {
		if bytes.Equal(old, issued(t, secret)) {
			return "its Secret has the old one"
		}
		return ""
	}))
}

func issued(t *testing.T, secret string) []byte {
	t.Helper()
	var s corev1.Secret
	must(t, stage.Get(t.Context(), client.ObjectKey{Namespace: system, Name: secret}, &s))
	return s.Data["tls.crt"]
}

// servedSerial is the serial number of the certificate that the webhook serves.
func servedSerial(t *testing.T) string {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // we look at it, and send nothing
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.Replace(stage.webhook, "0.0.0.0", "127.0.0.1", 1))
	must(t, err)
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
}
