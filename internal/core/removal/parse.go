package removal

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
)

// DecodeJSON parses JSON like encoding/json, except that names are case-sensitive. It takes a third of the CPU time, which dominates the
// cost of a review. It must accept everything that the API server has stored: a pod that is denied because of an invalid byte could
// never be removed.
func DecodeJSON(raw []byte, into any) error {
	return json.Unmarshal(raw, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// reviewedPod has the fields of a pod that a decision needs. A whole pod has about ten kilobytes.
type reviewedPod struct {
	Metadata struct {
		Namespace         string            `json:"namespace"`
		Name              string            `json:"name"`
		UID               types.UID         `json:"uid"`
		ResourceVersion   string            `json:"resourceVersion"`
		Labels            map[string]string `json:"labels"`
		DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
		Annotations       struct {
			// Criterion is nil if the pod has no AnnotationCriterion.
			Criterion *string `json:"breakwater.dev/criterion"`
			// ForceDelete is nil if the pod has no AnnotationForceDelete.
			ForceDelete *string `json:"breakwater.dev/force-delete"`
			ForceReason *string `json:"breakwater.dev/force-delete-reason"`
		} `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		NodeName                      string `json:"nodeName"`
		TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds"`
	} `json:"spec"`
	Status struct {
		Phase      corev1.PodPhase `json:"phase"`
		Conditions []struct {
			Type               corev1.PodConditionType `json:"type"`
			Status             corev1.ConditionStatus  `json:"status"`
			LastTransitionTime metav1.Time             `json:"lastTransitionTime"`
		} `json:"conditions"`
	} `json:"status"`
}

func (p *reviewedPod) pod() *Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = p.Metadata.Namespace, p.Metadata.Name, p.Metadata.UID
	pod.Labels, pod.DeletionTimestamp = p.Metadata.Labels, p.Metadata.DeletionTimestamp
	pod.ResourceVersion = p.Metadata.ResourceVersion
	if own := p.Metadata.Annotations.Criterion; own != nil {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationCriterion, *own)
	}
	if force := p.Metadata.Annotations.ForceDelete; force != nil {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationForceDelete, *force)
		if reason := p.Metadata.Annotations.ForceReason; reason != nil {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationForceReason, *reason)
		}
	}
	pod.Spec.NodeName, pod.Status.Phase = p.Spec.NodeName, p.Status.Phase
	pod.Spec.TerminationGracePeriodSeconds = p.Spec.TerminationGracePeriodSeconds
	for _, c := range p.Status.Conditions {
		pod.Status.Conditions = append(pod.Status.Conditions,
			corev1.PodCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
	}
	return NewPod(pod)
}

// Pod is a pod with the facts that its health is computed from, which every step of a decision uses. It does not change: another state of the
// pod is another Pod.
type Pod struct {
	*corev1.Pod
	Facts podhealth.Facts
}

// NewPod returns a pod with its facts.
func NewPod(pod *corev1.Pod) *Pod { return &Pod{Pod: pod, Facts: podhealth.FactsOf(pod)} }

// Request is the request of a review: to remove a pod, to make it unavailable for a while, or to change its coverage.
type Request struct {
	Operation v1alpha1.Operation
	Namespace string
	PodName   string
	// Pod is the pod as stored in the API server, without fields that no decision needs. It is nil for an eviction, whose review does
	// not contain it.
	Pod *Pod
	// Criterion is the criterion of an eviction: the removal also consumes budget if the pod meets only this criterion. Empty means
	// none.
	Criterion v1alpha1.Criterion
	// gracePeriodSeconds is the grace period that the client of a removal asks for; nil if it asks for none. See IsImmediate.
	gracePeriodSeconds *int64
	// preconditions are those of an eviction; nil if it has none. See FailedPrecondition.
	preconditions *metav1.Preconditions
	// Generation is the pod's generation after an update, and Containers are those that it restarts. They are 0 and nil for a removal.
	Generation int64
	Containers []v1alpha1.ContainerRestarts
	// Relabeled is the pod with its new labels and annotations. It is nil if none that determine coverage change. A Relabel without it
	// removes the pod from the coverage of every protector. An Update or a Resize can have it as well.
	Relabeled *Pod
	// User is the requesting user.
	User string
	// DryRun requests only the answer.
	DryRun bool
	// raw is the pod in the review; nil for an eviction.
	raw []byte
}

// Controller returns the pod's controller, or nil if it has none. It parses the pod again, so it is called only for a denied request.
func (r Request) Controller() *metav1.OwnerReference {
	if r.raw == nil {
		return metav1.GetControllerOf(r.Pod.Pod)
	}
	owned := struct {
		Metadata struct {
			OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
		} `json:"metadata"`
	}{}
	if err := DecodeJSON(r.raw, &owned); err != nil {
		return nil
	}
	return metav1.GetControllerOf(&metav1.ObjectMeta{OwnerReferences: owned.Metadata.OwnerReferences})
}

