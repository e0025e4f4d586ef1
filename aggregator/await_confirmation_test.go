package aggregator

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// A restored worker brings back a share that its protector has replaced since. It is closed, and ends when its reservations are settled. Until then the webhook
// denies every removal by it, so it is counted although it is never opened again (rule S5).
func TestClosedShareOfARestoredClusterIsCounted(t *testing.T) {
	void := v1alpha1.Aggregation{Void: true, TermVersion: "1"}
	for claim, c := range map[string]struct {
		of    v1alpha1.ShareOf
		waits bool
	}{
		"an open share": {v1alpha1.ShareOf{}, true},
		"an open share, opened since the restore": {v1alpha1.ShareOf{ConfirmedTerm: "1"}, false},
		"a closed share": {v1alpha1.ShareOf{Closed: true}, false},
		"a closed share, opened since the restore": {v1alpha1.ShareOf{Closed: true, ConfirmedTerm: "1"}, false},
	} {
		a := &aggregation{p: &v1alpha1.PodProtector{Spec: v1alpha1.PodProtectorSpec{ShareOf: &c.of}}}
		a.stored.Aggregation = void
		if waits, err := (&reconciler{}).awaitConfirmation(t.Context(), a); waits != c.waits || err != nil {
			t.Errorf("%s awaits confirmation: %v, %v, want %v", claim, waits, err, c.waits)
		}
	}
}
