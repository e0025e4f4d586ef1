package sharding

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// incarnation identifies one run of a shard in its Lease.
type incarnation struct {
	ring, name string
	// identity is the name, an underscore, and a suffix that no other incarnation has.
	identity string
	duration time.Duration
	// predecessor is the previous incarnation in this process, of which no work is left; empty if there is none.
	predecessor string
}

// checkAcquirable returns why the shard must not acquire a Lease: the Lease does not belong to this shard. A label that another client
// removed is restored.
func (i incarnation) checkAcquirable(lease *coordinationv1.Lease) error {
	of, labeled := lease.Labels[v1alpha1.LabelRing]
	switch {
	case labeled && of == i.ring, !labeled && leaseholder.Is(lease, i.name):
		return nil
	case labeled:
		return fmt.Errorf("the Lease %s/%s belongs to a shard of ring %q, not %q: rename the shard, or delete the Lease if no process uses it",
			lease.Namespace, lease.Name, of, i.ring)
	default:
		return fmt.Errorf("the Lease %s/%s does not belong to a shard, because it has no label %s: rename the shard, or delete the Lease if no process uses it",
			lease.Namespace, lease.Name, v1alpha1.LabelRing)
	}
}

// lossReason returns why a Lease that this incarnation has held no longer belongs to it.
func (i incarnation) lossReason(lease *coordinationv1.Lease) error {
	of, labeled := lease.Labels[v1alpha1.LabelRing]
	switch holder := leaseholder.Of(lease); {
	case holder == leaseholder.Revoked:
		return errRevoked
	case holder == "":
		return errTaken
	case holder != i.identity:
		return fmt.Errorf("its Lease was taken by %q: if another process runs under the same name, rename it", holder)
	case labeled && of != i.ring:
		return fmt.Errorf("its Lease was assigned to ring %q", of)
	default:
		return nil
	}
}

// recordOf returns the Lease as the elector sees it: the holder, which is empty if the Lease can be acquired at once, and how long
// the Lease must stay unchanged before another incarnation may acquire it.
func (i incarnation) recordOf(lease *coordinationv1.Lease) *resourcelock.LeaderElectionRecord {
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	if record.LeaseDurationSeconds > leaseholder.MaxLeaseSeconds {
		record.LeaseDurationSeconds = 0 // no shard has such a duration
	}
	record.LeaseDurationSeconds = max(record.LeaseDurationSeconds, i.seconds())
	switch record.HolderIdentity {
	case leaseholder.Returning(i.name), i.predecessor:
		record.HolderIdentity = ""
	case leaseholder.Revoked:
		record.LeaseDurationSeconds *= 2 // the previous holder may not have noticed yet
	}
	return record
}

func (i incarnation) seconds() int { return int(i.duration / time.Second) }

// setHolder sets the holder of a Lease, with now as the renew time.
func (i incarnation) setHolder(lease *coordinationv1.Lease, holder string, now time.Time) {
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	lease.Labels[v1alpha1.LabelRing] = i.ring
	if leaseholder.Of(lease) != holder {
		transitions := int32(0)
		if before := lease.Spec.LeaseTransitions; before != nil {
			transitions = *before + 1
		}
		lease.Spec.LeaseTransitions, lease.Spec.AcquireTime = &transitions, &metav1.MicroTime{Time: now}
	}
	seconds := int32(i.seconds())
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &holder, &seconds
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now}
}
