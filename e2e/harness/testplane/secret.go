package testplane

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// StoreKubeconfig stores a kubeconfig in a Secret, replacing its content, and returns the reference for a Cell.
func StoreKubeconfig(t testing.TB, c client.Client, namespace, name string, kubeconfig []byte) *v1alpha1.KubeconfigSecretRef {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"kubeconfig": kubeconfig}}
	err := c.Create(t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = c.Update(t.Context(), secret)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &v1alpha1.KubeconfigSecretRef{Namespace: namespace, Name: name}
}
