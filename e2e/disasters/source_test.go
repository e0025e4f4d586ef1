package disasters_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// source is a Deployment of the core that asks for a protector, which is to have a floor of two pods fewer.
func (l lab) source(replicas int32) *appsv1.Deployment {
	two, labels := intstr.FromInt32(2), map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "web", Labels: map[string]string{v1alpha1.LabelProtect: "true"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &two},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: storm.Image}}},
			},
		},
	}
}

const generated = "deployment-web"

// protectSource makes the Deployment and as many pods in the workers, and waits until its protector counts them.
func (l lab) protectSource(pods int) {
	l.Helper()
	l.Must(l.Core.Create(l.Context(), l.source(int32(pods))))
	l.Must(l.App(pods).DeployBare(l.Context(), l.Cells))
	l.Eventually(func() string {
		p := &v1alpha1.PodProtectorList{}
		l.Must(l.Core.List(l.Context(), p))
		for i := range p.Items {
			if p.Items[i].Namespace == l.Namespace && p.Items[i].Status.Summary.Available == int32(pods) {
				return ""
			}
		}
		return fmt.Sprintf("the generator has made no protector that counts %d pods", pods)
	})
	l.awaitHeard()
}

func TestSourcesAreErasedFromTheCore(t *testing.T) {
	claim(t, "the protector stays in force without its Deployment, says so, and follows it again when it is there", func(l lab) {
		l.protectSource(8)
		v := l.watch(6)
		l.erase(l.core(), 1, "deployments/"+l.Namespace+"/web")
		p := l.protector(generated)
		l.awaitCondition(p, v1alpha1.ConditionTargetResolved, metav1.ConditionFalse, v1alpha1.ReasonSourceVanished)
		l.awaitEvent(generated, v1alpha1.ReasonSourceVanished)
		v.wantExhausted(generated)

		l.Must(l.Core.Create(l.Context(), l.source(8)))
		l.Eventually(func() string {
			if c := l.protector(generated).Status.Conditions; !isTrue(c, v1alpha1.ConditionTargetResolved) {
				return fmt.Sprintf("the protector does not follow its Deployment: %+v", c)
			}
			return ""
		})
		if now := l.protector(generated); now.UID != p.UID || now.Spec.MinAvailable.IntValue() != 6 {
			l.Errorf("the protector is another one, or has another floor: %+v", now)
		}
		v.wantExhausted(generated)
	})
}
