package certificates_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/controllers/certificates"
	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// fixture is a controller on a real API server, as a user with exactly the rights that it needs.
type fixture struct {
	*testing.T
	admin         client.Client
	secret        client.ObjectKey
	configuration string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureWith(t, creationRules(), func(*fixture) {})
}

// creationRules returns the additional rules where no other component creates the Secrets.
func creationRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}}}
}

// options returns the options for a Secret that the named configurations trust.
func (l *fixture) options(hooks ...string) certificates.Options {
	return certificates.Options{
		Secret: l.secret, Configurations: hooks, MutatingConfigurations: hooks, Spread: 200 * time.Millisecond, Overlap: 300 * time.Millisecond,
		Terms: certificates.Terms{Names: []string{"webhook.svc"}, Lifetime: 365 * 24 * time.Hour, RenewBefore: 90 * 24 * time.Hour, AuthorityLifetime: 10 * 365 * 24 * time.Hour},
	}
}

// startController starts the controller as a user who has exactly the given rules.
func (l *fixture) startController(options certificates.Options, rules ...rbacv1.PolicyRule) {
	l.Helper()
	user := testplane.User(l, l.secret.Namespace, rules)
	testplane.StartManager(l.T, user, func(ctx context.Context, mgr manager.Manager) error {
		return certificates.Setup(ctx, mgr, options, prometheus.NewRegistry())
	}, func(o *manager.Options) { o.Cache = certificates.CacheOptions(l.secret) })
}

// newFixtureWith gives the user more rights, and calls furnish before the controller starts.
func newFixtureWith(t *testing.T, more []rbacv1.PolicyRule, prepare func(*fixture)) *fixture {
	t.Helper()
	namespace := testplane.Namespace(t)
	l := &fixture{T: t, admin: testplane.Client(t), secret: client.ObjectKey{Namespace: namespace, Name: "webhook-tls"}, configuration: namespace}
	l.createConfigurations(l.configuration)
	prepare(l)
	hooks := []string{l.configuration, l.configuration + "-later"}
	inCluster, local := roles.CertificateRules(t, hooks, hooks, l.secret.Name, "")
	l.startController(l.options(hooks...), slices.Concat(inCluster, local, more)...)
	return l
}

// createConfigurations creates a configuration of each kind.
func (l *fixture) createConfigurations(name string) {
	l.Helper()
	none, url := admissionregistrationv1.SideEffectClassNone, "https://webhook.svc/"
	to, versions, meta := admissionregistrationv1.WebhookClientConfig{URL: &url}, []string{"v1"}, metav1.ObjectMeta{Name: name}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta}
	for _, name := range []string{"a.example.com", "b.example.com"} {
		validating.Webhooks = append(validating.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: name, SideEffects: &none, AdmissionReviewVersions: versions, ClientConfig: to,
		})
		mutating.Webhooks = append(mutating.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: name, SideEffects: &none, AdmissionReviewVersions: versions, ClientConfig: to,
		})
	}
	for _, c := range []client.Object{validating, mutating} {
		if err := l.admin.Create(l.Context(), c); err != nil {
			l.Fatal(err)
		}
		l.Cleanup(func() { _ = l.admin.Delete(context.Background(), c) })
	}
}

func (l *fixture) secretData(name string) map[string][]byte {
	l.Helper()
	secret := &corev1.Secret{}
	if err := l.admin.Get(l.Context(), client.ObjectKey{Namespace: l.secret.Namespace, Name: name}, secret); client.IgnoreNotFound(err) != nil {
		l.Fatal(err)
	}
	return secret.Data
}

// trustedBundle returns the bundle that the configurations of a name trust, if all of their webhooks agree.
func (l *fixture) trustedBundle(name string) []byte {
	l.Helper()
	validating, mutating := &admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}
	for _, c := range []client.Object{validating, mutating} {
		if err := l.admin.Get(l.Context(), client.ObjectKey{Name: name}, c); err != nil {
			l.Fatal(err)
		}
	}
	bundle := validating.Webhooks[0].ClientConfig.CABundle
	for _, other := range [][]byte{
		validating.Webhooks[1].ClientConfig.CABundle, mutating.Webhooks[0].ClientConfig.CABundle, mutating.Webhooks[1].ClientConfig.CABundle,
	} {
		if !bytes.Equal(bundle, other) {
			return nil
		}
	}
	return bundle
}

// waitForNewCertificate waits until the served certificate differs from before, and all configurations trust one authority, which signed it.
func (l *fixture) waitForNewCertificate(before []byte, configurations ...string) []byte {
	l.Helper()
	var served []byte
	testplane.Eventually(l, func() string {
		tls, authority := l.secretData(l.secret.Name), l.secretData(l.secret.Name+"-ca")
		served = tls["tls.crt"]
		if len(served) == 0 || bytes.Equal(served, before) {
			return "the Secret has no new certificate"
		}
		if !bytes.Equal(tls["ca.crt"], authority["ca.crt"]) || len(authority["ca.key"]) == 0 {
			return fmt.Sprintf("bundle\n%s\ndiffers from authority\n%s", tls["ca.crt"], authority["ca.crt"])
		}
		for _, c := range configurations {
			if trusted := l.trustedBundle(c); !bytes.Equal(trusted, authority["ca.crt"]) {
				return fmt.Sprintf("configuration %s has the bundle %q, want that of the authority", c, trusted)
			}
		}
		return ""
	})
	return served
}

