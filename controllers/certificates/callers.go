package certificates

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// callersName is the name of the controller of caller tokens.
const callersName = "breakwater-callers"

const (
	// AnnotationCallerTokens is an annotation of the Secret of caller keys. The value Required makes the webhook deny callers without a token.
	AnnotationCallerTokens = "breakwater.dev/caller-tokens"
	// AnnotationRotateCallerKey requests a new key. Its value must differ from all earlier values.
	AnnotationRotateCallerKey = "breakwater.dev/rotate-caller-key"
	// annotationRotated is the last value of AnnotationRotateCallerKey for which the controller created a key.
	annotationRotated = "breakwater.dev/rotated-caller-key"
	callersRequired   = "Required"
)

// CallerReconciler manages the keys of caller tokens, and puts tokens into the webhook configurations that request one.
type CallerReconciler struct {
	Client client.Client
	// Live reads the Secret from the API server: from a stale Secret the controller would create a key twice.
	Live client.Reader
	Log  logr.Logger
	// Now is the clock for waits.
	Now func() time.Time
	Options

	spread, overlap firstSeen
	// required is the last time at which this process observed that tokens were required.
	required time.Time
}

// Reconcile takes the step that is due. This process times the waits, as in Reconciler.
func (r *CallerReconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	now := r.Now()
	secret := &corev1.Secret{}
	if err := r.Live.Get(ctx, r.CallerSecret, secret); err != nil {
		return reconcile.Result{}, fmt.Errorf("read Secret %s of caller keys: %w", r.CallerSecret, err)
	}
	all, err := configurationsOf(ctx, r.Client, r.kinds())
	if err != nil {
		return reconcile.Result{}, err
	}
	have := callerKeysOf(secret)
	if have.Required {
		r.required = now
	}
	if len(have.Current) == callerKeyBytes {
		all, err = r.injectTokens(ctx, all, func(to *admissionregistrationv1.WebhookClientConfig, path string) bool {
			return setCallerToken(to, path, &have, r.isSpread(&have, now), r.mayBeEnforced(now))
		})
		if err != nil {
			return reconcile.Result{}, err
		}
	}
	next := NextCallerKeys(have, r.observe(&have, secret, all, now), newCallerKey)
	if !next.equal(&have) {
		if err := r.writeKeys(ctx, secret, &next); err != nil {
			return reconcile.Result{}, err
		}
		r.Log.Info("Wrote caller keys", "secret", r.CallerSecret.String(), "newKey", !bytes.Equal(next.Current, have.Current),
			"previousKey", len(next.Previous) > 0, "required", next.Required)
		return reconcile.Result{RequeueAfter: minInterval}, nil
	}
	return reconcile.Result{RequeueAfter: max(minInterval, min(readInterval, r.Spread, r.CallerOverlap))}, nil
}

func newCallerKey() []byte {
	key := make([]byte, callerKeyBytes)
	_, _ = rand.Read(key) // it never fails
	return key
}

func callerKeysOf(secret *corev1.Secret) CallerKeys {
	return CallerKeys{
		Current: secret.Data[webhookconfig.CurrentCallerKey], Previous: secret.Data[webhookconfig.PreviousCallerKey],
		Required: string(secret.Data[webhookconfig.CallersRequired]) == "true",
		Rotated:  secret.Annotations[annotationRotated],
	}
}

// isSpread reports whether every replica has had time to read the current key.
func (r *CallerReconciler) isSpread(k *CallerKeys, now time.Time) bool {
	return r.spread.observe(k.Current, now) >= r.Spread
}

// mayBeEnforced reports whether a replica may still deny callers without a token: until all replicas have had time to read that none is
// required.
func (r *CallerReconciler) mayBeEnforced(now time.Time) bool {
	return !r.required.IsZero() && now.Sub(r.required) < r.Spread
}

