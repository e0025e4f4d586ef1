// Package certificates manages the credentials by which a webhook and its API servers identify each other, and puts them into webhook
// configurations. These are the certificate that the webhook serves, where no other component creates it, and caller tokens. It replaces
// the certificate, and the authority that signs it, without failing a review. The library that creates the certificates cannot do that,
// since it puts both into use at the same moment.
package certificates

import (
	"bytes"
	"context"
	"crypto/sha256"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Name is the name of the controller, its Lease and its field manager.
const Name = "breakwater-certificates"

// readInterval is how often the controller reads the Secrets; the Secret of the authority is not watched. It never reads them more often than
// every minInterval, however short the waits are.
const (
	readInterval = time.Minute
	minInterval  = 100 * time.Millisecond
)

// Reconciler keeps one Secret filled.
type Reconciler struct {
	Client client.Client
	// Live reads Secrets from the API server: from a stale Secret the controller would create the certificate twice.
	Live client.Reader
	Log  logr.Logger
	// Now is the clock, of certificates and of waits.
	Now     func() time.Time
	Metrics *Metrics
	Options

	spread, served firstSeen
}

// firstSeen is the time at which a value was first observed.
type firstSeen struct {
	hash [sha256.Size]byte
	at   time.Time
}

// observe returns how long the value has been the current one.
func (s *firstSeen) observe(value []byte, now time.Time) time.Duration {
	if sum := sha256.Sum256(value); sum != s.hash || s.at.IsZero() {
		s.hash, s.at = sum, now
	}
	return now.Sub(s.at)
}

// Reconcile takes the one step that is due. This process times the waits from when it observed a change; a new leader waits again.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now := r.Now()
	have, err := r.readState(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	all, err := configurationsOf(ctx, r.Client, r.kinds())
	if err != nil {
		return reconcile.Result{}, err
	}
	observed := r.observe(have.State, now)
	observed.Injected = trustedBundles(all)
	next, err := Next(have.State, r.Terms, observed, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !next.equal(have.State) {
		if err := r.writeState(ctx, have, next); err != nil {
			return reconcile.Result{}, err
		}
		r.logChanges(have.State, next)
	}
	r.Metrics.observe(next)
	changed, err := r.injectBundle(ctx, all, next.Trusted)
	if changed || err != nil {
		r.spread = firstSeen{}
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if !changed {
		// Now every configuration trusts the authority, and API servers begin to observe that.
		r.spread.observe(next.Authority.Certificate, now)
	}
	return reconcile.Result{RequeueAfter: max(minInterval, min(readInterval, r.Spread, r.Overlap))}, nil
}

// observe determines which waits are over.
func (r *Reconciler) observe(s State, now time.Time) Observations {
	observed := Observations{Spread: r.spread.hash == sha256.Sum256(s.Authority.Certificate) && !r.spread.at.IsZero() && now.Sub(r.spread.at) >= r.Spread}
	if !isCurrent(s.Authority, s.Serving, r.Terms, now) {
		return observed
	}
	observed.Served = r.served.observe(append(bytes.Clone(s.Authority.Certificate), s.Serving.Certificate...), now) >= r.Overlap
	return observed
}

func (r *Reconciler) logChanges(before, after State) {
	if !before.Authority.equal(after.Authority) {
		r.Log.Info("Created certificate authority", "secret", authoritySecret(r.Secret).String(), "until", expiryOf(after.Authority))
	}
	if !before.Serving.equal(after.Serving) {
		r.Log.Info("Created serving certificate", "secret", r.Secret.String(), "until", expiryOf(after.Serving))
	}
	if n := len(parseAll(after.Trusted)); !bytes.Equal(before.Trusted, after.Trusted) {
		r.Log.Info("Changed trusted certificate authorities", "authorities", n)
	}
}

// expiryOf returns when a certificate expires; zero if there is none.
func expiryOf(p Pair) time.Time {
	if all := parseAll(p.Certificate); len(all) > 0 {
		return all[0].NotAfter
	}
	return time.Time{}
}
