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

// newSourceDeployment returns a Deployment for the core that requests a protector. The floor of that protector is two pods lower than the
// replicas.
func (l fixture) newSourceDeployment(replicas int32) *appsv1.Deployment {
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

const generatedName = "deployment-web"

// createProtectedSource creates the Deployment in the core and the same number of pods in the workers. It waits until the protector counts
// them.
func (l fixture) createProtectedSource(pods int) {
	l.Helper()
	l.Must(l.Core.Create(l.Context(), l.newSourceDeployment(int32(pods))))
	l.Must(l.Application(pods).DeployBare(l.Context(), l.Cells))
	l.Eventually(func() string {
		p := &v1alpha1.PodProtectorList{}
		l.Must(l.Core.List(l.Context(), p))
		for i := range p.Items {
			if p.Items[i].Namespace == l.Namespace && p.Items[i].Status.Summary.Available == int32(pods) {
				return ""
			}
		}
		return fmt.Sprintf("the generator has created no protector that counts %d pods", pods)
	})
	l.waitForWebhooks()
}

func TestSourcesDeletedFromCoreEtcd(t *testing.T) {
	claim(t, "the protector stays in force without its Deployment, reports it, and follows the recreated Deployment", func(l fixture) {
		l.createProtectedSource(8)
		v := l.startPodWatch(6)
		l.deleteFromEtcd(l.core(), 1, "deployments/"+l.Namespace+"/web")
		p := l.getProtector(generatedName)
		l.waitForCondition(p, v1alpha1.ConditionTargetResolved, metav1.ConditionFalse, v1alpha1.ReasonSourceVanished)
		l.waitForEvent(generatedName, v1alpha1.ReasonSourceVanished)
		v.waitForExhaustedBudget(generatedName)

		l.Must(l.Core.Create(l.Context(), l.newSourceDeployment(8)))
		l.Eventually(func() string {
			if c := l.getProtector(generatedName).Status.Conditions; !isTrue(c, v1alpha1.ConditionTargetResolved) {
				return fmt.Sprintf("the protector does not follow its Deployment: %+v", c)
			}
			return ""
		})
		if now := l.getProtector(generatedName); now.UID != p.UID || now.Spec.MinAvailable.IntValue() != 6 {
			l.Errorf("the protector was recreated, or its floor changed: %+v", now)
		}
		v.waitForExhaustedBudget(generatedName)
	})
}
