package check_test

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/check"
)

// newRingWebhook makes the API server call the sharder for a ring.
func newRingWebhook(ca []byte) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "breakwater-ring-shops", Labels: map[string]string{v1alpha1.LabelRing: "shops"}},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "assign.rings.breakwater.dev", ClientConfig: configuration(ca, "").Webhooks[0].ClientConfig,
			Rules: []admissionregistrationv1.RuleWithOperations{{Rule: admissionregistrationv1.Rule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}}}},
		}},
	}
}

func TestRunReportsRings(t *testing.T) {
	good := newHook(t, "webhook.ns.svc", func(*admissionv1.AdmissionReview) {})
	another := newHook(t, "another.ns.svc", func(*admissionv1.AdmissionReview) {})
	ring := func(conditions ...metav1.Condition) *v1alpha1.ClusterRing {
		return &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: "shops"}, Status: v1alpha1.ClusterRingStatus{Conditions: conditions}}
	}
	ready, available := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue}, metav1.Condition{Type: "ShardsAvailable", Status: metav1.ConditionTrue}
	none := metav1.Condition{Type: "ShardsAvailable", Status: metav1.ConditionFalse, Reason: "NoShards", Message: "no Lease"}
	for claim, test := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		"no ring":                          {nil, []string{""}},
		"a ring that works":                {[]client.Object{ring(ready, available), newRingWebhook(good.ca)}, []string{"", "", ""}},
		"a ring without objects":           {[]client.Object{ring(ready, available)}, []string{"", ""}},
		"a ring without a sharder":         {[]client.Object{ring()}, []string{"", "check that the sharder runs"}},
		"a ring without shards":            {[]client.Object{ring(ready, none)}, []string{"", "ShardsAvailable=False (NoShards): no Lease"}},
		"a sharder of another CA":          {[]client.Object{ring(ready, available), newRingWebhook(another.ca)}, []string{"", "", "certificate signed by unknown authority"}},
		"a sharder without a caBundle yet": {[]client.Object{ring(ready, available), newRingWebhook(nil)}, []string{"", "", "has no caBundle yet"}},
	} {
		t.Run(claim, func(t *testing.T) {
			checker := newChecker(t, good.Dial, test.objects)
			checker.Rings = true
			if found := checker.Run(t.Context()); !slices.EqualFunc(found, test.want, isFound) {
				t.Errorf("Run() = %+v, want %q", found, test.want)
			}
		})
	}
	if a := good.lastRequest; a == nil || a.Operation != admissionv1.Create || a.Resource.Group != "apps" || a.Resource.Resource != "deployments" || !*a.DryRun {
		t.Errorf("the sharder received %+v, want a dry run that creates a Deployment", a)
	}
}

func isFound(f check.Finding, want string) bool {
	return strings.Contains(f.Problem, want) && (f.Problem == "") == (want == "")
}
