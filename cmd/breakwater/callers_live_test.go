package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/breakwater-k8s/breakwater/controllers/certificates"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// callersFixture is an API server that asks a webhook at a Service, and the components that put what both know each other by into its configuration.
type callersFixture struct {
	*administrator
	namespace, address, kubeconfig string
	keys                           client.ObjectKey
	removals                       removalLoop
}

func newCallersFixture(t *testing.T) *callersFixture {
	t.Helper()
	registry := metrics.Registry // other tests run the same components in this process
	metrics.Registry = prometheus.NewRegistry()
	t.Cleanup(func() { metrics.Registry = registry })
	l := &callersFixture{administrator: newAdministrator(t), namespace: testplane.Namespace(t), address: testplane.FreeAddress(t)}
	l.kubeconfig = writeKubeconfig(t, l.config)
	l.keys = client.ObjectKey{Namespace: l.namespace, Name: "webhook-callers"}
	l.create(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "webhook"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "127.0.0.1"},
	})
	_, text, _ := strings.Cut(l.address, ":")
	var port int32
	if _, err := fmt.Sscan(text, &port); err != nil {
		t.Fatal(err)
	}
	configuration, err := register.Configuration(register.Options{
		Name: l.namespace, Cell: l.namespace, Namespaces: []string{l.namespace}, ExemptNamespaces: webhookconfig.DefaultExemptNamespaces(), TimeoutSeconds: 10,
		Endpoint: register.Endpoint{ServiceNamespace: l.namespace, ServiceName: "webhook", ServicePort: port},
	})
	if err != nil {
		t.Fatal(err)
	}
	configuration.Annotations = map[string]string{webhookconfig.AnnotationCallerPath: webhookconfig.RemovalPath(l.namespace)}
	l.create(configuration)
	l.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: l.namespace, Name: l.keys.Name, Annotations: map[string]string{certificates.AnnotationCallerTokens: "Permissive"},
	}})
	return l
}

