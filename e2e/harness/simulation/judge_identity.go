package simulation

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// judgeIdentity judges whether a webhook writes anything of a protector besides reservations. The policies of the chart allow the account
// of a cell only reservations (rule 15).
func (j *reservationJudge) judgeIdentity(w *watchedProtector, old *v1alpha1.PodProtector, e *apiserver.Event) {
	if old == nil || !strings.HasPrefix(e.By, "webhook") {
		return
	}
	if !equality.Semantic.DeepEqual(withoutReservations(old), withoutReservations(w.stored)) {
		j.report.fail("%s changed entries of protector %s besides reservations", e.By, w.name())
	}
	if !equality.Semantic.DeepEqual(old.Status.Conditions, w.stored.Status.Conditions) {
		j.report.fail("%s changed conditions of protector %s", e.By, w.name())
	}
}

func withoutReservations(p *v1alpha1.PodProtector) []v1alpha1.PodProtectorCell {
	entries := make([]v1alpha1.PodProtectorCell, len(p.Status.Cells))
	for i := range entries {
		entries[i] = p.Status.Cells[i]
		entries[i].AdmissionHistory = v1alpha1.AdmissionHistory{}
	}
	return entries
}
