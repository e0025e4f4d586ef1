package check

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// checkRings returns one finding per ClusterRing and per webhook that assigns its objects. It is no problem if there are none.
func (c *Checker) checkRings(ctx context.Context) []Finding {
	list := &v1alpha1.ClusterRingList{}
	if err := c.Client.List(ctx, list); err != nil {
		return []Finding{{"ClusterRings", fmt.Sprintf("cannot be listed: %v", err)}}
	}
	all := []Finding{{What: "ClusterRings"}}
	for i := range list.Items {
		all = append(all, Finding{"ClusterRing " + list.Items[i].Name, ringProblem(&list.Items[i])})
	}
	configurations := &admissionregistrationv1.MutatingWebhookConfigurationList{}
	if err := c.Client.List(ctx, configurations, client.HasLabels{v1alpha1.LabelRing}); err != nil {
		return append(all, Finding{"MutatingWebhookConfigurations of rings", fmt.Sprintf("cannot be listed: %v", err)})
	}
	for i := range configurations.Items {
		for j := range configurations.Items[i].Webhooks {
			hook := &configurations.Items[i].Webhooks[j]
			f := Finding{What: "MutatingWebhookConfiguration " + configurations.Items[i].Name + ", " + hook.Name}
			if err := c.CallRingWebhook(ctx, hook); err != nil {
				f.Problem = err.Error()
			}
			all = append(all, f)
		}
	}
	return all
}

// ringProblem describes the conditions of a ring that are not true. Objects that move between shards are not a problem.
func ringProblem(ring *v1alpha1.ClusterRing) string {
	var problems []string
	for _, name := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionShardsAvailable} {
		switch condition := meta.FindStatusCondition(ring.Status.Conditions, name); {
		case condition == nil:
			problems = append(problems, fmt.Sprintf("no sharder has set condition %s yet: check that the sharder runs", name))
		case condition.Status != metav1.ConditionTrue:
			problems = append(problems, fmt.Sprintf("%s=%s (%s): %s", name, condition.Status, condition.Reason, condition.Message))
		}
	}
	return strings.Join(problems, "; ")
}

// newObjectReview is a review that creates an object of the first resource in the rules of a ring's webhook.
func (c *Checker) newObjectReview(hook *admissionregistrationv1.MutatingWebhook) *admissionv1.AdmissionReview {
	request := c.newRequest(admissionv1.Create)
	if len(hook.Rules) > 0 && len(hook.Rules[0].APIGroups) > 0 && len(hook.Rules[0].Resources) > 0 {
		request.Resource = metav1.GroupVersionResource{Group: hook.Rules[0].APIGroups[0], Resource: hook.Rules[0].Resources[0]}
	}
	request.Object = runtime.RawExtension{Object: &metav1.PartialObjectMetadata{ObjectMeta: c.objectMeta()}}
	return reviewOf(request)
}
