package certificates

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// cluster is a cluster with a clock that the test moves. Its API servers observe changes of the bundle in a configuration with a delay, and
// its replicas observe changes of their certificate with a delay.
type cluster struct {
	*testing.T
	*Reconciler
	client client.Client
	now    time.Time
	// trusted and served are all former bundles and certificates, with the time at which each was replaced.
	trusted, served []replacedPair
}

type replacedPair struct {
	pair Pair
	at   time.Time
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	w := &cluster{T: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.client = fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(&admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "a.example.com"}, {Name: "b.example.com"}},
	}).Build()
	w.restart()
	w.Terms = Terms{Names: []string{"webhook.ns.svc", "webhook.ns.svc.cluster.local"}, Lifetime: 365 * 24 * time.Hour, RenewBefore: 90 * 24 * time.Hour,
		AuthorityLifetime: 10 * 365 * 24 * time.Hour}
	return w
}

// restart replaces the controller by a new leader, which has no memory of the waits.
func (w *cluster) restart() {
	w.Helper()
	metrics := NewMetrics(prometheus.NewRegistry())
	var terms Terms
	if w.Reconciler != nil {
		terms = w.Terms
	}
	w.Reconciler = &Reconciler{
		Client: w.client, Live: w.client, Log: logr.Discard(), Now: func() time.Time { return w.now }, Metrics: metrics,
		Options: Options{
			Secret: client.ObjectKey{Namespace: "ns", Name: "tls"}, Configurations: []string{"hook", "absent"}, Terms: terms,
			Spread: 2 * time.Minute, Overlap: time.Hour,
		},
	}
}

func (w *cluster) fetchSecret(key client.ObjectKey) *corev1.Secret {
	w.Helper()
	secret := &corev1.Secret{}
	if err := w.client.Get(w.Context(), key, secret); err != nil {
		w.Fatal(err)
	}
	return secret
}

func (w *cluster) state() State {
	w.Helper()
	s, err := w.readState(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return s.State
}

func (w *cluster) bundle() []byte {
	w.Helper()
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Name: "hook"}, c); err != nil {
		w.Fatal(err)
	}
	if !bytes.Equal(c.Webhooks[0].ClientConfig.CABundle, c.Webhooks[1].ClientConfig.CABundle) {
		w.Fatal("webhooks of the configuration have different bundles")
	}
	return c.Webhooks[0].ClientConfig.CABundle
}

// step moves the clock, and then reconciles.
func (w *cluster) step(elapsed time.Duration) {
	w.Helper()
	w.now = w.now.Add(elapsed)
	before, bundle := w.state().Serving, w.bundle()
	if _, err := w.Reconcile(w.Context(), reconcile.Request{}); err != nil {
		w.Fatal(err)
	}
	if !before.equal(w.state().Serving) {
		w.served = append(w.served, replacedPair{before, w.now})
	}
	if !bytes.Equal(bundle, w.bundle()) {
		w.trusted = append(w.trusted, replacedPair{Pair{Certificate: bundle}, w.now})
	}
}

// stepAndCheck calls step and check repeatedly.
func (w *cluster) stepAndCheck(number int, elapsed time.Duration) {
	w.Helper()
	for range number {
		w.step(elapsed)
		w.checkTrust()
	}
}

// checkTrust fails if an API server could meet a replica that it does not trust. It combines every bundle that was replaced less than Spread ago
// with every certificate that was replaced less than Overlap ago.
func (w *cluster) checkTrust() {
	w.Helper()
	bundles, pairs := [][]byte{w.bundle()}, []Pair{w.state().Serving}
	for _, e := range w.trusted {
		if len(e.pair.Certificate) > 0 && w.now.Sub(e.at) < w.Spread {
			bundles = append(bundles, e.pair.Certificate)
		}
	}
	for _, e := range w.served {
		if len(e.pair.Certificate) > 0 && w.now.Sub(e.at) < w.Overlap {
			pairs = append(pairs, e.pair)
		}
	}
	for _, bundle := range bundles {
		for _, pair := range pairs {
			if !isAccepted(bundle, pair, w.now) {
				w.Fatalf("at %s an API server that trusts %d authorities can reach a replica whose certificate none of them signed, or that expired at %s",
					w.now, len(parseAll(bundle)), expiryOf(pair))
			}
		}
	}
}

// waitForSingleAuthority runs until only one authority is trusted.
func (w *cluster) waitForSingleAuthority() {
	w.Helper()
	w.stepAndCheck(70, time.Minute)
	if n := len(parseAll(w.bundle())); n != 1 {
		w.Fatalf("got %d trusted authorities after an hour, want 1", n)
	}
}

func TestAuthorityRotationKeepsTrustOverlap(t *testing.T) {
	w := newCluster(t)
	w.step(0)
	w.waitForSingleAuthority()
	first := w.state()
	if err := w.client.Delete(t.Context(), w.fetchSecret(authoritySecret(w.Secret))); err != nil {
		t.Fatal(err)
	}
	w.stepAndCheck(1, time.Second)
	if got := w.state(); got.Authority.equal(first.Authority) || !got.Serving.equal(first.Serving) || len(parseAll(w.bundle())) != 2 {
		t.Fatalf("after the deletion got %d trusted authorities, want 2 and the old certificate served", len(parseAll(w.bundle())))
	}
	w.stepAndCheck(4, time.Minute)
	if got := w.state(); got.Serving.equal(first.Serving) || len(parseAll(w.bundle())) != 2 {
		t.Fatalf("after the spread got %d trusted authorities, want 2 and a new certificate served", len(parseAll(w.bundle())))
	}
	w.waitForSingleAuthority()
	if isAccepted(w.bundle(), first.Serving, w.now) {
		t.Error("old certificate is still trusted after the overlap")
	}
}

