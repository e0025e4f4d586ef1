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

// world is a cluster with a clock that the test moves. Its API servers observe changes of the bundle in a configuration with a delay, and
// its replicas observe changes of their certificate with a delay.
type world struct {
	*testing.T
	*Reconciler
	client client.Client
	now    time.Time
	// trusted and served are all former bundles and certificates, with the time at which each was replaced.
	trusted, served []episode
}

type episode struct {
	what  Pair
	ended time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.client = fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithObjects(&admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "a.example.com"}, {Name: "b.example.com"}},
	}).Build()
	w.restart()
	w.Terms = Terms{Names: []string{"webhook.ns.svc", "webhook.ns.svc.cluster.local"}, Lifetime: 365 * 24 * time.Hour, RenewBefore: 90 * 24 * time.Hour,
		AuthorityLifetime: 10 * 365 * 24 * time.Hour}
	return w
}

// restart replaces the controller by a new leader, which has no memory of the waits.
func (w *world) restart() {
	w.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		w.Fatal(err)
	}
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

func (w *world) secretNow(key client.ObjectKey) *corev1.Secret {
	w.Helper()
	secret := &corev1.Secret{}
	if err := w.client.Get(w.Context(), key, secret); err != nil {
		w.Fatal(err)
	}
	return secret
}

