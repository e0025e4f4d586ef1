package check_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newSchedulingWebhook makes the API server call the webhook of scheduling policies.
func newSchedulingWebhook(ca []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	to, path := configuration(ca, "").Webhooks[0].ClientConfig, "/cells/a/schedule"
	to.Service.Path = &path
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "scheduling.breakwater.dev", ClientConfig: to}},
	}
}

func TestRunCallsSchedulingWebhooks(t *testing.T) {
	answering := func(annotations map[string]string) *hook {
		return newHook(t, "webhook.ns.svc", func(r *admissionv1.AdmissionReview) { r.Response.AuditAnnotations = annotations })
	}
	good := answering(map[string]string{"reason": "NoPolicy"})
	blind := answering(map[string]string{"reason": "NotReady", "why": "the scheduling policies of core are not read yet"})
	denying := newHook(t, "webhook.ns.svc", func(r *admissionv1.AdmissionReview) {
		r.Response.Allowed, r.Response.Result = false, &metav1.Status{Message: "no"}
	})
	empty := newSchedulingWebhook(good.ca)
	empty.Webhooks = nil
	for claim, test := range map[string]struct {
		hook          *hook
		configuration *admissionregistrationv1.MutatingWebhookConfiguration
		want          string
	}{
		"one that works":                      {good, newSchedulingWebhook(good.ca), ""},
		"one that cannot read policies":       {blind, newSchedulingWebhook(blind.ca), "does not change pods (NotReady): the scheduling policies of core are not read yet"},
		"one without a caBundle yet":          {good, newSchedulingWebhook(nil), "has no caBundle yet"},
		"one of another CA":                   {good, newSchedulingWebhook(blind.ca), "certificate signed by unknown authority"},
		"one that refuses a pod like another": {denying, newSchedulingWebhook(denying.ca), "denies a request that consumes no budget: no"},
		"a configuration without webhooks":    {good, empty, "is empty"},
		"a configuration that does not exist": {good, nil, "does not exist"},
	} {
		t.Run(claim, func(t *testing.T) {
			var objects []client.Object
			if test.configuration != nil {
				objects = append(objects, test.configuration)
			}
			checker := newChecker(t, test.hook.Dial, objects)
			checker.SchedulingConfigurations = []string{"hook"}
			if found := checker.Run(t.Context()); !slices.EqualFunc(found, []string{test.want}, isFound) {
				t.Errorf("Run() = %+v, want %q", found, test.want)
			}
		})
	}
	pod, a := &corev1.Pod{}, good.lastRequest
	if a == nil || json.Unmarshal(a.Object.Raw, pod) != nil || len(pod.Spec.Containers) != 1 || pod.Namespace != "ns" || len(pod.Labels) > 0 ||
		a.Kind.Kind != "Pod" || a.Resource.Resource != "pods" || a.Operation != admissionv1.Create || !*a.DryRun || !strings.HasSuffix(good.path, "/schedule") {
		t.Errorf("the webhook received %+v at %s, want a dry run that creates a pod", a, good.path)
	}
}
