package judge

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// What a pod must be to count, as docs/concepts/overview.md states it. This is an independent implementation, not the code under test.

// isGoneOrTerminating reports whether no removal of the pod can consume budget: it does not exist, or is terminating.
func (s podState) isGoneOrTerminating() bool { return s.isDeleted || s.pod.DeletionTimestamp != nil }

func (s podState) isFinished() bool {
	return s.pod.Status.Phase == corev1.PodFailed || s.pod.Status.Phase == corev1.PodSucceeded
}

func (s podState) isScheduled() bool {
	return !s.isGoneOrTerminating() && !s.isFinished() && s.pod.Spec.NodeName != ""
}

func (s podState) isRunning() bool { return s.isScheduled() && s.pod.Status.Phase == corev1.PodRunning }

// readyCondition returns the status of the Ready condition and the time since which it holds; "" if there is none.
func (s podState) readyCondition() (status corev1.ConditionStatus, since time.Time) {
	if s.pod == nil {
		return "", time.Time{}
	}
	for _, c := range s.pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status, c.LastTransitionTime.Time
		}
	}
	return "", time.Time{}
}

// isReady reports whether the pod is running and ready. It counts as available after minReadySeconds.
func (s podState) isReady() bool {
	if !s.isRunning() {
		return false
	}
	status, _ := s.readyCondition()
	return status == corev1.ConditionTrue
}

// isReadinessUnknown reports whether the status does not determine if the pod is ready.
func (s podState) isReadinessUnknown() bool {
	switch status, _ := s.readyCondition(); status {
	case corev1.ConditionFalse:
		return false
	case corev1.ConditionTrue:
		return s.isScheduled() && !s.isRunning()
	case corev1.ConditionUnknown:
		return s.isScheduled()
	default:
		return s.isRunning()
	}
}

// criterion returns the pod's own criterion, or that of the protector.
func (s podState) criterion(p *watchedProtector) v1alpha1.Criterion {
	if own, ok := s.pod.Annotations[v1alpha1.AnnotationCriterion]; ok {
		return v1alpha1.Criterion(own)
	}
	if p.stored.Spec.Criterion != "" {
		return p.stored.Spec.Criterion
	}
	return v1alpha1.CriterionAvailable
}

// meetsCriterion reports whether the pod meets its criterion, apart from minReadySeconds.
func (s podState) meetsCriterion(p *watchedProtector) bool {
	switch s.criterion(p) {
	case v1alpha1.CriterionAvailable, v1alpha1.CriterionReady:
		return s.isReady()
	case v1alpha1.CriterionRunning:
		return s.isRunning()
	case v1alpha1.CriterionScheduled:
		return s.isScheduled()
	default:
		return false
	}
}

// isCountable reports whether the pod counts for a protector, or will when it has been ready for long enough.
func (s podState) isCountable(p *watchedProtector) bool {
	return !s.isGoneOrTerminating() && s.meetsCriterion(p) && p.counts(s.pod)
}

// isAvailable reports whether the pod counts for a protector at a time.
func (s podState) isAvailable(p *watchedProtector, now time.Time) bool {
	return s.isCountable(p) && !now.Before(s.availableAfter(p))
}

// availableAfter returns when a pod that counts, or will count, has been ready for long enough; zero if that takes no time.
func (s podState) availableAfter(p *watchedProtector) time.Time {
	if s.criterion(p) != v1alpha1.CriterionAvailable || p.stored.Spec.MinReadySeconds == 0 {
		return time.Time{}
	}
	_, since := s.readyCondition()
	return since.Add(time.Duration(p.stored.Spec.MinReadySeconds) * time.Second)
}

// isCharged reports whether the removal of the pod consumes budget of a protector. It does for a covered pod that counts, and for a covered
// pod whose status or own criterion does not determine whether it counts.
func (s podState) isCharged(p *watchedProtector, now time.Time) bool {
	if s.isGoneOrTerminating() || !p.covers(s.pod) {
		return false
	}
	switch s.criterion(p) {
	case v1alpha1.CriterionAvailable, v1alpha1.CriterionReady, v1alpha1.CriterionRunning, v1alpha1.CriterionScheduled:
		return s.isAvailable(p, now) || s.isReadinessUnknown()
	default:
		return s.isScheduled()
	}
}

// covers reports whether a protector protects a pod. Selectors of scenarios have labels only.
func (w *watchedProtector) covers(pod *corev1.Pod) bool {
	if w.isTarget() {
		return w.selectsTarget(pod) && w.selects(&v1alpha1.PodSelector{}, pod)
	}
	return w.selects(w.stored.Spec.Selector, pod)
}

// counts reports whether a pod counts for a protector if it meets its criterion.
func (w *watchedProtector) counts(pod *corev1.Pod) bool {
	if more := w.stored.Spec.AggregationSelector; more != nil {
		return w.selects(more, pod)
	}
	return w.covers(pod)
}

// selects reports whether a selector of a protector chooses a pod that is not exempt.
func (w *watchedProtector) selects(selector *v1alpha1.PodSelector, pod *corev1.Pod) bool {
	if pod.Namespace != w.stored.Namespace || !hasLabels(pod.Labels, selector.MatchLabels) {
		return false
	}
	exempt := w.stored.Spec.ExemptPodSelector
	return exempt == nil || !hasLabels(pod.Labels, exempt.MatchLabels)
}
