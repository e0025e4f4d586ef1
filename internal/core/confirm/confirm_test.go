package confirm

import (
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestConfirmed(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]bool{
		"true": true, "": false, "false": false, "True": false, "yes": false, "1": false,
		"2026-11-23": true, "2026-11-22": false, "2026-11-24": true, "2026-13-01": false,
		"2026-11-23T12:00:01Z": true, "2026-11-23T12:00:00Z": false, "2026-11-23T14:30:00+02:00": true, "2026-11-23T13:30:00+02:00": false,
	} {
		if got := Confirmed(map[string]string{v1alpha1.AnnotationConfirmRelease: value}, now); got != want {
			t.Errorf("Confirmed(%q) = %v, want %v", value, got, want)
		}
	}
	if Confirmed(nil, now) {
		t.Error("Confirmed() = true without the annotation, want false")
	}
}