func (w *world) state() State {
	w.Helper()
	s, err := w.read(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return s.State
}

func (w *world) bundle() []byte {
	w.Helper()
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := w.client.Get(w.Context(), client.ObjectKey{Name: "hook"}, c); err != nil {
		w.Fatal(err)
	}
	if !bytes.Equal(c.Webhooks[0].ClientConfig.CABundle, c.Webhooks[1].ClientConfig.CABundle) {
		w.Fatal("one webhook of the configuration trusts others than the other")
	}
	return c.Webhooks[0].ClientConfig.CABundle
}

// step moves the clock, and then reconciles.
func (w *world) step(passes time.Duration) {
	w.Helper()
	w.now = w.now.Add(passes)
	before, bundle := w.state().Serving, w.bundle()
	if _, err := w.Reconcile(w.Context(), reconcile.Request{}); err != nil {
		w.Fatal(err)
	}
	if !before.equal(w.state().Serving) {
		w.served = append(w.served, episode{before, w.now})
	}
	if !bytes.Equal(bundle, w.bundle()) {
		w.trusted = append(w.trusted, episode{Pair{Certificate: bundle}, w.now})
	}
}

// steps calls step and check repeatedly.
func (w *world) steps(number int, passes time.Duration) {
	w.Helper()
	for range number {
		w.step(passes)
		w.check()
	}
}

// check fails if an API server could meet a replica that it does not trust. It combines every bundle that was replaced less than Spread ago
// with every certificate that was replaced less than Overlap ago.
func (w *world) check() {
	w.Helper()
	bundles, pairs := [][]byte{w.bundle()}, []Pair{w.state().Serving}
	for _, e := range w.trusted {
		if len(e.what.Certificate) > 0 && w.now.Sub(e.ended) < w.Spread {
			bundles = append(bundles, e.what.Certificate)
		}
	}
	for _, e := range w.served {
		if len(e.what.Certificate) > 0 && w.now.Sub(e.ended) < w.Overlap {
			pairs = append(pairs, e.what)
		}
	}
	for _, bundle := range bundles {
		for _, pair := range pairs {
			if !isAlive(bundle, pair, w.now) {
				w.Fatalf("at %s an apiserver that trusts %d authorities can meet a replica that serves a certificate which none of them has signed, or that has expired at %s",
					w.now, len(parseAll(bundle)), end(pair))
			}
		}
	}
}

// settled runs until only one authority is trusted.
func (w *world) settled() {
	w.Helper()
	w.steps(70, time.Minute)
	if n := len(parseAll(w.bundle())); n != 1 {
		w.Fatalf("%d authorities are trusted after an hour, want 1", n)
	}
}

func TestAReplacedAuthorityIsTrustedFirstAndTheOldOneLongEnough(t *testing.T) {
	w := newWorld(t)
	w.step(0)
	w.settled()
	first := w.state()
	if err := w.client.Delete(t.Context(), w.secretNow(authoritySecret(w.Secret))); err != nil {
		t.Fatal(err)
	}
	w.steps(1, time.Second)
	if got := w.state(); got.Authority.equal(first.Authority) || !got.Serving.equal(first.Serving) || len(parseAll(w.bundle())) != 2 {
		t.Fatalf("at first %d authorities are trusted, want two, and the old certificate served", len(parseAll(w.bundle())))
	}
	w.steps(4, time.Minute)
	if got := w.state(); got.Serving.equal(first.Serving) || len(parseAll(w.bundle())) != 2 {
		t.Fatalf("then %d authorities are trusted, want two, and a new certificate served", len(parseAll(w.bundle())))
	}
	w.settled()
	if isAlive(w.bundle(), first.Serving, w.now) {
		t.Error("in the end the old certificate is still trusted")
	}
}

func TestTrustIsSpreadAnewWhenSomebodyHasTakenItBack(t *testing.T) {
	w := newWorld(t)
	w.step(0)
	w.settled()
	first, old := w.state(), w.bundle()
	if err := w.client.Delete(t.Context(), w.secretNow(authoritySecret(w.Secret))); err != nil {
		t.Fatal(err)
	}
	w.steps(2, time.Minute)
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
	w.steps(2, 30*time.Second)
	w.steps(1, time.Minute)
	if !w.state().Serving.equal(first.Serving) {
		t.Fatal("the new certificate is served when apiservers have had a minute to trust it")
	}
	w.settled()
	if w.state().Serving.equal(first.Serving) {
		t.Error("it is never served")
	}
}

func TestCertificatesAreReplacedBeforeTheyExpireForYears(t *testing.T) {
	w := newWorld(t)
	w.AuthorityLifetime = 4 * 365 * 24 * time.Hour
	w.step(0)
	w.settled()
	authorities := 1
	for year := range 8 {
		before := w.state()
		for range 6 {
			w.steps(1, 60*24*time.Hour)
			w.steps(3, time.Minute)
		}
		w.settled()
		after := w.state()
		if before.Serving.equal(after.Serving) {
			t.Fatalf("the certificate was not replaced in year %d", year)
		}
		if !before.Authority.equal(after.Authority) {
			authorities++
		}
	}
	if authorities != 3 && authorities != 4 {
		t.Errorf("%d authorities, want one in about three years", authorities)
	}
}

func TestNoReviewIsLostWhateverHappensToTheAuthority(t *testing.T) {
	for seed := range uint64(5) {
		dice := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		w.step(0)
		w.settled()
		for range 30 {
			switch dice.IntN(8) {
			case 0:
				if err := client.IgnoreNotFound(w.client.Delete(t.Context(), w.secretNow(authoritySecret(w.Secret)))); err != nil {
					t.Fatal(err)
				}
			case 1:
				w.spoil(authoritySecret(w.Secret), authorityKey)
			case 2:
				w.Names = []string{"webhook.ns.svc", []string{"a.example.com", "b.example.com"}[dice.IntN(2)]}
			case 3:
				w.restart()
			case 4:
				w.steps(1, time.Duration(dice.IntN(60*24))*time.Hour)
			case 5:
				w.steps(dice.IntN(80), time.Minute)
			default:
				w.steps(dice.IntN(6), time.Duration(dice.IntN(90))*time.Second)
			}
			w.steps(1, time.Second)
		}
		w.settled()
	}
}

func (w *world) spoil(key client.ObjectKey, what string) {
	w.Helper()
	secret := w.secretNow(key)
	secret.Data[what] = []byte("garbage")
	if err := w.client.Update(w.Context(), secret); err != nil {
		w.Fatal(err)
	}
}

func TestWhatCannotBeServedIsReplacedAtOnce(t *testing.T) {
	for claim, spoil := range map[string]func(*world){
		"garbage in place of the certificate": func(w *world) { w.spoil(w.Secret, certificateKey) },
		"garbage in place of the key":         func(w *world) { w.spoil(w.Secret, privateKey) },
		"no Secret": func(w *world) {
			if err := w.client.Delete(w.Context(), w.secretNow(w.Secret)); err != nil {
				w.Fatal(err)
			}
		},
		"nobody was there for two years": func(w *world) { w.now = w.now.Add(2 * 365 * 24 * time.Hour) },
		"for twenty":                     func(w *world) { w.now = w.now.Add(20 * 365 * 24 * time.Hour) },
		"neither Secret": func(w *world) {
			for _, key := range []client.ObjectKey{w.Secret, authoritySecret(w.Secret)} {
				if err := w.client.Delete(w.Context(), w.secretNow(key)); err != nil {
					w.Fatal(err)
				}
			}
		},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newWorld(t)
			w.step(0)
			w.settled()
			before := w.state().Serving
			spoil(w)
			w.step(time.Second)
			after := w.state()
			for _, c := range parseAll(w.bundle()) {
				if w.now.After(c.NotAfter) {
					t.Errorf("an authority is trusted that has expired at %s", c.NotAfter)
				}
			}
			if before.equal(after.Serving) || !isAlive(w.bundle(), after.Serving, w.now) || !fits(after.Authority, after.Serving, w.Terms, w.now) {
				t.Fatal("what is served is not good")
			}
			// Replicas continue to serve the certificate that they read before.
			if w.now.Before(end(before)) && !isAlive(w.bundle(), before, w.now) {
				t.Error("what replicas still serve is not trusted any more")
			}
			w.trusted, w.served = nil, nil // there was no time to spread anything
			w.settled()
		})
	}
}
