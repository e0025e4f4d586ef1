package model

import (
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

// Denial is a denied or break-glass removal, plus the number of further ones that its event reports.
type Denial struct {
	denial.Denial
	// Event is the name of the event.
	Event string `json:"-"`
}

// DenialOf parses an event; ok is false if the event does not record a denial.
func DenialOf(r *denial.Reader, e *eventsv1.Event) (protector types.NamespacedName, d Denial, ok bool) {
	told, ok := r.ParseEvent("", e)
	return types.NamespacedName{Namespace: told.Namespace, Name: told.Protector}, Denial{Denial: told, Event: e.Name}, ok
}
