package operate_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// protectedDeployments creates n Deployments in the core, and waits for their protectors. The first one selects the pods of the test.
func protectedDeployments(l *fixture, n int) {
	l.Helper()
	for i := range n {
		labels := map[string]string{"app": []string{"web", fmt.Sprint("other-", i)}[min(i, 1)]}
		replicas := int32(4)
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: l.Namespace, Name: fmt.Sprint("web-", i), Labels: map[string]string{v1alpha1.LabelProtect: "true"},
		}}
		d.Spec.Replicas, d.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: labels}
		d.Spec.Template.Labels = labels
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: storm.Image}}
		l.Must(l.Core.Create(l.Context(), d))
	}
	waitForProtectors(l, n, func(*v1alpha1.PodProtector) string { return "" })
}

// waitForProtectors waits until n protectors exist and problem returns "" for each of them. Otherwise problem returns what is missing.
func waitForProtectors(l *fixture, n int, problem func(*v1alpha1.PodProtector) string) {
	l.Helper()
	l.Eventually(func() string {
		list := &v1alpha1.PodProtectorList{}
		if err := l.Core.List(l.Context(), list, client.InNamespace(l.Namespace)); err != nil {
			return err.Error()
		}
		if len(list.Items) != n {
			return fmt.Sprintf("%d PodProtectors, want %d", len(list.Items), n)
		}
		for i := range list.Items {
			if word := problem(&list.Items[i]); word != "" {
				return fmt.Sprintf("PodProtector %s: %s: %+v", list.Items[i].Name, word, list.Items[i].Status.Conditions)
			}
		}
		return ""
	})
}

func holdProblem(p *v1alpha1.PodProtector) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.ConditionDecreasePending && c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonLimitExceeded {
			return ""
		}
	}
	return "its floor was not kept"
}

func TestPendingDecreasesAreConfirmedOnce(t *testing.T) {
	claim(t, "after many Deployments are deleted, a denial names release --pending, which releases one floor and then all", func(l *fixture) {
		const deployments = 8
		protectedDeployments(l, deployments)
		app := l.Application(4)
		l.Must(app.DeployBare(l.Context(), l.Cells))
		l.Eventually(func() string {
			return strings.Join(missingFragments(pluginOutput(l, "status"), "deployment-web-0 3 4 0 1 ok"), ", ")
		})
		l.Must(l.Core.DeleteAllOf(l.Context(), &appsv1.Deployment{}, client.InNamespace(l.Namespace)))
		waitForProtectors(l, deployments, holdProblem)

		expectFragments(l, pluginOutput(l, "status"), "deployment-web-0 3 4 0 1 ok; decrease pending")
		denied := 0
		for _, cell := range l.Cells {
			for _, pod := range l.ExistingPods(cell) {
				if err := l.DeletePod(cell, pod.Name); err != nil {
					denied++
					expectFragments(l, err.Error(), "the floor is held although Deployment web-0 was deleted: if that is intended",
						"kubectl breakwater release --pending -n "+l.Namespace+" deployment-web-0")
				}
			}
		}
		if denied != 3 {
			l.Errorf("%d removals were denied, want 3", denied)
		}

		l.Eventually(func() string {
			return strings.Join(missingFragments(pluginOutput(l, "status"), "deployment-web-0 3 3 0 0 at floor; decrease pending"), ", ")
		})
		expectFragments(l, pluginOutput(l, "release", "--pending"), l.Namespace+" deployment-web-0 3 3 LimitExceeded", "release the floor of 3",
			"Pending decreases: 8. Until they take effect, the floors keep 3 available pods from removal.", "Nothing was changed.")
		expectFragments(l, pluginOutput(l, "release", "--pending", "--yes", "deployment-web-0"), "confirmed PodProtector "+l.Namespace+"/deployment-web-0")
		waitForProtectors(l, deployments-1, holdProblem)
		for _, cell := range l.Cells {
			for _, pod := range l.ExistingPods(cell) {
				l.Eventually(func() string {
					if err := l.DeletePod(cell, pod.Name); err != nil {
						return err.Error()
					}
					return ""
				})
			}
		}
		pluginOutput(l, "release", "--pending", "--yes")
		waitForProtectors(l, 0, holdProblem)
		expectFragments(l, pluginOutput(l, "release", "--pending"), "No decrease is pending in namespace "+l.Namespace)
	})
}
