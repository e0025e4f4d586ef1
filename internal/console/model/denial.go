package model

import (
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

// Denial is a removal that was refused, or forced, and others of which nothing but their number is known: what an event tells.
type Denial struct {
	denial.Denial
	// Event is the name of the event.
	Event string `json:"-"`
}

// DenialOf reads an event; ok is false if it tells of no denial.
func DenialOf(r *denial.Reader, e *eventsv1.Event) (protector types.NamespacedName, d Denial, ok bool) {
	told, ok := r.Event("", e)
	return types.NamespacedName{Namespace: told.Namespace, Name: told.Protector}, Denial{Denial: told, Event: e.Name}, ok
}
