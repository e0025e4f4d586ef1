// Package certificates makes what a webhook and the API servers that ask it know each other by, and puts it into webhook configurations:
// the certificate that the webhook serves, where no other component makes it, and caller tokens. It replaces the certificate, and the authority that
// signs it, without the loss of a review: that the library cannot do which makes the certificates, since it puts both into use at the same moment.
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

// Name is that of the controller, its Lease and its field manager.
const Name = "breakwater-certificates"

// lookEvery is how often the Secrets are looked at, of which that of the authority is not watched; more often than shortest
// they are not, however short the waits are.
const (
	lookEvery = time.Minute
	shortest  = 100 * time.Millisecond
)

// Reconciler keeps one Secret filled.
type Reconciler struct {
	Client client.Client
	// Live reads Secrets as they are: of a stale one the certificate would be made twice.
	Live client.Reader
	Log  logr.Logger
	// Now is the clock, of certificates and of waits.
	Now     func() time.Time
	Metrics *Metrics
	Options

	spread, served since
}

// since is when something was noticed first.
type since struct {
	what [sha256.Size]byte
	at   time.Time
}

// note returns for how long it has been this.
func (s *since) note(what []byte, now time.Time) time.Duration {
	if sum := sha256.Sum256(what); sum != s.what || s.at.IsZero() {
		s.what, s.at = sum, now
	}
	return now.Sub(s.at)
}

// Reconcile takes the one step that is due. Waits are counted by this process from when it noticed: another leader waits anew.
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
		// Now every configuration trusts the authority, and apiservers begin to hear of it.
		r.spread.note(next.Authority.Certificate, now)
	}
	return reconcile.Result{RequeueAfter: max(shortest, min(lookEvery, r.Spread, r.Overlap))}, nil
}

// look says which waits are over.
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

// end is when a certificate expires.
func end(p Pair) time.Time {
	if all := parseAll(p.Certificate); len(all) > 0 {
		return all[0].NotAfter
	}
	return time.Time{}
}
