package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// What a pod must be to count, as docs/concepts.md states it. This is an independent implementation, not the code under test.

// over reports whether no removal of the pod can consume budget: it does not exist, or is terminating.
func (s podState) over() bool { return s.gone || s.pod.DeletionTimestamp != nil }

func (s podState) finished() bool {
	return s.pod.Status.Phase == corev1.PodFailed || s.pod.Status.Phase == corev1.PodSucceeded
}

func (s podState) scheduled() bool { return !s.over() && !s.finished() && s.pod.Spec.NodeName != "" }

func (s podState) running() bool { return s.scheduled() && s.pod.Status.Phase == corev1.PodRunning }

// isReady returns the status of the Ready condition and the time since which it holds; "" if there is none.
func (s podState) isReady() (status corev1.ConditionStatus, since time.Time) {
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

// ready reports whether the pod is running and ready. It counts as available after minReadySeconds.
func (s podState) ready() bool {
	if !s.running() {
		return false
	}
	status, _ := s.isReady()
	return status == corev1.ConditionTrue
}

// isDoubtful reports whether the status does not determine if the pod is ready.
func (s podState) isDoubtful() bool {
	switch status, _ := s.isReady(); status {
	case corev1.ConditionFalse:
		return false
	case corev1.ConditionTrue:
		return s.scheduled() && !s.running()
	case corev1.ConditionUnknown:
		return s.scheduled()
	default:
		return s.running()
	}
}

// criterion returns the pod's own criterion, or that of the protector.
func (s podState) criterion(p *watched) v1alpha1.Criterion {
	if own, ok := s.pod.Annotations[v1alpha1.AnnotationCriterion]; ok {
		return v1alpha1.Criterion(own)
	}
	if p.stored.Spec.Criterion != "" {
		return p.stored.Spec.Criterion
	}
	return v1alpha1.CriterionAvailable
}

// meets reports whether the pod meets its criterion, apart from minReadySeconds.
func (s podState) meets(p *watched) bool {
	switch s.criterion(p) {
	case v1alpha1.CriterionAvailable, v1alpha1.CriterionReady:
		return s.ready()
	case v1alpha1.CriterionRunning:
		return s.running()
	case v1alpha1.CriterionScheduled:
		return s.scheduled()
	default:
		return false
	}
}

// countable reports whether the pod counts for a protector, or will when it has been ready for long enough.
func (s podState) countable(p *watched) bool { return !s.over() && s.meets(p) && p.counts(s.pod) }

// available reports whether the pod counts for a protector at a time.
func (s podState) available(p *watched, now time.Time) bool {
	return s.countable(p) && !now.Before(s.agedSince(p))
}

// agedSince returns when a pod that counts, or will count, has been ready for long enough; zero if that takes no time.
func (s podState) agedSince(p *watched) time.Time {
	if s.criterion(p) != v1alpha1.CriterionAvailable || p.stored.Spec.MinReadySeconds == 0 {
		return time.Time{}
	}
	_, since := s.isReady()
	return since.Add(time.Duration(p.stored.Spec.MinReadySeconds) * time.Second)
}

// charged reports whether the removal of the pod consumes budget of a protector. It does for a covered pod that counts, and for a covered
// pod whose status or own criterion does not determine whether it counts.
func (s podState) charged(p *watched, now time.Time) bool {
	if s.over() || !p.covers(s.pod) {
		return false
	}
	switch s.criterion(p) {
	case v1alpha1.CriterionAvailable, v1alpha1.CriterionReady, v1alpha1.CriterionRunning, v1alpha1.CriterionScheduled:
		return s.available(p, now) || s.isDoubtful()
	default:
		return s.scheduled()
	}
}

// covers reports whether a protector protects a pod. Selectors of scenarios have labels only.
func (w *watched) covers(pod *corev1.Pod) bool { return w.chooses(w.stored.Spec.Selector, pod) }

// counts reports whether a pod counts for a protector if it meets its criterion.
func (w *watched) counts(pod *corev1.Pod) bool {
	if more := w.stored.Spec.AggregationSelector; more != nil {
		return w.chooses(more, pod)
	}
	return w.covers(pod)
}

// chooses reports whether a selector of a protector chooses a pod that is not exempt.
func (w *watched) chooses(selector *v1alpha1.PodSelector, pod *corev1.Pod) bool {
	if pod.Namespace != w.stored.Namespace || !matches(selector, pod) {
		return false
	}
	exempt := w.stored.Spec.ExemptPodSelector
	return exempt == nil || !matches(exempt, pod)
}

func matches(selector *v1alpha1.PodSelector, pod *corev1.Pod) bool {
	for key, value := range selector.MatchLabels {
		if got, ok := pod.Labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}
