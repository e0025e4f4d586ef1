package removal

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
)

// parseRelabel reads what a change of a pod makes of the labels and the annotation that decide which protectors cover the pod, and
// whether it counts. guard.RemovalConditions names the same ones.
func (r *Request) parseRelabel(review *admissionv1.AdmissionRequest) error {
	asked := podAsked{}
	if err := Read(review.Object.Raw, &asked); err != nil {
		return fmt.Errorf("object of the update of pod %q: %w", review.Name, err)
	}
	after := asked.pod()
	was, is := criterionText(r.Pod), criterionText(after)
	if maps.Equal(r.Pod.Labels, after.Labels) && was == is {
		return nil
	}
	r.Relabeled = after
	return nil
}

// criterionText is a pod's own criterion; that of a pod without one is a text that no annotation of ours has.
func criterionText(pod *corev1.Pod) string {
	if text, given := pod.Annotations[v1alpha1.AnnotationCriterion]; given {
		return "=" + text
	}
	return ""
}

// loses reports whether a protector that covers a pod loses it by a relabel: it does not cover the pod any more, or does not count it.
// Labels and annotations change nothing of the pod's health but the criterion that it is judged by.
func (c Charge) loses(r Request, cell string, now time.Time) bool {
	if r.Relabeled == nil || c.LeavesCell || !CoverageIn(c.Protector, cell).Covers(r.Relabeled.Labels) {
		return true
	}
	if criterionText(r.Pod) == criterionText(r.Relabeled) {
		return false
	}
	return !c.Health(podhealth.FactsOf(r.Relabeled), cell, now).Counted(c.Protector.Spec.Criterion)
}

// relabels reports whether a request changes what covers the pod.
func (r Request) relabels() bool {
	return r.Relabeled != nil || r.Operation == v1alpha1.OperationRelabel
}

// podVersion is the version of the pod that was reviewed. One that is not a number is later than all others, so that no snapshot is later.
func (r Request) podVersion() int64 {
	version, err := strconv.ParseInt(r.Pod.ResourceVersion, 10, 64)
	if err != nil || version <= 0 {
		return math.MaxInt64
	}
	return version
}