func TestControllerFillsSecretAndConfigurations(t *testing.T) {
	l := newFixture(t)
	served := l.waitForNewCertificate(nil, l.configuration)
	if _, ok := l.secretData(l.secret.Name)["ca.key"]; ok {
		t.Error("Secret that replicas read has the key of the authority")
	}

	l.createConfigurations(l.configuration + "-later")
	l.waitForNewCertificate(nil, l.configuration, l.configuration+"-later")

	c := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := l.admin.Get(t.Context(), client.ObjectKey{Name: l.configuration}, c); err != nil {
		t.Fatal(err)
	}
	c.Webhooks[1].ClientConfig.CABundle = nil
	c.Webhooks[0].ClientConfig.CABundle = l.secretData(l.secret.Name + "-ca")["ca.crt"][:0]
	if err := l.admin.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	l.waitForNewCertificate(nil, l.configuration, l.configuration+"-later")

	m := &admissionregistrationv1.MutatingWebhookConfiguration{}
	if err := l.admin.Get(t.Context(), client.ObjectKey{Name: l.configuration + "-later"}, m); err != nil {
		t.Fatal(err)
	}
	m.Webhooks[1].ClientConfig.CABundle = nil
	if err := l.admin.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	l.waitForNewCertificate(nil, l.configuration, l.configuration+"-later")
	if now := l.secretData(l.secret.Name)["tls.crt"]; !bytes.Equal(now, served) {
		t.Error("certificate was replaced, want it unchanged")
	}
}

func TestDamagedOrDeletedSecretsAreRecreated(t *testing.T) {
	l := newFixture(t)
	l.waitForNewCertificate(nil, l.configuration)

	secret := &corev1.Secret{}
	if err := l.admin.Get(t.Context(), l.secret, secret); err != nil {
		t.Fatal(err)
	}
	secret.Data["tls.crt"], secret.Data["theirs"] = []byte("garbage"), []byte("theirs")
	if err := l.admin.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	served := l.waitForNewCertificate([]byte("garbage"), l.configuration)
	if string(l.secretData(l.secret.Name)["theirs"]) != "theirs" {
		t.Error("entry of another owner was removed from the Secret")
	}

	if err := l.admin.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	served = l.waitForNewCertificate(served, l.configuration)

	authority := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.secret.Namespace, Name: l.secret.Name + "-ca"}}
	if err := l.admin.Delete(t.Context(), authority); err != nil {
		t.Fatal(err)
	}
	l.waitForNewCertificate(served, l.configuration)
}

// This is the setup of the chart: a controller that may create Secrets could create tokens of other ServiceAccounts.
func TestExistingSecretsAreFilledWithoutCreatePermission(t *testing.T) {
	var authority *corev1.Secret
	l := newFixtureWith(t, nil, func(l *fixture) {
		for _, suffix := range []string{"", "-ca"} {
			authority = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.secret.Namespace, Name: l.secret.Name + suffix}}
			if err := l.admin.Create(t.Context(), authority); err != nil {
				t.Fatal(err)
			}
		}
	})
	served, before := l.waitForNewCertificate(nil, l.configuration), l.secretData(authority.Name)["ca.crt"]

	l.patchAsDocumented("breakwater-webhook-tls-ca", l.secret.Name+"-ca")
	served = l.waitForNewCertificate(served, l.configuration)
	renewed := l.secretData(authority.Name)["ca.crt"]
	if bytes.Equal(renewed, before) {
		t.Error("authority is unchanged, want a new one")
	}
	l.patchAsDocumented("breakwater-webhook-tls", l.secret.Name)
	l.waitForNewCertificate(served, l.configuration)
	if now := l.secretData(authority.Name)["ca.crt"]; !bytes.Equal(now, renewed) {
		t.Error("authority was replaced with the certificate, want it unchanged")
	}
}

// patchAsDocumented patches a Secret by the kubectl command that docs/how-to/certificates.md states.
func (l *fixture) patchAsDocumented(documented, name string) {
	l.Helper()
	const merge = " --type merge -p "
	command, err := doctest.Mentioned("../..", "docs/how-to/certificates.md", "kubectl patch secret -n breakwater-system "+documented+merge)
	if err != nil {
		l.Fatal(err)
	}
	_, patch, _ := strings.Cut(command, merge)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.secret.Namespace, Name: name}}
	if err := l.admin.Patch(l.Context(), secret, client.RawPatch(types.MergePatchType, []byte(strings.Trim(patch, "'")))); err != nil {
		l.Fatal(err)
	}
}

// This is the setup of the chart for a sharder that runs without a webhook.
func TestSecretIsFilledWithoutConfigurationPermission(t *testing.T) {
	namespace := testplane.Namespace(t)
	l := &fixture{T: t, admin: testplane.Client(t), secret: client.ObjectKey{Namespace: namespace, Name: "sharder-tls"}}
	_, local := roles.CertificateRules(t, nil, nil, l.secret.Name, "")
	l.startController(l.options(), slices.Concat(local, creationRules())...)
	l.waitForNewCertificate(nil)
}
