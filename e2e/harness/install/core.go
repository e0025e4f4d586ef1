package install

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// Client returns a client of a cluster with Breakwater's and Kubernetes' kinds.
func Client(cluster federation.Cluster) (client.Client, error) {
	c, err := client.New(cluster.RESTConfig(), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to cluster %s: %w", cluster.Name(), err)
	}
	return c, nil
}

// prepareCores creates what the components need before they start. The federation has already installed the API.
func (i *Installation) prepareCores(ctx context.Context) error {
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: SystemNamespace}}}
	if i.options.AggregatorShards > 0 {
		objects = append(objects, &v1alpha1.ClusterRing{
			ObjectMeta: metav1.ObjectMeta{Name: AggregatorRing},
			Spec:       v1alpha1.ClusterRingSpec{ShardNamespace: SystemNamespace, LeaseDurationSeconds: int32(i.options.ShardLease.Seconds())},
		})
	}
	workers := i.options.Workers
	if i.options.WithoutCells {
		workers = nil
	}
	for _, worker := range workers {
		secret, err := kubeconfigOf(worker)
		if err != nil {
			return err
		}
		cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: worker.Name()}}
		cell.Spec.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: secret.Namespace, Name: secret.Name}
		if deadline := i.options.AdmissionDeadline; deadline > 0 {
			cell.Spec.AdmissionDeadline = &metav1.Duration{Duration: deadline}
		}
		objects = append(objects, secret, cell)
	}
	return i.createInCores(ctx, objects...)
}

// kubeconfigOf returns the Secret with a worker's kubeconfig, for components that no flag gives access to the worker.
func kubeconfigOf(worker federation.Cluster) (*corev1.Secret, error) {
	raw, err := os.ReadFile(worker.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of cluster %s: %w", worker.Name(), err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: SystemNamespace, Name: worker.Name()}, Data: map[string][]byte{"kubeconfig": raw},
	}, nil
}

// createInCores creates objects in every core, unless they exist.
func (i *Installation) createInCores(ctx context.Context, objects ...client.Object) error {
	return createIn(ctx, i.options.Cores, objects...)
}

// createIn creates objects in each of some clusters, unless they exist.
func createIn(ctx context.Context, clusters []federation.Cluster, objects ...client.Object) error {
	for _, cluster := range clusters {
		c, err := Client(cluster)
		if err != nil {
			return err
		}
		for _, object := range objects {
			// A created object has the resourceVersion of its cluster, so each one gets a copy.
			own := object.DeepCopyObject().(client.Object)
			if err := c.Create(ctx, own); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("create %T %s in cluster %s: %w", own, own.GetName(), cluster.Name(), err)
			}
		}
	}
	return nil
}
