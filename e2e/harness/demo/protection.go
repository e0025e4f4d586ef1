package demo

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// protectorPollInterval is the polling interval for a protector.
const protectorPollInterval = 50 * time.Millisecond

// protect requests protection as a user does, by a label on the source Deployment in the core cluster, and waits until the
// protector counts all pods.
func (d *demo) protect(ctx context.Context, app storm.Application) error {
	if err := d.createSource(ctx, app); err != nil {
		return err
	}
	core, err := install.Client(d.core)
	if err != nil {
		return err
	}
	key := protectorOf(app)
	protector := &v1alpha1.PodProtector{}
	err = wait.PollUntilContextCancel(ctx, protectorPollInterval, true, func(ctx context.Context) (bool, error) {
		if err := core.Get(ctx, key, protector); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return protector.Spec.MinAvailable != nil && protector.Spec.MinAvailable.IntVal == int32(d.options.Floor) &&
			len(protector.Status.Cells) == len(d.cells) &&
			protector.Status.Summary.Available == int32(d.options.Pods), nil
	})
	if err != nil {
		return fmt.Errorf("wait until PodProtector %s counts %d pods in %d cells (spec %+v, status %+v): %w",
			key, d.options.Pods, len(d.cells), protector.Spec, protector.Status, err)
	}
	return nil
}

// protectorOf returns the name of the protector that the generator creates for an application.
func protectorOf(app storm.Application) client.ObjectKey {
	return client.ObjectKey{Namespace: app.Namespace, Name: policy.ProtectorName(policy.Ref{Group: "apps", Kind: "Deployment", Name: app.Name})}
}

// sourceDeployment returns the Deployment that the owner of a federated application keeps in the core cluster: the desired state.
// It is paused because the core runs no pods, so the Deployment controller creates no ReplicaSet for it.
func sourceDeployment(app storm.Application, floor int) *appsv1.Deployment {
	labels := map[string]string{"app": app.Name}
	replicas := int32(app.Pods)
	maxUnavailable := intstr.FromInt32(int32(app.Pods - floor))
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: app.Name, Namespace: app.Namespace,
			Labels: map[string]string{"app": app.Name, v1alpha1.LabelProtect: "true"},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Paused:   true,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &maxUnavailable},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: storm.Image}}},
			},
		},
	}
}
