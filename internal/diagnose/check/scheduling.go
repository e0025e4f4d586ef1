package check

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// checkScheduling returns one finding per webhook of a MutatingWebhookConfiguration of scheduling policies, or a single finding if it has
// none.
func (c *Checker) checkScheduling(ctx context.Context, name string) []Finding {
	what := "MutatingWebhookConfiguration " + name
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	err := c.Client.Get(ctx, client.ObjectKey{Name: name}, configuration)
	if problem := configurationProblem(err, len(configuration.Webhooks), "scheduling policies do not apply"); problem != "" {
		return []Finding{{what, problem}}
	}
	var all []Finding
	for i := range configuration.Webhooks {
		hook := &configuration.Webhooks[i]
		f := Finding{What: what + ", " + hook.Name}
		if err := c.CallSchedulingWebhook(ctx, hook); err != nil {
			f.Problem = err.Error()
		}
		all = append(all, f)
	}
	return all
}

// newPodReview is a review that creates a pod without labels.
func (c *Checker) newPodReview() *admissionv1.AdmissionReview {
	request := c.newRequest(admissionv1.Create)
	request.Kind = metav1.GroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	request.Resource = metav1.GroupVersionResource(corev1.SchemeGroupVersion.WithResource("pods"))
	request.Object = runtime.RawExtension{Object: &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: c.objectMeta(),
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: checkName, Image: checkName}}},
	}}
	return reviewOf(request)
}