// OperationOf returns the operation of a review of a pod, based on its resource and operation alone. It returns a deletion for
// operations that Breakwater does not guard. Only the pod distinguishes an Update from a Relabel: see Parse.
func OperationOf(review *admissionv1.AdmissionRequest) v1alpha1.Operation {
	switch {
	case review.SubResource == "eviction":
		return v1alpha1.OperationEvict
	case review.SubResource == "resize":
		return v1alpha1.OperationResize
	case review.SubResource == "status":
		return v1alpha1.OperationRelabel
	case review.Operation == admissionv1.Update:
		return v1alpha1.OperationUpdate
	default:
		return v1alpha1.OperationDelete
	}
}

// Parse parses the request of a review. guarded is false for requests that Breakwater does not guard. An error means a malformed
// review.
func Parse(review *admissionv1.AdmissionRequest) (request Request, guarded bool, err error) {
	request.DryRun, request.User = review.DryRun != nil && *review.DryRun, review.UserInfo.Username
	pods := review.Resource.Group == "" && review.Resource.Resource == "pods"
	switch {
	case pods && review.SubResource == "" && review.Operation == admissionv1.Delete:
		request.Operation = OperationOf(review)
		err = errors.Join(request.parsePod(review, "deletion"), request.parseDeleteOptions(review))
	case pods && review.SubResource == "eviction" && review.Operation == admissionv1.Create:
		request.Operation = OperationOf(review)
		err = request.parseEviction(review)
	case pods && (review.SubResource == "" || review.SubResource == "resize") && review.Operation == admissionv1.Update:
		request.Operation = OperationOf(review)
		if disruptive, err := request.parseUpdate(review); err == nil && !disruptive {
			return Request{}, false, nil
		} else if err != nil {
			return request, true, err
		}
	case pods && review.SubResource == "status" && review.Operation == admissionv1.Update:
		request.Operation = OperationOf(review)
		if err := request.parseStatusUpdate(review); err != nil {
			return request, true, err
		}
		if request.Relabeled == nil {
			return Request{}, false, nil
		}
	default:
		return Request{}, false, nil
	}
	if err == nil && (request.Namespace == "" || request.PodName == "") {
		err = fmt.Errorf("the review of %s names no pod: namespace %q, name %q",
			request.Operation, request.Namespace, request.PodName)
	}
	if err == nil {
		err = request.checkBounds()
	}
	return request, true, err
}

// parsePod reads the pod from oldObject, because the request of a deletecollection has no name.
func (r *Request) parsePod(review *admissionv1.AdmissionRequest, operation string) error {
	if len(review.OldObject.Raw) == 0 {
		return fmt.Errorf("the review of the %s of pod %q has no oldObject", operation, review.Name)
	}
	reviewed := reviewedPod{}
	if err := DecodeJSON(review.OldObject.Raw, &reviewed); err != nil {
		return fmt.Errorf("oldObject of the %s of pod %q: %w", operation, review.Name, err)
	}
	r.Pod, r.raw = reviewed.pod(), review.OldObject.Raw
	r.Namespace, r.PodName = r.Pod.Namespace, r.Pod.Name
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
	if err := DecodeJSON(review.Object.Raw, &eviction); err != nil {
		return fmt.Errorf("eviction of pod %q: %w", review.Name, err)
	}
	if r.PodName == "" {
		r.PodName = eviction.Name
	}
	r.Criterion = parseCriterion(eviction.Annotations)
	if options := eviction.DeleteOptions; options != nil {
		// An eviction can request a dry run in its own options, which the review's dryRun does not reflect.
		r.DryRun = r.DryRun || len(options.DryRun) > 0
		r.gracePeriodSeconds, r.preconditions = options.GracePeriodSeconds, options.Preconditions
	}
	return nil
}

func (r *Request) parseDeleteOptions(review *admissionv1.AdmissionRequest) error {
	if len(review.Options.Raw) == 0 {
		return nil
	}
	options := struct {
		GracePeriodSeconds *int64 `json:"gracePeriodSeconds"`
	}{}
	if err := DecodeJSON(review.Options.Raw, &options); err != nil {
		return fmt.Errorf("options of the deletion of pod %q: %w", review.Name, err)
	}
	r.gracePeriodSeconds = options.GracePeriodSeconds
	return nil
}

// parseCriterion returns the criterion of an eviction. An unsupported value is the widest criterion, which consumes the most budget.
func parseCriterion(annotations map[string]string) v1alpha1.Criterion {
	text, given := annotations[v1alpha1.AnnotationCriterion]
	if !given {
		return ""
	}
	switch criterion := v1alpha1.Criterion(text); criterion {
	case v1alpha1.CriterionAvailable, v1alpha1.CriterionReady, v1alpha1.CriterionRunning:
		return criterion
	default:
		return v1alpha1.CriterionScheduled
	}
}