// start starts the components, with the rights that the chart gives them, and the webhook.
func (l *callersFixture) start(ctx context.Context, running *sync.WaitGroup) {
	t := l.t
	t.Helper()
	serving, user := client.ObjectKey{Namespace: l.namespace, Name: "webhook-tls"}, "certificates-"+l.namespace
	createsSecrets := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}}
	inCluster, local := roles.CertificateRules(t, []string{l.namespace}, nil, serving.Name, l.keys.Name)
	testplane.User(t, user, slices.Concat(inCluster, local, []rbacv1.PolicyRule{createsSecrets}))
	both := []string{"certificates", "--kubeconfig", l.kubeconfig, "--as", user, "--leader-election-namespace", l.namespace, "--webhook-configuration", l.namespace,
		"--metrics-listen", "0", "--health-listen", "0", "--spread", replicasDelay.String()}
	runInBackground(t, append(both, "--secret", serving.String(), "--dns-name", "webhook."+l.namespace+".svc")...)
	runInBackground(t, append(both, "--caller-keys", l.keys.String(), "--caller-overlap", "5s", "--leader-election-lease", "breakwater-callers")...)
	files, keys := &secretMount{folder: t.TempDir()}, &secretMount{folder: t.TempDir()}
	running.Go(func() { files.follow(ctx, t, l, serving) })
	running.Go(func() { keys.follow(ctx, t, l, l.keys) })
	certificate := filepath.Join(files.folder, "tls.crt")
	eventually(t, "files", func() string {
		_, err := os.Stat(certificate)
		return errorText(err)
	})
	health := testplane.FreeAddress(t)
	runInBackground(t, "webhook", "--core", "core="+l.kubeconfig, "--cell", l.namespace+"="+l.kubeconfig, "--listen", l.address, "--caller-keys", keys.folder,
		"--tls-cert", certificate, "--tls-key", filepath.Join(files.folder, "tls.key"), "--metrics-listen", "0", "--health-listen", health)
	eventually(t, "a webhook", func() string { return fetch("http://"+health+"/readyz", "ok") })
	for number := range 3 {
		running.Go(func() { l.removals.run(ctx, l, l.namespace, fmt.Sprint("web-", number)) })
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (l *callersFixture) secret() *corev1.Secret {
	l.t.Helper()
	secret := &corev1.Secret{}
	if err := l.Get(l.t.Context(), l.keys, secret); err != nil {
		l.t.Fatal(err)
	}
	return secret
}

// annotate changes annotations of the Secret, as the chart and users do.
func (l *callersFixture) annotate(key, value string) {
	l.t.Helper()
	secret := l.secret()
	before := secret.DeepCopy()
	secret.Annotations[key] = value
	if err := l.Patch(l.t.Context(), secret, client.MergeFrom(before)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *callersFixture) client() *admissionregistrationv1.WebhookClientConfig {
	l.t.Helper()
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := l.Get(l.t.Context(), client.ObjectKey{Name: l.namespace}, configuration); err != nil {
		l.t.Fatal(err)
	}
	return &configuration.Webhooks[0].ClientConfig
}

func (l *callersFixture) scope() string {
	return webhookconfig.CallerScope(webhookconfig.RemovalPath(l.namespace))
}

// setPath changes the path of the configuration as Helm does, by a JSON value: null takes it out.
func (l *callersFixture) setPath(path string) {
	l.t.Helper()
	patch := fmt.Sprintf(`{"webhooks":[{"name":"pods.breakwater.dev","clientConfig":{"service":{"path":%s}}}]}`, path)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
	if err := l.Patch(l.t.Context(), configuration, client.RawPatch("application/strategic-merge-patch+json", []byte(patch))); err != nil {
		l.t.Fatal(err)
	}
}

// statusCode is the status code of the webhook's answer at a path.
func (l *callersFixture) statusCode(path string) int {
	l.t.Helper()
	//nolint:gosec // the test knows whom it asks
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	request, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, "https://"+l.address+path, strings.NewReader("{}"))
	if err != nil {
		l.t.Fatal(err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		l.t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// wantNoFailure waits for more removals, and fails the test if one was not answered.
func (l *callersFixture) wantNoFailure(when string, more int64) {
	l.t.Helper()
	enough := l.removals.done.Load() + more
	eventually(l.t, "removals "+when, func() string { return atLeast(&l.removals.done, enough) })
	if failed := l.removals.failed.Load(); failed > 0 {
		l.t.Fatalf("%s: %d removals failed, the last with: %s", when, failed, *l.removals.last.Load())
	}
}

func TestCallerTokensIntroducedAndRotatedUnderLoad(t *testing.T) {
	l := newCallersFixture(t)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	l.start(ctx, &running)

	const denied, malformed = http.StatusUnauthorized, http.StatusBadRequest
	eventually(t, "a key", func() string {
		if len(l.secret().Data["current"]) == 0 {
			return "there is none"
		}
		return ""
	})
	l.wantNoFailure("while tokens are not required", 20)
	if token, path := webhookconfig.CallerTokenOf(l.client()); token != "" || path != webhookconfig.RemovalPath(l.namespace) {
		t.Errorf("in the mode Permissive the configuration has the token %q and the path %q, want the path alone", token, path)
	}

	l.annotate(certificates.AnnotationCallerTokens, "Required")
	l.setPath("null")
	first := l.secret().Data["current"]
	eventually(t, "a token", func() string {
		if token, path := webhookconfig.CallerTokenOf(l.client()); !webhookconfig.IsCallerToken(token, l.scope(), first) {
			return fmt.Sprintf("configuration has the path %q", path)
		}
		return ""
	})
	eventually(t, "the requirement", func() string {
		if got := l.statusCode(webhookconfig.RemovalPath(l.namespace)); got != denied {
			return fmt.Sprintf("status %d for a caller without a token", got)
		}
		return ""
	})
	if failed := l.removals.failed.Swap(0); failed > 0 {
		// Without a path the API server calls the webhook at /, where it has no answer: the failure policy denies the removal. The API server
		// may use that configuration for a moment after the component has added the path.
		if last := *l.removals.last.Load(); !strings.Contains(last, "could not find the requested resource") {
			t.Errorf("%d removals failed while the configuration had no path, the last with: %s", failed, last)
		}
		t.Logf("%d removals were denied while the configuration had no path", failed)
	}
	if got := l.statusCode(webhookconfig.CallerPath(webhookconfig.CallerToken(first, l.scope()), webhookconfig.RemovalPath(l.namespace))); got != malformed {
		t.Errorf("status %d for a caller with a token, want 200", got)
	}
	l.wantNoFailure("while tokens are required", 20)

	l.annotate(certificates.AnnotationRotateCallerKey, "once")
	var second []byte
	eventually(t, "a token of another key", func() string {
		secret := l.secret()
		second = secret.Data["current"]
		if token, _ := webhookconfig.CallerTokenOf(l.client()); bytes.Equal(second, first) || !webhookconfig.IsCallerToken(token, l.scope(), second) {
			return fmt.Sprintf("another key: %v, annotations %v", !bytes.Equal(second, first), secret.Annotations)
		}
		return ""
	})
	eventually(t, "the end of the first key", func() string {
		if got := l.statusCode(webhookconfig.CallerPath(webhookconfig.CallerToken(first, l.scope()), webhookconfig.RemovalPath(l.namespace))); got != denied {
			return fmt.Sprintf("status %d for a caller with a token of the replaced key", got)
		}
		return ""
	})
	l.wantNoFailure("after the rotation", 20)

	l.annotate(certificates.AnnotationCallerTokens, "Permissive")
	l.setPath(fmt.Sprintf("%q", webhookconfig.RemovalPath(l.namespace)))
	eventually(t, "the token again", func() string {
		if token, path := webhookconfig.CallerTokenOf(l.client()); !webhookconfig.IsCallerToken(token, l.scope(), second) {
			return fmt.Sprintf("configuration has the path %q while tokens are required", path)
		}
		return ""
	})
	eventually(t, "the end of the requirement", func() string {
		if got := l.statusCode(webhookconfig.RemovalPath(l.namespace)); got != malformed {
			return fmt.Sprintf("status %d for a caller without a token", got)
		}
		return ""
	})
	// The API server takes up a configuration some time after it was stored.
	t.Logf("%d removals were denied while the API server had a configuration without a token", l.removals.failed.Swap(0))
	l.wantNoFailure("when tokens are not required any more", 20)
}