func (r *CallerReconciler) observe(k *CallerKeys, secret *corev1.Secret, all []client.Object, now time.Time) CallerObservations {
	observed := CallerObservations{
		Require: secret.Annotations[AnnotationCallerTokens] == callersRequired, Rotate: secret.Annotations[AnnotationRotateCallerKey],
		Authenticated: allClientsMatch(all, func(token, scope string) bool { return webhookconfig.IsCallerToken(token, scope, k.valid()...) }),
	}
	if len(k.Current) == 0 {
		return observed
	}
	observed.Spread = r.isSpread(k, now)
	if len(k.Previous) == 0 || !allClientsMatch(all, func(token, scope string) bool { return webhookconfig.IsCallerToken(token, scope, k.Current) }) {
		r.overlap = firstSeen{}
		return observed
	}
	observed.Overlap = r.overlap.observe(k.Current, now) >= r.CallerOverlap
	return observed
}

// allClientsMatch reports whether matches is true for the token (empty if there is none) and the scope of every webhook of the configurations.
func allClientsMatch(all []client.Object, matches func(token, scope string) bool) bool {
	for _, c := range all {
		for _, to := range clientConfigsOf(c) {
			if token, path := webhookconfig.CallerTokenOf(to); !matches(token, webhookconfig.CallerScope(path)) {
				return false
			}
		}
	}
	return true
}

// injectTokens puts tokens into the configurations that request them by annotation, and returns all configurations as they are now. set changes
// one client.
func (r *CallerReconciler) injectTokens(
	ctx context.Context, all []client.Object, set func(to *admissionregistrationv1.WebhookClientConfig, path string) (changed bool),
) (now []client.Object, err error) {
	var errs []error
	for _, c := range all {
		path := c.GetAnnotations()[webhookconfig.AnnotationCallerPath]
		wanted := c.DeepCopyObject().(client.Object)
		changed := false
		for _, to := range clientConfigsOf(wanted) {
			changed = path != "" && set(to, path) || changed
		}
		if !changed {
			now = append(now, c)
			continue
		}
		if err := patchConfiguration(ctx, r.Client, c, wanted); err != nil {
			errs = append(errs, fmt.Errorf("inject the caller token into webhook configuration %s: %w", c.GetName(), err))
			continue
		}
		r.Log.Info("Injected caller token into webhook configuration", "configuration", c.GetName())
		now = append(now, wanted)
	}
	return now, errors.Join(errs...)
}

// setCallerToken sets the path of a webhook, and reports whether it changed. It does not touch URLs. It does not touch a path without a token
// while no token is enforced: the chart renders such a path before tokens are required, and after they no longer are.
func setCallerToken(to *admissionregistrationv1.WebhookClientConfig, path string, keys *CallerKeys, spread, enforced bool) (changed bool) {
	existing, basePath := webhookconfig.CallerTokenOf(to)
	if to.Service == nil || basePath == path && existing == "" && !enforced {
		return false
	}
	if basePath != path {
		existing = ""
	}
	wanted := webhookconfig.CallerPath(keys.Token(webhookconfig.CallerScope(path), existing, spread), path)
	if to.Service.Path != nil && *to.Service.Path == wanted {
		return false
	}
	to.Service.Path = &wanted
	return true
}

// writeKeys stores the keys in the Secret that was read. It fails if the Secret has changed since.
func (r *CallerReconciler) writeKeys(ctx context.Context, secret *corev1.Secret, keys *CallerKeys) error {
	wanted := secret.DeepCopy()
	wanted.Data = map[string][]byte{webhookconfig.CurrentCallerKey: keys.Current}
	if len(keys.Previous) > 0 {
		wanted.Data[webhookconfig.PreviousCallerKey] = keys.Previous
	}
	if keys.Required {
		wanted.Data[webhookconfig.CallersRequired] = []byte("true")
	}
	if wanted.Annotations == nil {
		wanted.Annotations = map[string]string{}
	}
	wanted.Annotations[annotationRotated] = keys.Rotated
	if err := r.Client.Update(ctx, wanted, client.FieldOwner(Name)); err != nil {
		return fmt.Errorf("write Secret %s of caller keys: %w", r.CallerSecret, err)
	}
	return nil
}
