package release

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// holdPolicy is the name of the policy of HoldPods and of its binding.
const holdPolicy = "held-by-kubelet"

// HoldPods makes kwok wait for the processes of all pods of the chart, whatever the values of a release. Without it, pods without the annotations that
// Install sets are ready at once. It needs Kubernetes 1.36, and returns when it is in effect.
func (k *Kubelet) HoldPods(ctx context.Context) error {
	labels := map[string]string{"app.kubernetes.io/name": "breakwater"}
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: holdPolicy}}
	policy.Spec = admissionregistrationv1.MutatingAdmissionPolicySpec{
		FailurePolicy: ptr.To(admissionregistrationv1.Fail), ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		MatchConstraints: &admissionregistrationv1.MatchResources{
			ObjectSelector: &metav1.LabelSelector{MatchLabels: labels},
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}},
		},
		Mutations: []admissionregistrationv1.Mutation{{
			PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: `Object{metadata: Object.metadata{annotations: {"` +
				federation.ReadyAnnotation + `": "false", "` + federation.CompleteAnnotation + `": "held"}}}`},
		}},
	}
	binding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: holdPolicy}}
	binding.Spec.PolicyName = holdPolicy
	admission := k.client.AdmissionregistrationV1()
	if _, err := admission.MutatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := admission.MutatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: holdPolicy, Labels: labels}}
	probe.Spec.Containers = []corev1.Container{{Name: "none", Image: "none"}}
	return wait.PollUntilContextTimeout(ctx, pollInterval, helmTimeout, true, func(ctx context.Context) (bool, error) {
		pod, err := k.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && pod.Annotations[federation.ReadyAnnotation] == "false", nil // the default ServiceAccount may be missing at first
	})
}
