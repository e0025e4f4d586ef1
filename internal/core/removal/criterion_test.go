package removal

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestCriterionOfAnEviction(t *testing.T) {
	for text, want := range map[string]v1alpha1.Criterion{
		"Available": v1alpha1.CriterionAvailable, "Ready": v1alpha1.CriterionReady, "Running": v1alpha1.CriterionRunning,
		"Scheduled": v1alpha1.CriterionScheduled, "running": v1alpha1.CriterionScheduled, "": v1alpha1.CriterionScheduled,
	} {
		if got := parseCriterion(map[string]string{v1alpha1.AnnotationCriterion: text}); got != want {
			t.Errorf("criterion of annotation %q = %q, want %q", text, got, want)
		}
	}
	if got := parseCriterion(nil); got != "" {
		t.Errorf("criterion without an annotation = %q, want none", got)
	}
}