func TestRevertedBundleRestartsSpread(t *testing.T) {
	w := newCluster(t)
	w.step(0)
	w.waitForSingleAuthority()
	first, old := w.state(), w.bundle()
	if err := w.client.Delete(t.Context(), w.fetchSecret(authoritySecret(w.Secret))); err != nil {
		t.Fatal(err)
	}
	w.stepAndCheck(2, time.Minute)
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "hook"}, c); err != nil {
		t.Fatal(err)
	}
	for i := range c.Webhooks {
		c.Webhooks[i].ClientConfig.CABundle = old
	}
	if err := w.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	w.stepAndCheck(2, 30*time.Second)
	w.stepAndCheck(1, time.Minute)
	if !w.state().Serving.equal(first.Serving) {
		t.Fatal("new certificate is served one minute after API servers trust its authority, want 2 minutes")
	}
	w.waitForSingleAuthority()
	if w.state().Serving.equal(first.Serving) {
		t.Error("new certificate is never served")
	}
}

func TestCertificatesAreRenewedBeforeExpiry(t *testing.T) {
	w := newCluster(t)
	w.AuthorityLifetime = 4 * 365 * 24 * time.Hour
	w.step(0)
	w.waitForSingleAuthority()
	authorities := 1
	for year := range 8 {
		before := w.state()
		for range 6 {
			w.stepAndCheck(1, 60*24*time.Hour)
			w.stepAndCheck(3, time.Minute)
		}
		w.waitForSingleAuthority()
		after := w.state()
		if before.Serving.equal(after.Serving) {
			t.Fatalf("certificate was not replaced in year %d", year)
		}
		if !before.Authority.equal(after.Authority) {
			authorities++
		}
	}
	if authorities != 3 && authorities != 4 {
		t.Errorf("got %d authorities in 8 years, want 3 or 4", authorities)
	}
}

func TestRandomAuthorityDamageKeepsTrust(t *testing.T) {
	for seed := range uint64(5) {
		dice := rand.New(rand.NewPCG(seed, 1))
		w := newCluster(t)
		w.step(0)
		w.waitForSingleAuthority()
		for range 30 {
			switch dice.IntN(8) {
			case 0:
				if err := client.IgnoreNotFound(w.client.Delete(t.Context(), w.fetchSecret(authoritySecret(w.Secret)))); err != nil {
					t.Fatal(err)
				}
			case 1:
				w.corrupt(authoritySecret(w.Secret), authorityKey)
			case 2:
				w.Names = []string{"webhook.ns.svc", []string{"a.example.com", "b.example.com"}[dice.IntN(2)]}
			case 3:
				w.restart()
			case 4:
				w.stepAndCheck(1, time.Duration(dice.IntN(60*24))*time.Hour)
			case 5:
				w.stepAndCheck(dice.IntN(80), time.Minute)
			default:
				w.stepAndCheck(dice.IntN(6), time.Duration(dice.IntN(90))*time.Second)
			}
			w.stepAndCheck(1, time.Second)
		}
		w.waitForSingleAuthority()
	}
}

func (w *cluster) corrupt(key client.ObjectKey, entry string) {
	w.Helper()
	secret := w.fetchSecret(key)
	secret.Data[entry] = []byte("garbage")
	if err := w.client.Update(w.Context(), secret); err != nil {
		w.Fatal(err)
	}
}

func TestUnusableCertificateIsReplacedImmediately(t *testing.T) {
	for claim, damage := range map[string]func(*cluster){
		"invalid certificate": func(w *cluster) { w.corrupt(w.Secret, certificateKey) },
		"invalid key":         func(w *cluster) { w.corrupt(w.Secret, privateKey) },
		"no Secret": func(w *cluster) {
			if err := w.client.Delete(w.Context(), w.fetchSecret(w.Secret)); err != nil {
				w.Fatal(err)
			}
		},
		"no controller ran for two years":    func(w *cluster) { w.now = w.now.Add(2 * 365 * 24 * time.Hour) },
		"no controller ran for twenty years": func(w *cluster) { w.now = w.now.Add(20 * 365 * 24 * time.Hour) },
		"neither Secret": func(w *cluster) {
			for _, key := range []client.ObjectKey{w.Secret, authoritySecret(w.Secret)} {
				if err := w.client.Delete(w.Context(), w.fetchSecret(key)); err != nil {
					w.Fatal(err)
				}
			}
		},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newCluster(t)
			w.step(0)
			w.waitForSingleAuthority()
			before := w.state().Serving
			damage(w)
			w.step(time.Second)
			after := w.state()
			for _, c := range parseAll(w.bundle()) {
				if w.now.After(c.NotAfter) {
					t.Errorf("trusted authority expired at %s", c.NotAfter)
				}
			}
			if before.equal(after.Serving) || !isAccepted(w.bundle(), after.Serving, w.now) || !isCurrent(after.Authority, after.Serving, w.Terms, w.now) {
				t.Fatal("served certificate is unchanged, not trusted or not current")
			}
			// Replicas continue to serve the certificate that they read before.
			if w.now.Before(expiryOf(before)) && !isAccepted(w.bundle(), before, w.now) {
				t.Error("certificate that replicas still serve is no longer trusted")
			}
			w.trusted, w.served = nil, nil // there was no time to spread anything
			w.waitForSingleAuthority()
		})
	}
}
