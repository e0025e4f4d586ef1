package webhook

import (
	"encoding/json"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Request is what a review asks: to remove a pod.
type Request struct {
	Operation v1alpha1.Operation
	Namespace string
	PodName   string
	// Pod is the pod as the apiserver has it, without the parts that no decision needs; nil for an eviction,
	// whose review does not carry it.
	Pod *corev1.Pod
	// DryRun asks for the answer only.
	DryRun bool
}

// Parse reads the request of a review. guarded is false for what Breakwater does not guard. An error is a
// malformed review.
func Parse(review *admissionv1.AdmissionRequest) (request Request, guarded bool, err error) {
	request.DryRun = review.DryRun != nil && *review.DryRun
	pods := review.Resource.Group == "" && review.Resource.Resource == "pods"
	switch {
	case pods && review.SubResource == "" && review.Operation == admissionv1.Delete:
		request.Operation = v1alpha1.OperationDelete
		err = request.parseDelete(review)
	case pods && review.SubResource == "eviction" && review.Operation == admissionv1.Create:
		request.Operation = v1alpha1.OperationEvict
		err = request.parseEviction(review)
	default:
		return Request{}, false, nil
	}
	if err == nil && (request.Namespace == "" || request.PodName == "") {
		err = fmt.Errorf("the review of %s names no pod: namespace %q, name %q",
			request.Operation, request.Namespace, request.PodName)
	}
	return request, true, err
}

// parseDelete reads everything from oldObject: in a deletecollection the request itself has no name.
func (r *Request) parseDelete(review *admissionv1.AdmissionRequest) error {
	if len(review.OldObject.Raw) == 0 {
		return fmt.Errorf("the review of the deletion of pod %q has no oldObject", review.Name)
	}
	var old struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			NodeName string `json:"nodeName"`
		} `json:"spec"`
		Status struct {
			Phase      corev1.PodPhase       `json:"phase"`
			Conditions []corev1.PodCondition `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(review.OldObject.Raw, &old); err != nil {
		return fmt.Errorf("oldObject of the deletion of pod %q: %w", review.Name, err)
	}
	r.Pod = &corev1.Pod{ObjectMeta: old.Metadata}
	r.Pod.Spec.NodeName = old.Spec.NodeName
	r.Pod.Status.Phase, r.Pod.Status.Conditions = old.Status.Phase, old.Status.Conditions
	r.Namespace, r.PodName = old.Metadata.Namespace, old.Metadata.Name
	if r.Namespace == "" {
		r.Namespace = review.Namespace
	}
	return nil
}

func (r *Request) parseEviction(review *admissionv1.AdmissionRequest) error {
	r.Namespace, r.PodName = review.Namespace, review.Name
	if len(review.Object.Raw) == 0 {
		return nil
	}
	var eviction policyv1.Eviction
	if err := json.Unmarshal(review.Object.Raw, &eviction); err != nil {
		return fmt.Errorf("eviction of pod %q: %w", review.Name, err)
	}
	if r.PodName == "" {
		r.PodName = eviction.Name
	}
	// An eviction can ask for a dry run in its own options, which the review does not tell.
	if eviction.DeleteOptions != nil && len(eviction.DeleteOptions.DryRun) > 0 {
		r.DryRun = true
	}
	return nil
}
