package hostile_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// These tests show that the restrictions against attackers leave the components enough permissions.

func TestStormOnCoreAndWorkers(t *testing.T) {
	suite.Claim(t, "the floor over both workers holds, and the whole budget is used", func(l *e2e.Fixture) {
		l.WaitForReadyCells(installed.Problems)
		e2e.FaultStorm{Pods: 60, FloorsByCore: []int{40}, ExhaustsBudget: true}.Run(l)
	})
}

func TestComponentsHaveRightsInOtherClusters(t *testing.T) {
	suite.Claim(t, "floors are computed from the workloads of both workers", func(l *e2e.Fixture) {
		l.WaitForReadyCells(installed.Problems)
		app := storm.Application{Namespace: l.Namespace, Name: "web", Pods: 12}
		l.Must(app.Deploy(l.Context(), l.Cells))
		share := intstr.FromString("75%")
		l.CreateProtector(0, func(s *v1alpha1.PodProtectorSpec) { s.MinAvailable = &share })
		l.WaitForSummary(e2e.AllAvailable(12))
		l.Eventually(func() string {
			if p := l.GetProtector(); p.Status.DesiredAvailable != 9 || p.Status.ExpectedReplicas == nil || *p.Status.ExpectedReplicas != 12 {
				return fmt.Sprintf("%+v; %v", p.Status, installed.Problems())
			}
			return ""
		})
		l.Must(installed.Problems())
	})
}

func TestCorePolicyAppliesToPodsOfEveryWorker(t *testing.T) {
	suite.Claim(t, "new pods get the fields of the policy of their namespace, which counts them", func(l *e2e.Fixture) {
		l.WaitForReadyCells(installed.Problems)
		policy := &v1alpha1.PodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "pool"}}
		policy.Spec.PodSelector = &v1alpha1.PodSelector{}
		policy.Spec.Tolerations = []v1alpha1.Toleration{{Key: "example.com/pool", Operator: "Exists"}}
		l.Must(l.Core.Create(l.Context(), policy))
		read := func() *v1alpha1.PodSchedulingPolicy {
			l.Must(l.Core.Get(l.Context(), client.ObjectKeyFromObject(policy), policy))
			return policy
		}
		l.Eventually(func() string {
			if !meta.IsStatusConditionTrue(read().Status.Conditions, v1alpha1.ConditionReady) {
				return fmt.Sprintf("%+v; %v", policy.Status, installed.Problems())
			}
			return ""
		})
		// One webhook replica sets the condition. Each of the others may receive the policy later.
		injected := map[string]bool{}
		l.Eventually(func() string {
			for _, cell := range l.Cells {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, GenerateName: "web-"}}
				pod.Spec.Containers = []corev1.Container{{Name: "app", Image: storm.Image}}
				pod, err := cell.Client.CoreV1().Pods(l.Namespace).Create(l.Context(), pod, metav1.CreateOptions{})
				l.Must(err)
				for _, toleration := range pod.Spec.Tolerations {
					injected[cell.Name] = injected[cell.Name] || toleration.Key == "example.com/pool"
				}
			}
			if len(injected) < len(l.Cells) || slices.Contains(slices.Collect(maps.Values(injected)), false) || read().Status.Injected < int64(len(l.Cells)) {
				return fmt.Sprintf("%v and %+v; %v", injected, policy.Status, installed.Problems())
			}
			return ""
		})
		l.Must(installed.Problems())
	})
}
