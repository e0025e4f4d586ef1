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

// observe records the reservations in the newest object of a protector, and returns their timers. It keeps none for a protector without
// reservations, as most are.
func (d *reservationDeadlines) observe(key types.NamespacedName, history *v1alpha1.AdmissionHistory, now time.Time) *quota.Deadlines {
	timers := d.of(key)
	timers.Observe(history, now)
	if len(history.Buckets) == 0 {
		d.timers.forget(key)
	} else {
		d.timers.set(key, timers)
	}
	return timers
}

// of returns the timers of the reservations that were last observed.
func (d *reservationDeadlines) of(key types.NamespacedName) *quota.Deadlines {
	if timers := d.timers.get(key); timers != nil {
		return timers
	}
	return &quota.Deadlines{}
}
