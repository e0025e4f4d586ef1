package simulation

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/simulation/apiserver"
)

// judgeIdentity judges whether a component writes what the policies of the chart allow the account of its cell (rule 15): a webhook reservations
// alone, and an aggregator the entry of its own cell.
func (j *judge) judgeIdentity(w *watched, old *v1alpha1.PodProtector, e *apiserver.Event) {
	isWebhook := strings.HasPrefix(e.By, "webhook")
	if old == nil || !isWebhook && !strings.HasPrefix(e.By, "aggregator") {
		return
	}
	if isWebhook && !equality.Semantic.DeepEqual(old.Status.Conditions, w.stored.Status.Conditions) {
		j.fail("%s changed conditions of protector %s", e.By, w.name())
	}
	before, after := entriesOf(old, isWebhook), entriesOf(w.stored, isWebhook)
	for cell := range before {
		if _, stays := after[cell]; !stays {
			after[cell] = v1alpha1.PodProtectorCell{}
		}
	}
	for cell, entry := range after {
		isOwn := strings.HasPrefix(e.By, "aggregator-"+w.core+"-"+cell+"-")
		if !isOwn && !equality.Semantic.DeepEqual(before[cell], entry) {
			j.fail("%s changed the entry of %s in protector %s", e.By, cell, w.name())
		}
	}
}

// entriesOf are the entries of a protector by their cells, without the reservations if those are the writer's.
func entriesOf(p *v1alpha1.PodProtector, withoutReservations bool) map[string]v1alpha1.PodProtectorCell {
	entries := map[string]v1alpha1.PodProtectorCell{}
	for i := range p.Status.Cells {
		entry := p.Status.Cells[i]
		if withoutReservations {
			entry.AdmissionHistory = v1alpha1.AdmissionHistory{}
		}
		entries[entry.CellID] = entry
	}
	return entries
}
