package removal

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// parseStatusUpdate parses a pod before and after a change of its status, which can relabel the pod as well (rule 14). The API server
// ignores a spec in such a request.
func (r *Request) parseStatusUpdate(review *admissionv1.AdmissionRequest) error {
	if err := r.parsePod(review, "update"); err != nil {
		return err
	}
	return r.parseRelabel(review)
}

// parseRelabel sets Relabeled if an update changes the labels or the annotation that determine which protectors cover the pod, and
// whether it counts. webhookconfig.RemovalConditions has the same fields.
func (r *Request) parseRelabel(review *admissionv1.AdmissionRequest) error {
	asked := reviewedPod{}
	if err := DecodeJSON(review.Object.Raw, &asked); err != nil {
		return fmt.Errorf("object of the update of pod %q: %w", review.Name, err)
	}
	after := asked.pod()
	was, is := criterionText(r.Pod), criterionText(after)
	if maps.Equal(r.Pod.Labels, after.Labels) && was == is {
		return nil
	}
	// The stored status is decisive. An update of the status could otherwise claim the state that the new criterion requires.
	relabeled := *r.Pod.Pod
	relabeled.Labels, relabeled.Annotations = after.Labels, after.Annotations
	r.Relabeled = NewPod(&relabeled)
	return nil
}

// criterionText returns a text for a pod's own criterion. For a pod without one, it returns a text that no annotation results in.
func criterionText(pod *Pod) string {
	if text, given := pod.Annotations[v1alpha1.AnnotationCriterion]; given {
		return "=" + text
	}
	return ""
}

// losesPod reports whether a protector loses a covered pod by a relabel: it no longer covers the pod, or no longer counts it. Of the
// pod's health, labels and annotations change only the criterion.
func (c Charge) losesPod(r Request, cell string, now time.Time) bool {
	if r.Relabeled == nil || c.LeavesCell {
		return true
	}
	switch coverage, known := knownCoverage(c.Protector, cell); {
	case !known && !maps.Equal(r.Pod.Labels, r.Relabeled.Labels): // any label may be one of the selector
		return true
	case known && coverage.Covers(r.Pod.Labels) && !coverage.Covers(r.Relabeled.Labels):
		return true
	}
	if criterionText(r.Pod) == criterionText(r.Relabeled) {
		return false
	}
	return !r.Relabeled.Facts.At(c.Protector.Spec.MinReadySeconds, notAfterCount(c.Protector, cell, now)).Counted(c.Protector.Spec.Criterion)
}

// changesCoverage reports whether a request changes the coverage of the pod.
func (r Request) changesCoverage() bool {
	return r.Relabeled != nil || r.Operation == v1alpha1.OperationRelabel
}

// reviewedVersion returns the reviewed version of the pod. A version that is not a number is the maximum, so that no snapshot is later.
func (r Request) reviewedVersion() int64 {
	version, err := strconv.ParseInt(r.Pod.ResourceVersion, 10, 64)
	if err != nil || version <= 0 {
		return math.MaxInt64
	}
	return version
}
