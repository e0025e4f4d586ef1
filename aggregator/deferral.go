package aggregator

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/conditions"
	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

const (
	// undeferredWrites is the number of status writes a second up to which a shard defers none.
	undeferredWrites = 10
	// maxDeferral is how long the write of a protector may be deferred, in aggregation rates.
	maxDeferral = 5
)

// deferral defers status writes that admit nothing more, nor less, while the shard writes many protectors. In a storm over many protectors
// each removal otherwise costs the core two writes: one that reserves it, and one that settles the reservation and counts one pod less.
//
// A deferred write is like one that met a conflict: nothing of it is stored, and a later round counts and settles again, in one write
// (rule 4(a)). It is safe for concurrent use. One worker at a time writes a protector.
type deferral struct {
	cell      string
	limiter   *rate.Limiter
	monotonic func() time.Time
	// since is when the write of a protector was first deferred, on the monotonic clock.
	since ownership.Map[time.Time]
}

func newDeferral(cell string, monotonic func() time.Time) *deferral {
	return &deferral{cell: cell, limiter: rate.NewLimiter(undeferredWrites, undeferredWrites), monotonic: monotonic}
}

// wait returns after which time the caller must count again instead of writing the status that a round has changed from that of before to
// that of after. If it returns 0, the caller must write now.
func (d *deferral) wait(before, after *v1alpha1.PodProtector, work *outcome) time.Duration {
	key, now := client.ObjectKeyFromObject(after), d.monotonic()
	if d.limiter.AllowN(now, 1) || work.mustWrite() || after.DeletionTimestamp != nil || !admitsTheSame(before, after, d.cell) {
		return 0
	}
	since := d.since.Get(key)
	if since.IsZero() {
		since = now
		d.since.Set(key, since)
	}
	return max(since.Add(maxDeferral*after.Spec.AdmissionHistory.AggregationRateOrDefault()).Sub(now), 0)
}

// end records that a protector has no deferred write: it was written, or needs no write.
func (d *deferral) end(protector types.NamespacedName) { d.since.Forget(protector) }

// admitsTheSame reports whether a and b differ only in numbers of pods and reservations of a cell that leave the budget as it is. The floor,
// domains, conditions without such numbers, and all else must be equal.
func admitsTheSame(a, b *v1alpha1.PodProtector, cellID string) bool {
	return equality.Semantic.DeepEqual(withoutNumbers(a, cellID), withoutNumbers(b, cellID))
}

// withoutNumbers returns a status without the numbers that admitsTheSame ignores.
func withoutNumbers(p *v1alpha1.PodProtector, cellID string) *v1alpha1.PodProtectorStatus {
	p = withOwnCells(p)
	p.Status.Summary = v1alpha1.Summary{EstimatedAvailable: p.Status.Summary.EstimatedAvailable}
	p.Status.Conditions = conditions.WithoutExcess(p.Status.Conditions)
	if cell := quota.CellOf(p, cellID); cell != nil {
		a := &cell.Aggregation
		a.TotalReplicas, a.AvailableReplicas, a.ReadyReplicas, a.RunningReplicas, a.ScheduledReplicas, a.CountedReplicas = 0, 0, 0, 0, 0, 0
		a.SnapshotVersion, a.SettledVersion, a.LastEventTime = "", "", metav1.MicroTime{}
		cell.AdmissionHistory = v1alpha1.AdmissionHistory{}
		if cell.Share != nil {
			share := *cell.Share // withOwnCells does not copy it
			share.Reserved = 0
			cell.Share = &share
		}
	}
	return &p.Status
}
