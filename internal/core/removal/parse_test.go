package removal_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// reviewOf returns the review of an operation on pods or one of their subresources, with the given object.
func reviewOf(operation admissionv1.Operation, subresource, object string) *admissionv1.AdmissionRequest {
	r := &admissionv1.AdmissionRequest{
		Operation: operation, SubResource: subresource, Namespace: "default", Name: "web-0",
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
	}
	if operation == admissionv1.Delete {
		r.OldObject = runtime.RawExtension{Raw: []byte(object)}
	} else {
		r.Object = runtime.RawExtension{Raw: []byte(object)}
	}
	return r
}

func edited(r *admissionv1.AdmissionRequest, change func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionRequest {
	change(r)
	return r
}

func TestParse(t *testing.T) {
	const pod = `{"metadata":{"namespace":"default","name":"web-0","uid":"u","labels":{"app":"web"}},
		"spec":{"nodeName":"n","containers":"of no interest"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	parsed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "u", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}},
	}
	yes, no := true, false
	deleted := removal.Request{Operation: v1alpha1.OperationDelete, Namespace: "default", PodName: "web-0", Pod: removal.NewPod(parsed)}
	evicted := removal.Request{Operation: v1alpha1.OperationEvict, Namespace: "default", PodName: "web-0"}
	asDryRun := func(r removal.Request) removal.Request { r.DryRun = true; return r }
	for claim, test := range map[string]struct {
		review *admissionv1.AdmissionRequest
		want   removal.Request
	}{
		"a deletion": {reviewOf(admissionv1.Delete, "", pod), deleted},
		"a deletecollection, which has the name only in oldObject": {
			edited(reviewOf(admissionv1.Delete, "", pod), func(r *admissionv1.AdmissionRequest) { r.Name = "" }), deleted},
		"an oldObject without a namespace, which is in the namespace of the request": {
			reviewOf(admissionv1.Delete, "", strings.Replace(pod, `"namespace":"default",`, "", 1)),
			removal.Request{Operation: v1alpha1.OperationDelete, Namespace: "default", PodName: "web-0",
				Pod: func() *removal.Pod { p := parsed.DeepCopy(); p.Namespace = ""; return removal.NewPod(p) }()}},
		"an oldObject with repeated fields and unusual case": {
			reviewOf(admissionv1.Delete, "", strings.Replace(pod, `"uid"`,
				`"annotations":{"a":"`+"\xff"+`"},"managedFields":[{"fieldsV1":{"f:name":{},"f:name":{}}}],"uid"`, 1)), deleted},
		"a pod with its own criterion": {
			reviewOf(admissionv1.Delete, "", strings.Replace(pod, `"uid"`, `"annotations":{"a":"b","breakwater.dev/criterion":"Running"},"uid"`, 1)),
			removal.Request{Operation: v1alpha1.OperationDelete, Namespace: "default", PodName: "web-0", Pod: func() *removal.Pod {
				p := parsed.DeepCopy()
				p.Annotations = map[string]string{v1alpha1.AnnotationCriterion: "Running"}
				return removal.NewPod(p)
			}()}},
		"an eviction with a criterion": {
			reviewOf(admissionv1.Create, "eviction", `{"metadata":{"name":"web-0","annotations":{"breakwater.dev/criterion":"Running"}}}`),
			removal.Request{Operation: v1alpha1.OperationEvict, Namespace: "default", PodName: "web-0", Criterion: v1alpha1.CriterionRunning}},
		"a dry run of a deletion": {edited(reviewOf(admissionv1.Delete, "", pod), func(r *admissionv1.AdmissionRequest) { r.DryRun = &yes }), asDryRun(deleted)},
		"dryRun is false":         {edited(reviewOf(admissionv1.Delete, "", pod), func(r *admissionv1.AdmissionRequest) { r.DryRun = &no }), deleted},
		"an eviction":             {reviewOf(admissionv1.Create, "eviction", `{"metadata":{"name":"web-0"}}`), evicted},
		"an eviction of policy/v1beta1": {reviewOf(admissionv1.Create, "eviction",
			`{"apiVersion":"policy/v1beta1","kind":"Eviction","metadata":{"name":"web-0"}}`), evicted},
		"an eviction without an object": {reviewOf(admissionv1.Create, "eviction", ""), evicted},
		"an eviction with the name only in its object": {
			edited(reviewOf(admissionv1.Create, "eviction", `{"metadata":{"name":"web-0"}}`), func(r *admissionv1.AdmissionRequest) { r.Name = "" }), evicted},
		"a dry run of an eviction by its own options": {
			reviewOf(admissionv1.Create, "eviction", `{"metadata":{"name":"web-0"},"deleteOptions":{"dryRun":["All"]}}`), asDryRun(evicted)},
		"an eviction with other options": {
			reviewOf(admissionv1.Create, "eviction", `{"metadata":{"name":"web-0"},"deleteOptions":{"gracePeriodSeconds":0}}`), evicted},
	} {
		t.Run(claim, func(t *testing.T) {
			got, guarded, err := removal.Parse(test.review)
			if err != nil || !guarded {
				t.Fatalf("Parse() guarded = %v, error = %v", guarded, err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreUnexported(removal.Request{}), cmp.AllowUnexported(podhealth.Facts{})); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseIgnoresOtherRequests(t *testing.T) {
	other := func(group, resource string) *admissionv1.AdmissionRequest {
		return edited(reviewOf(admissionv1.Delete, "", "{}"), func(r *admissionv1.AdmissionRequest) {
			r.Resource.Group, r.Resource.Resource = group, resource
		})
	}
	for claim, review := range map[string]*admissionv1.AdmissionRequest{
		"the creation of a pod":       reviewOf(admissionv1.Create, "", "{}"),
		"a change of its containers":  reviewOf(admissionv1.Update, "ephemeralcontainers", "{}"),
		"a creation of its status":    reviewOf(admissionv1.Create, "status", "{}"),
		"a connection to it":          reviewOf(admissionv1.Connect, "exec", "{}"),
		"a deletion of a subresource": reviewOf(admissionv1.Delete, "eviction", "{}"),
		"a deletion of nodes":         other("", "nodes"),
		"pods of another group":       other("metrics.k8s.io", "pods"),
	} {
		if got, guarded, err := removal.Parse(review); guarded || err != nil {
			t.Errorf("%s: Parse() = %+[3]v, guarded %[2]v, error %[4]v, want an unguarded request", claim, guarded, got, err)
		}
	}
}

// A review of an API server stays within the bounds. Parse rejects any other before any part of it is stored, and its error stays
// short.
func TestParseRejectsOversizedFields(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	pod := func(metadata, spec string) string {
		return fmt.Sprintf(`{"metadata":{"namespace":"default","name":"web-0","uid":"u"%s},"spec":{%s}}`, metadata, spec)
	}
	for claim, test := range map[string]struct {
		review *admissionv1.AdmissionRequest
		want   string // "" is no error
	}{
		"the longest node name":  {reviewOf(admissionv1.Delete, "", pod("", `"nodeName":"`+long(253)+`"`)), ""},
		"a longer node name":     {reviewOf(admissionv1.Delete, "", pod("", `"nodeName":"`+long(254)+`"`)), "node name of the pod has 254 bytes"},
		"the longest UID":        {reviewOf(admissionv1.Delete, "", pod(`,"uid":"`+long(128)+`"`, "")), ""},
		"a longer UID":           {reviewOf(admissionv1.Delete, "", pod(`,"uid":"`+long(129)+`"`, "")), "UID of the pod has 129 bytes"},
		"a name of a megabyte":   {reviewOf(admissionv1.Delete, "", pod(`,"name":"`+long(1<<20)+`"`, "")), "name of the pod has 1048576 bytes"},
		"a long namespace":       {reviewOf(admissionv1.Delete, "", pod(`,"namespace":"`+long(64)+`"`, "")), "namespace of the pod has 64 bytes"},
		"a long version":         {reviewOf(admissionv1.Delete, "", pod(`,"resourceVersion":"`+long(65)+`"`, "")), "resourceVersion of the pod has 65 bytes"},
		"the longest label":      {reviewOf(admissionv1.Delete, "", pod(`,"labels":{"`+long(253)+"/"+long(63)+`":"`+long(63)+`"}`, "")), ""},
		"a longer label key":     {reviewOf(admissionv1.Delete, "", pod(`,"labels":{"`+long(318)+`":""}`, "")), "label key of the pod has 318 bytes"},
		"a longer label value":   {reviewOf(admissionv1.Delete, "", pod(`,"labels":{"a":"`+long(64)+`"}`, "")), "label value of the pod has 64 bytes"},
		"a reason of a megabyte": {reviewOf(admissionv1.Delete, "", pod(`,"annotations":{"breakwater.dev/force-delete":"true","breakwater.dev/force-delete-reason":"`+long(1<<20)+`"}`, "")), "annotations of the pod have"},
		"an eviction of a long name": {edited(reviewOf(admissionv1.Create, "eviction", ""), func(r *admissionv1.AdmissionRequest) {
			r.Name = long(254)
		}), "name of the pod has 254 bytes"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, guarded, err := removal.Parse(test.review)
			switch {
			case !guarded, test.want == "" && err != nil, test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("Parse() guarded = %v, error = %v, want an error with %q", guarded, err, test.want)
			case err != nil && len(err.Error()) > 200:
				t.Errorf("error has %d bytes, want at most 200", len(err.Error()))
			}
		})
	}
}

func TestParseRejectsMalformedReviews(t *testing.T) {
	for claim, test := range map[string]struct {
		review *admissionv1.AdmissionRequest
		want   string
	}{
		"no oldObject":              {reviewOf(admissionv1.Delete, "", ""), `deletion of pod "web-0" has no oldObject`},
		"oldObject is null":         {reviewOf(admissionv1.Delete, "", "null"), "names no pod"},
		"oldObject is truncated":    {reviewOf(admissionv1.Delete, "", `{"metadata":`), "oldObject of the deletion"},
		"labels are not strings":    {reviewOf(admissionv1.Delete, "", `{"metadata":{"labels":{"app":1}}}`), "oldObject of the deletion"},
		"invalid deletionTimestamp": {reviewOf(admissionv1.Delete, "", `{"metadata":{"deletionTimestamp":"soon"}}`), "oldObject of the deletion"},
		"conditions are not a list": {reviewOf(admissionv1.Delete, "", `{"status":{"conditions":"Ready"}}`), "oldObject of the deletion"},
		"malformed options of a deletion": {
			edited(reviewOf(admissionv1.Delete, "", `{"metadata":{"namespace":"default","name":"web-0"}}`), func(r *admissionv1.AdmissionRequest) {
				r.Options.Raw = []byte(`{"gracePeriodSeconds":"none"}`)
			}), `options of the deletion of pod "web-0"`},
		"an update without oldObject":               {reviewOf(admissionv1.Update, "", "{}"), `update of pod "web-0" has no oldObject`},
		"an update of the status without oldObject": {reviewOf(admissionv1.Update, "status", "{}"), `update of pod "web-0" has no oldObject`},
		"a truncated update of the status": {edited(reviewOf(admissionv1.Update, "status", "{"), func(r *admissionv1.AdmissionRequest) {
			r.OldObject = runtime.RawExtension{Raw: []byte("{}")}
		}), "object of the update"},
		"a truncated update": {edited(reviewOf(admissionv1.Update, "", "{"), func(r *admissionv1.AdmissionRequest) {
			r.OldObject = runtime.RawExtension{Raw: []byte("{}")}
		}), "object of the update"},
		"the pod has no name":           {reviewOf(admissionv1.Delete, "", `{"metadata":{"namespace":"default"}}`), `names no pod: namespace "default", name ""`},
		"a truncated eviction":          {reviewOf(admissionv1.Create, "eviction", "{"), `eviction of pod "web-0"`},
		"an eviction without namespace": {edited(reviewOf(admissionv1.Create, "eviction", ""), func(r *admissionv1.AdmissionRequest) { r.Namespace = "" }), `names no pod: namespace "", name "web-0"`},
	} {
		t.Run(claim, func(t *testing.T) {
			_, guarded, err := removal.Parse(test.review)
			if !guarded || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Parse() guarded = %v, error = %v, want an error with %q", guarded, err, test.want)
			}
		})
	}
}
