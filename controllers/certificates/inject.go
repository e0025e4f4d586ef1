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

type configurationKind struct {
	kindName  string
	newObject func() client.Object
	// names are the names of the configurations that should trust the webhook.
	names []string
}

func (o *Options) kinds() []configurationKind {
	all := []configurationKind{
		{"ValidatingWebhookConfiguration", func() client.Object { return &admissionregistrationv1.ValidatingWebhookConfiguration{} }, o.Configurations},
		{"MutatingWebhookConfiguration", func() client.Object { return &admissionregistrationv1.MutatingWebhookConfiguration{} }, o.MutatingConfigurations},
	}
	return slices.DeleteFunc(all, func(k configurationKind) bool { return len(k.names) == 0 })
}

// clientConfigsOf returns how API servers reach the webhooks of a configuration.
func clientConfigsOf(configuration client.Object) (all []*admissionregistrationv1.WebhookClientConfig) {
	switch c := configuration.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			all = append(all, &c.Webhooks[i].ClientConfig)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			all = append(all, &c.Webhooks[i].ClientConfig)
		}
	}
	return all
}

// configurationsOf returns the named configurations that exist and are not being deleted.
func configurationsOf(ctx context.Context, reader client.Reader, kinds []configurationKind) ([]client.Object, error) {
	var all []client.Object
	for _, k := range kinds {
		for _, name := range k.names {
			c := k.newObject()
			err := reader.Get(ctx, client.ObjectKey{Name: name}, c)
			if apierrors.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read %s %s: %w", k.kindName, name, err)
			}
			if c.GetDeletionTimestamp().IsZero() {
				all = append(all, c)
			}
		}
	}
	return all, nil
}

// trustedBundles returns all bundles that the configurations trust, concatenated.
func trustedBundles(all []client.Object) []byte {
	var bundles [][]byte
	for _, c := range all {
		for _, to := range clientConfigsOf(c) {
			bundles = append(bundles, to.CABundle)
		}
	}
	return bytes.Join(bundles, []byte("\n"))
}

// injectBundle makes configurations trust a bundle, and reports whether one did not. It continues with the others if one cannot be changed.
func (r *Reconciler) injectBundle(ctx context.Context, all []client.Object, bundle []byte) (bool, error) {
	changed, errs := false, []error(nil)
	for _, c := range all {
		if !slices.ContainsFunc(clientConfigsOf(c), func(to *admissionregistrationv1.WebhookClientConfig) bool { return !bytes.Equal(to.CABundle, bundle) }) {
			continue
		}
		changed = true
		wanted := c.DeepCopyObject().(client.Object)
		for _, to := range clientConfigsOf(wanted) {
			to.CABundle = bundle
		}
		if err := patchConfiguration(ctx, r.Client, c, wanted); err != nil {
			errs = append(errs, fmt.Errorf("inject the CA bundle into webhook configuration %s: %w", c.GetName(), err))
			continue
		}
		r.Log.Info("Injected CA bundle into webhook configuration", "configuration", c.GetName(), "authorities", len(parseAll(bundle)))
	}
	return changed, errors.Join(errs...)
}

// patchConfiguration changes a configuration that exists. A merge patch sends the whole list, so it must be the version that was read.
func patchConfiguration(ctx context.Context, writer client.Client, read, wanted client.Object) error {
	patch := client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{})
	return client.IgnoreNotFound(writer.Patch(ctx, wanted, patch, client.FieldOwner(Name)))
}
