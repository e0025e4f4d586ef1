package podhealth_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func pod(phase corev1.PodPhase, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{}
	p.Spec.NodeName = "node-1"
	p.Status.Phase = phase
	for _, change := range changes {
		change(p)
	}
	return p
}

func ready(status corev1.ConditionStatus, age time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(now.Add(-age))},
		}
	}
}

func undated(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func terminating(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }
func unscheduled(p *corev1.Pod) { p.Spec.NodeName = "" }

func TestOf(t *testing.T) {
	running := podhealth.Health{Scheduled: true, Running: true}
	available := podhealth.Health{Scheduled: true, Running: true, Ready: true, Available: true}
	for claim, test := range map[string]struct {
		pod      *corev1.Pod
		minReady int32
		want     podhealth.Health
	}{
		"a ready pod is available": {pod(corev1.PodRunning, ready("True", 0)), 0, available},
		"a pod ready for just minReadySeconds counts": {pod(corev1.PodRunning, ready("True", 10*time.Second)), 10,
			podhealth.Health{Scheduled: true, Running: true, Ready: true, Available: true, AvailableSince: now}},
		"an older pod has the time since which it is available": {pod(corev1.PodRunning, ready("True", 15*time.Second)), 10,
			podhealth.Health{Scheduled: true, Running: true, Ready: true, Available: true, AvailableSince: now.Add(-5 * time.Second)}},
		"an unready pod is running":                                 {pod(corev1.PodRunning, ready("False", time.Hour)), 0, running},
		"a terminating pod has no state":                            {pod(corev1.PodRunning, ready("True", time.Hour), terminating), 0, podhealth.Health{}},
		"a failed pod does not count as scheduled":                  {pod(corev1.PodFailed, ready("True", time.Hour)), 0, podhealth.Health{}},
		"a succeeded pod does not count as scheduled":               {pod(corev1.PodSucceeded), 0, podhealth.Health{}},
		"an unscheduled pod has no state":                           {pod(corev1.PodPending, unscheduled), 0, podhealth.Health{}},
		"a pending pod is scheduled and not doubtful":               {pod(corev1.PodPending), 0, podhealth.Health{Scheduled: true}},
		"a running pod without a condition is doubtful":             {pod(corev1.PodRunning), 0, podhealth.Health{Scheduled: true, Running: true, Doubtful: true}},
		"an unknown readiness is doubtful":                          {pod(corev1.PodRunning, ready("Unknown", 0)), 0, podhealth.Health{Scheduled: true, Running: true, Doubtful: true}},
		"ready in a phase other than Running is doubtful":           {pod(corev1.PodUnknown, ready("True", time.Hour)), 0, podhealth.Health{Scheduled: true, Doubtful: true}},
		"readiness without a time suffices without minReadySeconds": {pod(corev1.PodRunning, undated), 0, available},
		"readiness without a time is doubtful with minReadySeconds": {pod(corev1.PodRunning, undated), 1, podhealth.Health{Scheduled: true, Running: true, Ready: true, Doubtful: true}},
		"a young pod has the time at which it will be available": {pod(corev1.PodRunning, ready("True", 4*time.Second)), 10,
			podhealth.Health{Scheduled: true, Running: true, Ready: true, AvailableAt: now.Add(6 * time.Second)}},
	} {
		t.Run(claim, func(t *testing.T) {
			got := podhealth.Of(test.pod, test.minReady, now)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Health (-want +got):\n%s", diff)
			}
		})
	}
}

