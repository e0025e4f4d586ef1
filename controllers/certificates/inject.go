package certificates

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// configurations are those of the names that exist.
func (r *Reconciler) configurations(ctx context.Context) ([]*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	var all []*admissionregistrationv1.ValidatingWebhookConfiguration
	for _, name := range r.Configurations {
		c := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		err := r.Client.Get(ctx, client.ObjectKey{Name: name}, c)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read ValidatingWebhookConfiguration %s: %w", name, err)
		}
		if c.DeletionTimestamp.IsZero() {
			all = append(all, c)
		}
	}
	return all, nil
}

// injected is all that configurations trust.
func injected(all []*admissionregistrationv1.ValidatingWebhookConfiguration) []byte {
	var bundles [][]byte
	for _, c := range all {
		for i := range c.Webhooks {
			bundles = append(bundles, c.Webhooks[i].ClientConfig.CABundle)
		}
	}
	return bytes.Join(bundles, []byte("\n"))
}

// inject makes configurations trust a bundle, and says whether one did not. One that cannot be changed keeps no other from it.
func (r *Reconciler) inject(ctx context.Context, all []*admissionregistrationv1.ValidatingWebhookConfiguration, bundle []byte) (bool, error) {
	changed, errs := false, []error(nil)
	for _, c := range all {
		if !slices.ContainsFunc(c.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool {
			return !bytes.Equal(w.ClientConfig.CABundle, bundle)
		}) {
			continue
		}
		changed = true
		wanted := c.DeepCopy()
		for i := range wanted.Webhooks {
			wanted.Webhooks[i].ClientConfig.CABundle = bundle
		}
		// The list is sent as a whole, so it must be the very one that was read.
		patch := client.MergeFromWithOptions(c, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, wanted, patch, client.FieldOwner(Name)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("make ValidatingWebhookConfiguration %s trust the webhook: %w", c.Name, err))
			continue
		}
		r.Log.Info("A webhook configuration trusts the webhook", "configuration", c.Name, "authorities", len(parseAll(bundle)))
	}
	return changed, errors.Join(errs...)
}
