package certificates

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// These are the keys in the Secrets. The key of the authority is never in the Secret that replicas of the webhook read.
const (
	certificateKey = corev1.TLSCertKey
	privateKey     = corev1.TLSPrivateKeyKey
	bundleKey      = corev1.ServiceAccountRootCAKey
	authorityKey   = "ca.key"
)

// authoritySecret returns the name of the Secret of the authority that signs the content of the Secret serving.
func authoritySecret(serving client.ObjectKey) client.ObjectKey {
	return client.ObjectKey{Namespace: serving.Namespace, Name: serving.Name + "-ca"}
}

// stored is the state as it was read, with the Secrets whose versions a write must match.
type stored struct {
	State
	authority, serving *corev1.Secret
}

func (r *Reconciler) readState(ctx context.Context) (*stored, error) {
	authority, err := r.getSecret(ctx, authoritySecret(r.Secret))
	if err != nil {
		return nil, err
	}
	serving, err := r.getSecret(ctx, r.Secret)
	if err != nil {
		return nil, err
	}
	return &stored{authority: authority, serving: serving, State: State{
		Authority: Pair{Certificate: authority.Data[bundleKey], Key: authority.Data[authorityKey]},
		Serving:   Pair{Certificate: serving.Data[certificateKey], Key: serving.Data[privateKey]},
		Trusted:   serving.Data[bundleKey],
	}}, nil
}

// getSecret reads a Secret. If it does not exist, the result has no resourceVersion.
func (r *Reconciler) getSecret(ctx context.Context, key client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", key, err)
	}
	return secret, nil
}

// writeState stores the changes. It writes the authority first: a certificate is useless without the authority that signed it.
func (r *Reconciler) writeState(ctx context.Context, s *stored, next State) error {
	authority := map[string][]byte{bundleKey: next.Authority.Certificate, authorityKey: next.Authority.Key}
	if err := r.storeSecret(ctx, s.authority, authority, corev1.SecretTypeOpaque); err != nil {
		return err
	}
	serving := map[string][]byte{certificateKey: next.Serving.Certificate, privateKey: next.Serving.Key, bundleKey: next.Trusted}
	return r.storeSecret(ctx, s.serving, serving, corev1.SecretTypeTLS)
}

// storeSecret stores content in a Secret, and keeps the keys of other owners.
func (r *Reconciler) storeSecret(ctx context.Context, secret *corev1.Secret, content map[string][]byte, kind corev1.SecretType) error {
	wanted := secret.DeepCopy()
	if wanted.Data == nil {
		wanted.Data = map[string][]byte{}
	}
	maps.Copy(wanted.Data, content)
	if maps.EqualFunc(wanted.Data, secret.Data, bytes.Equal) {
		return nil
	}
	key := client.ObjectKeyFromObject(secret)
	if secret.ResourceVersion == "" {
		wanted.Type, wanted.Labels = kind, map[string]string{"app.kubernetes.io/managed-by": Name}
		if err := r.Client.Create(ctx, wanted, client.FieldOwner(Name)); err != nil {
			return fmt.Errorf("create Secret %s: %w", key, err)
		}
		return nil
	}
	if err := r.Client.Update(ctx, wanted, client.FieldOwner(Name)); err != nil {
		return fmt.Errorf("write Secret %s: %w", key, err)
	}
	return nil
}