// For every status of a pod: a counted pod is charged, and each state implies the weaker ones.
func TestHealthIsConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pod(rapid.SampledFrom([]corev1.PodPhase{"", "Pending", "Running", "Succeeded", "Failed", "Unknown"}).Draw(t, "phase"))
		if rapid.Bool().Draw(t, "has condition") {
			status := rapid.SampledFrom([]corev1.ConditionStatus{"", "True", "False", "Unknown"}).Draw(t, "status")
			ready(status, time.Duration(rapid.IntRange(-60, 60).Draw(t, "age"))*time.Second)(p)
		}
		if rapid.Bool().Draw(t, "terminating") {
			terminating(p)
		}
		if rapid.Bool().Draw(t, "unscheduled") {
			unscheduled(p)
		}
		if rapid.Bool().Draw(t, "has a criterion of its own") {
			criterionCode(rapid.SampledFrom([]string{"", "Available", "Ready", "Running", "Scheduled", "available"}).Draw(t, "own"))(p)
		}
		minReady := rapid.Int32Range(-1, 30).Draw(t, "minReadySeconds")

		h := podhealth.Of(p, minReady, now)
		if h.Available && !h.Ready || h.Ready && !h.Running || h.Running && !h.Scheduled {
			t.Errorf("states do not imply each other: %+v", h)
		}
		criteria := []v1alpha1.Criterion{"", v1alpha1.CriterionAvailable, v1alpha1.CriterionReady, v1alpha1.CriterionRunning, v1alpha1.CriterionScheduled}
		for i, criterion := range criteria {
			if h.Counted(criterion) && !h.Charged(criterion) {
				t.Errorf("counted by %q, want it charged: %+v", criterion, h)
			}
			if i > 0 && h.Meets(criteria[i-1]) && !h.Meets(criterion) {
				t.Errorf("meets %q, want it to meet %q: %+v", criteria[i-1], criterion, h)
			}
		}
		if p.DeletionTimestamp != nil && h != (podhealth.Health{}) {
			t.Errorf("terminating, want no state: %+v", h)
		}
		if later := podhealth.Of(p, minReady, h.AvailableAt); !h.AvailableAt.IsZero() && !later.Available {
			t.Errorf("not available at AvailableAt %v: %+v", h.AvailableAt, later)
		}
	})
}

func criterionCode(criterion string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationCriterion: criterion} }
}

func TestCriteria(t *testing.T) {
	type verdict struct{ counted, charged bool }
	yes, no := verdict{true, true}, verdict{false, false}
	unready, young := ready("False", time.Hour), ready("True", time.Second)
	for claim, test := range map[string]struct {
		pod       *corev1.Pod
		criterion v1alpha1.Criterion
		want      verdict
	}{
		"Available by default":                       {pod(corev1.PodRunning, ready("True", time.Hour)), "", yes},
		"Available requires minReadySeconds":         {pod(corev1.PodRunning, young), v1alpha1.CriterionAvailable, no},
		"Ready ignores minReadySeconds":              {pod(corev1.PodRunning, young), v1alpha1.CriterionReady, yes},
		"Ready requires readiness":                   {pod(corev1.PodRunning, unready), v1alpha1.CriterionReady, no},
		"Running need not be ready":                  {pod(corev1.PodRunning, unready), v1alpha1.CriterionRunning, yes},
		"Running requires a running pod":             {pod(corev1.PodPending), v1alpha1.CriterionRunning, no},
		"Scheduled requires a node":                  {pod(corev1.PodPending), v1alpha1.CriterionScheduled, yes},
		"Scheduled requires an unfinished pod":       {pod(corev1.PodFailed), v1alpha1.CriterionScheduled, no},
		"a terminating pod counts for no criterion":  {pod(corev1.PodRunning, terminating), v1alpha1.CriterionScheduled, no},
		"the pod's own criterion is wider":           {pod(corev1.PodRunning, unready, criterionCode("Running")), v1alpha1.CriterionAvailable, yes},
		"the pod's own criterion is narrower":        {pod(corev1.PodRunning, unready, criterionCode("Ready")), v1alpha1.CriterionRunning, no},
		"the pod's own criterion is unknown":         {pod(corev1.PodRunning, unready, criterionCode("running")), v1alpha1.CriterionRunning, verdict{false, true}},
		"an unknown criterion of an unscheduled pod": {pod(corev1.PodPending, unscheduled, criterionCode("x")), v1alpha1.CriterionScheduled, no},
		"a doubtful pod is charged by any criterion": {pod(corev1.PodUnknown, ready("True", time.Hour)), v1alpha1.CriterionRunning, verdict{false, true}},
		"irrelevant doubt does not prevent counting": {pod(corev1.PodRunning), v1alpha1.CriterionRunning, yes},
	} {
		t.Run(claim, func(t *testing.T) {
			h := podhealth.Of(test.pod, 10, now)
			if got := (verdict{h.Counted(test.criterion), h.Charged(test.criterion)}); got != test.want {
				t.Errorf("counted, charged = %v, want %v (%+v)", got, test.want, h)
			}
		})
	}
}
