package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// rings judges the ClusterRings of a core: whether they have live shards, and whether the sharder assigns their objects.
func rings(core *Core, now time.Time) []Finding {
	f := finder{core.where(), "rings"}
	if err := core.Rings.Err; err != nil {
		return f.unread("ClusterRings", err, "Ask for the right to list clusterrings, or see --as.")
	}
	if len(core.Rings.Value) == 0 {
		return f.ok("There are no ClusterRings.")
	}
	var found []Finding
	if err := core.Leases.Err; err != nil {
		found = f.unread("Leases of shards", err, "Ask for the right to list leases in the shardNamespace of rings, or see --as.")
	}
	for i := range core.Rings.Value {
		of := &core.Rings.Value[i]
		if of.DeletionTimestamp != nil {
			continue
		}
		if core.Leases.Err == nil {
			found = append(found, shards(f, of, core.Leases.Value, now)...)
		}
		if len(of.Spec.Resources) > 0 {
			found = append(found, sharder(f, core, of)...)
		}
	}
	return f.or(found, "All %d have shards that live, and objects of theirs are assigned.", len(core.Rings.Value))
}

// shards judges the Leases of a ring. A shard is down if it has not renewed its Lease for more than twice the Lease duration plus apart,
// by the local clock.
func shards(f finder, of *v1alpha1.ClusterRing, leases []coordinationv1.Lease, now time.Time) (found []Finding) {
	var alive int
	var silent, unknown []string
	for i := range leases {
		lease := &leases[i]
		if lease.Namespace != of.Spec.ShardNamespace || lease.Labels[v1alpha1.LabelRing] != of.Name ||
			!ring.IsHeldBy(lease, lease.Name) || ring.CheckLease(lease) != nil {
			continue
		}
		duration := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
		if now.Sub(lease.Spec.RenewTime.Time) > 2*duration+apart {
			silent = append(silent, lease.Name)
			continue
		}
		alive++
		if isOld := lease.Spec.AcquireTime != nil && now.Sub(lease.Spec.AcquireTime.Time) > time.Minute; isOld && !isMember(of, lease.Name) {
			unknown = append(unknown, lease.Name)
		}
	}
	name := "ClusterRing " + of.Name
	if alive == 0 {
		why := "none has a Lease in namespace " + of.Spec.ShardNamespace
		if len(silent) > 0 {
			why = "these do not renew their Leases: " + some(silent)
		}
		return []Finding{f.bad(Problem, name+" has no shard that lives, so that nobody works on what it shares out: "+why+".",
			"Start its shards, and see that they name this ring and run in its shardNamespace: docs/sharding-controllers.md.", "objects-not-assigned")}
	}
	if len(silent) > 0 {
		found = append(found, f.bad(Warning, "Shards of "+name+" do not renew their Leases: "+some(silent)+".",
			"See why they do not run. What they had goes to others.", ""))
	}
	if len(unknown) > 0 && len(of.Spec.Resources) > 0 {
		found = append(found, f.bad(Warning, "The sharder does not know shards of "+name+" that live: "+some(unknown)+".",
			"See that the sharder runs, and its log: docs/sharding.md.", "sharder-down"))
	}
	return found
}

func isMember(of *v1alpha1.ClusterRing, shard string) bool {
	return slices.ContainsFunc(of.Status.Members, func(m v1alpha1.RingMember) bool { return m.Name == shard })
}

// sharder judges what the sharder does for a ring with resources: the status that it writes, and whether the API server calls its
// webhook for the ring's objects.
func sharder(f finder, core *Core, of *v1alpha1.ClusterRing) (found []Finding) {
	const down, page = "sharder-down", "objects-not-assigned"
	name := "ClusterRing " + of.Name
	see := "See that the sharder runs, and its log: docs/sharding.md."
	switch ready := meta.FindStatusCondition(of.Status.Conditions, v1alpha1.ConditionReady); {
	case ready == nil:
		found = append(found, f.bad(Warning, "Nobody looks after "+name+": no sharder has said how it is.", see, down))
	case of.Status.ObservedGeneration < of.Generation:
		found = append(found, f.bad(Warning, "The sharder has not taken up what "+name+" is now.", see, down))
	case ready.Status != metav1.ConditionTrue:
		found = append(found, f.bad(Warning, fmt.Sprintf("%s is not Ready (%s): %s", name, ready.Reason, ready.Message), see, page))
	}
	if core.Mutating.Err != nil {
		return append(found, f.unread("MutatingWebhookConfigurations", core.Mutating.Err, "Ask for the right to list mutatingwebhookconfigurations, or see --as.")...)
	}
	hooks := webhookconfig.Ring(of.Name, core.Mutating.Value)
	if len(hooks) == 0 {
		return append(found, f.bad(Warning, "Nobody is asked about objects of "+name+", which are without a shard until its next resync: "+
			"no MutatingWebhookConfiguration leads to "+webhookconfig.RingPath(of.Name)+".", "See that the sharder runs: it makes the configuration.", down))
	}
	if weak := webhookconfig.RingWeaknesses(of, hooks); len(weak) > 0 {
		found = append(found, f.bad(Warning, "The apiserver asks about objects of "+name+" in another way than the sharder wants: "+strings.Join(weak, "; ")+".",
			"See that the sharder runs, which puts back what it makes, and take out what others have added.", page))
	}
	return found
}
