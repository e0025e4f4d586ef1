package sharding

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// incarnation is a shard as its Lease knows it.
type incarnation struct {
	ring, name string
	// identity is the name, an underscore, and what no other incarnation has.
	identity string
	duration time.Duration
	// former is the one that this process was before, of which nothing is left; empty is none.
	former string
}

// check tells why a Lease must not be taken: it is not one of this shard. A label that somebody has taken off is put back.
func (i incarnation) check(lease *coordinationv1.Lease) error {
	of, labelled := lease.Labels[v1alpha1.LabelRing]
	switch {
	case labelled && of == i.ring, !labelled && ring.IsHeldBy(lease, i.name):
		return nil
	case labelled:
		return fmt.Errorf("the Lease %s/%s is that of a shard of ring %q, not %q: give the shard another name, or delete the Lease if no process uses it any more",
			lease.Namespace, lease.Name, of, i.ring)
	default:
		return fmt.Errorf("the Lease %s/%s is not that of a shard, as it has no label %s: give the shard another name, or delete the Lease if no process uses it any more",
			lease.Namespace, lease.Name, v1alpha1.LabelRing)
	}
}

// lost tells why a Lease that this incarnation has held is not its own any more.
func (i incarnation) lost(lease *coordinationv1.Lease) error {
	of, labelled := lease.Labels[v1alpha1.LabelRing]
	switch holder := ring.HolderOf(lease); {
	case holder == ring.Revoked:
		return errRevoked
	case holder == "":
		return errBuried
	case holder != i.identity:
		return fmt.Errorf("its Lease was taken by %q: if another process runs under the same name, give it another one", holder)
	case labelled && of != i.ring:
		return fmt.Errorf("its Lease was given to ring %q", of)
	default:
		return nil
	}
}

// record is what the elector has to know of a Lease: who has it, nobody when it can be taken at once, and how long it must stay as it is
// until it can be taken from whoever has it.
func (i incarnation) record(lease *coordinationv1.Lease) *resourcelock.LeaderElectionRecord {
	record := resourcelock.LeaseSpecToLeaderElectionRecord(&lease.Spec)
	if record.LeaseDurationSeconds > ring.MaxLeaseSeconds {
		record.LeaseDurationSeconds = 0 // that of no shard
	}
	record.LeaseDurationSeconds = max(record.LeaseDurationSeconds, i.seconds())
	switch record.HolderIdentity {
	case ring.Returning(i.name), i.former:
		record.HolderIdentity = ""
	case ring.Revoked:
		record.LeaseDurationSeconds *= 2 // whom it was taken from may not know yet
	}
	return record
}

func (i incarnation) seconds() int { return int(i.duration / time.Second) }

// take makes a Lease that of a holder, who has renewed it now.
func (i incarnation) take(lease *coordinationv1.Lease, holder string, now time.Time) {
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	lease.Labels[v1alpha1.LabelRing] = i.ring
	if ring.HolderOf(lease) != holder {
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
