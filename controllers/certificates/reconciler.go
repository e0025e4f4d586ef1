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

// lookEvery is how often the controller reads the Secrets; the Secret of the authority is not watched. It never reads them more often than
// every shortest, however short the waits are.
const (
	lookEvery = time.Minute
	shortest  = 100 * time.Millisecond
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

	spread, served since
}

// since is the time at which a value was first observed.
type since struct {
	what [sha256.Size]byte
	at   time.Time
}

// note returns how long the value has been the current one.
func (s *since) note(what []byte, now time.Time) time.Duration {
	if sum := sha256.Sum256(what); sum != s.what || s.at.IsZero() {
		s.what, s.at = sum, now
	}
	return now.Sub(s.at)
}

// Reconcile takes the one step that is due. This process times the waits from when it observed a change; a new leader waits again.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now := r.Now()
	have, err := r.read(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	all, err := configurationsOf(ctx, r.Client, r.kinds())
	if err != nil {
		return reconcile.Result{}, err
	}
	seen := r.look(have.State, now)
	seen.Injected = injected(all)
	next, err := Next(have.State, r.Terms, seen, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !next.equal(have.State) {
		if err := r.write(ctx, have, next); err != nil {
			return reconcile.Result{}, err
		}
		r.tell(have.State, next)
	}
	r.Metrics.observe(next)
	changed, err := r.inject(ctx, all, next.Trusted)
	if changed || err != nil {
		r.spread = since{}
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if !changed {
		// Now every configuration trusts the authority, and API servers begin to observe that.
		r.spread.note(next.Authority.Certificate, now)
	}
	return reconcile.Result{RequeueAfter: max(shortest, min(lookEvery, r.Spread, r.Overlap))}, nil
}

// look determines which waits are over.
func (r *Reconciler) look(s State, now time.Time) Seen {
	seen := Seen{Spread: r.spread.what == sha256.Sum256(s.Authority.Certificate) && !r.spread.at.IsZero() && now.Sub(r.spread.at) >= r.Spread}
	if !fits(s.Authority, s.Serving, r.Terms, now) {
		return seen
	}
	seen.Served = r.served.note(append(bytes.Clone(s.Authority.Certificate), s.Serving.Certificate...), now) >= r.Overlap
	return seen
}

func (r *Reconciler) tell(before, after State) {
	if !before.Authority.equal(after.Authority) {
		r.Log.Info("There is a new authority", "secret", authoritySecret(r.Secret).String(), "until", end(after.Authority))
	}
	if !before.Serving.equal(after.Serving) {
		r.Log.Info("There is a new serving certificate", "secret", r.Secret.String(), "until", end(after.Serving))
	}
	if n := len(parseAll(after.Trusted)); !bytes.Equal(before.Trusted, after.Trusted) {
		r.Log.Info("Other authorities are trusted", "authorities", n)
	}
}

// end returns when a certificate expires; zero if there is none.
func end(p Pair) time.Time {
	if all := parseAll(p.Certificate); len(all) > 0 {
		return all[0].NotAfter
	}
	return time.Time{}
}
