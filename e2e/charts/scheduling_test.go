package charts_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
)

// Scheduling policies require permissions to read policies and namespaces, and to write the status of policies.
func TestSchedulingPoliciesApplyToPods(t *testing.T) {
	single.Claim(t, "new pods of a namespace tolerate a taint, and the policy reports them", func(l *e2e.Fixture) {
		l.WaitForReadyCells(installed.Problems)
		policy := &v1alpha1.ClusterPodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Name: l.Namespace}}
		policy.Spec.NamespaceSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: l.Namespace}}
		policy.Spec.PodSelector = &v1alpha1.PodSelector{}
		policy.Spec.Tolerations = []v1alpha1.Toleration{{Key: "example.com/pool", Operator: "Equal", Value: "etcd", Effect: "NoSchedule"}}
		l.Must(l.Core.Create(l.Context(), policy))
		l.Cleanup(func() { _ = l.Core.Delete(l.Context(), policy) })
		l.Eventually(func() string {
			if err := l.Core.Get(l.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
				return err.Error()
			}
			if !meta.IsStatusConditionTrue(policy.Status.Conditions, v1alpha1.ConditionReady) {
				return fmt.Sprintf("%+v; %v", policy.Status, installed.Problems())
			}
			return ""
		})
		createDeployment(l, 3)
		l.Eventually(func() string {
			pods := &corev1.PodList{}
			l.Must(l.Core.List(l.Context(), pods, client.InNamespace(l.Namespace)))
			l.Must(l.Core.Get(l.Context(), client.ObjectKeyFromObject(policy), policy))
			if len(pods.Items) < 3 || policy.Status.Injected < 3 || policy.Status.Conflicts > 0 {
				return fmt.Sprintf("%d pods, and %+v; %v", len(pods.Items), policy.Status, installed.Problems())
			}
			for _, pod := range pods.Items {
				if !hasToleration(&pod, "example.com/pool") {
					l.Fatalf("pod %s has %+v", pod.Name, pod.Spec.Tolerations)
				}
			}
			return ""
		})
		l.Must(installed.Problems())
	})
}

func hasToleration(pod *corev1.Pod, key string) bool {
	for _, toleration := range pod.Spec.Tolerations {
		if toleration.Key == key {
			return true
		}
	}
	return false
}
