package join

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// Revoke deletes all tokens of the options' directions, and the kubeconfigs, the cell's account in the core and the worker's reference to the core
// that join created. The Cell stays.
func (j *Joiner) Revoke(ctx context.Context) error {
	links, err := j.connect(ctx)
	if err != nil {
		return err
	}
	for _, l := range links {
		tokens, err := j.tokens(ctx, l)
		if err != nil {
			return err
		}
		if err := l.deleteTokens(ctx, tokens); err != nil {
			return err
		}
		j.printLine("%s: revoked %s in %s.", l.direction, printable.Count(len(tokens), "token"), l.issuer.title)
		if err := j.removeKubeconfig(ctx, l); err != nil {
			return err
		}
		if l.direction == CoreToWorker {
			continue
		}
		if err := j.removeReference(ctx, l); err != nil { // it has no credentials
			j.warn("ConfigMap %s/%s in %s still names the core: %v", j.Namespace, clusters.CoreReferences, l.user.title, err)
		}
		if err := j.removeAccount(ctx, l.issuer); err != nil {
			return err
		}
	}
	j.reportRevoked(ctx, links)
	return nil
}

// removeKubeconfig deletes the kubeconfig Secret, unless join did not create it.
func (j *Joiner) removeKubeconfig(ctx context.Context, l *link) error {
	secret, name := &corev1.Secret{}, j.Namespace+"/"+l.secret
	err := l.user.client.Get(ctx, client.ObjectKey{Namespace: j.Namespace, Name: l.secret}, secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get Secret %s in %s: %w", name, l.user.title, err)
	}
	if secret.Labels[managedBy] != Owner {
		j.warn("Secret %s in %s was not created by join, and was not deleted.", name, l.user.title)
		return nil
	}
	same := client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}
	if err := client.IgnoreNotFound(l.user.client.Delete(ctx, secret, same)); err != nil {
		return fmt.Errorf("delete Secret %s in %s: %w", name, l.user.title, err)
	}
	j.printLine("%s: deleted Secret %s in %s.", l.direction, name, l.user.title)
	return nil
}

func (j *Joiner) reportRevoked(ctx context.Context, links []*link) {
	for _, l := range links {
		if l.direction == WorkerToCore {
			j.warn("components in the worker can no longer reach the core: the webhook denies removals of protected pods there.")
			continue
		}
		cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: j.Cell}}
		if err := l.user.client.Get(ctx, client.ObjectKeyFromObject(cell), cell); err == nil {
			j.warn("Cell %s was not deleted, and its pods count with the last known numbers: docs/concepts/topology.md describes how to remove a cell.", j.Cell)
		}
	}
}
