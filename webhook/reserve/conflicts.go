package reserve

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// conflictLog records when a write of a protector last met a conflict with a write of another replica. It is safe for
// concurrent use.
type conflictLog struct {
	now func() time.Time
	at  sync.Map
}

func (l *conflictLog) record(protector types.NamespacedName) { l.at.Store(protector, l.now()) }

func (l *conflictLog) forget(protector types.NamespacedName) { l.at.Delete(protector) }

// isRecent reports whether a write of a protector has met such a conflict within the given duration.
func (l *conflictLog) isRecent(protector types.NamespacedName, within time.Duration) bool {
	at, ok := l.at.Load(protector)
	return ok && l.now().Sub(at.(time.Time)) <= within //nolint:forcetypeassert // the map holds only times
}

// hasOtherReservations reports whether another replica has written a protector since a write of this replica was rejected: newest
// has a reservation that rejected, which includes all reservations of this replica, lacks. Aggregators only drop reservations.
func hasOtherReservations(newest, rejected *v1alpha1.PodProtector) bool {
	for i := range newest.Status.Cells {
		cell := &newest.Status.Cells[i]
		own := map[quota.UIDHash]bool{}
		if before := quota.CellOf(rejected, cell.CellID); before != nil {
			for r := range quota.Reservations(&before.AdmissionHistory) {
				own[r.Hash] = true
			}
		}
		for r := range quota.Reservations(&cell.AdmissionHistory) {
			if !own[r.Hash] {
				return true
			}
		}
	}
	return false
}
