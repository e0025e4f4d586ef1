package aggregator

import (
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// reservationDeadlines are the timers of the open reservations by protector (rule 4(b)). They end with the leadership. It is safe for
// concurrent use. One worker at a time uses the timers of a protector.
type reservationDeadlines struct {
	// admission is the Cell's admission deadline, in nanoseconds, as of the last heartbeat.
	admission atomic.Int64
	timers    protectorMap[*quota.Deadlines]
}

func (d *reservationDeadlines) admissionDeadline() time.Duration {
	return time.Duration(d.admission.Load())
}

// maxInFlight returns how long admitted changes of a protector's pods that are no longer reserved may still make the pods
// unavailable.
func (d *reservationDeadlines) maxInFlight(p *v1alpha1.PodProtector) time.Duration {
	longest := d.admissionDeadline()
	if slices.ContainsFunc(p.Spec.Operations, isUpdate) {
		longest += updateTimeout(p)
	}
	return longest
}

// of returns the timers of a protector.
func (d *reservationDeadlines) of(key types.NamespacedName) *quota.Deadlines {
	timers := d.timers.get(key)
	if timers == nil {
		timers = &quota.Deadlines{}
		d.timers.set(key, timers)
	}
	return timers
}
