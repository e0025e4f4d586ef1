package findings

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/sharding/leaseholder"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

const (
	// checkSharderRuns is a remedy.
	checkSharderRuns = "Check that the sharder runs, and read its log: docs/concepts/sharding.md."
	// These runbooks are about rings.
	sharderDown, objectsNotAssigned = "sharder-down", "objects-not-assigned"
)

// checkRings judges the ClusterRings of a core: whether they have live shards, and whether the sharder assigns their objects.
func checkRings(core *Core, now time.Time) []Finding {
	f := reporter{core.where(), "rings"}
	if err := core.Rings.Err; err != nil {
		return f.unreadable("ClusterRings", err, "Ask for permission to list clusterrings, or use --as.")
	}
	rings := slices.DeleteFunc(slices.Clone(core.Rings.Value), func(r v1alpha1.ClusterRing) bool { return r.DeletionTimestamp != nil })
	if len(rings) == 0 {
		return f.ok("There are no ClusterRings.")
	}
	var found []Finding
	if err := core.Leases.Err; err != nil {
		found = f.unreadable("Leases of shards", err, "Ask for permission to list leases in the shardNamespace of rings, or use --as.")
	}
	hasResources := func(r v1alpha1.ClusterRing) bool { return len(r.Spec.Resources) > 0 }
	if err := core.Mutating.Err; err != nil && slices.ContainsFunc(rings, hasResources) {
		found = append(found, f.unreadable(mutatingConfigurations, err, mayListMutating)...)
	}
	for i := range rings {
		clusterRing := &rings[i]
		if core.Leases.Err == nil {
			found = append(found, checkShards(f, clusterRing, core.Leases.Value, now)...)
		}
		if hasResources(*clusterRing) {
			found = append(found, checkSharder(f, core, clusterRing)...)
		}
	}
	return f.orOK(found, "There are live shards of %s, and their objects are assigned.", printable.Count(len(rings), "ClusterRing"))
}

// checkShards judges the Leases of a ring. A shard is down if it has not renewed its Lease for more than twice the Lease duration plus
// clockTolerance, by the local clock.
func checkShards(f reporter, clusterRing *v1alpha1.ClusterRing, leases []coordinationv1.Lease, now time.Time) (found []Finding) {
	var alive int
	var silent, unlisted []string
	for i := range leases {
		lease := &leases[i]
		if lease.Namespace != clusterRing.Spec.ShardNamespace || lease.Labels[v1alpha1.LabelRing] != clusterRing.Name ||
			!leaseholder.Is(lease, lease.Name) || ring.CheckLease(lease) != nil {
			continue
		}
		duration := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
		if now.Sub(lease.Spec.RenewTime.Time) > 2*duration+clockTolerance {
			silent = append(silent, lease.Name)
			continue
		}
		alive++
		isListed := slices.ContainsFunc(clusterRing.Status.Members, func(m v1alpha1.RingMember) bool { return m.Name == lease.Name })
		if isOld := lease.Spec.AcquireTime != nil && now.Sub(lease.Spec.AcquireTime.Time) > time.Minute; isOld && !isListed {
			unlisted = append(unlisted, lease.Name)
		}
	}
	name := "ClusterRing " + clusterRing.Name
	if alive == 0 {
		why := "none has a Lease in namespace " + clusterRing.Spec.ShardNamespace
		if len(silent) > 0 {
			why = "these do not renew their Leases: " + joinNames(silent)
		}
		return []Finding{f.finding(Problem, name+" has no live shard, so no controller works on its objects: "+why+".",
			"Start its shards, and check that they name this ring and run in its shardNamespace: docs/how-to/sharding-controllers.md.", objectsNotAssigned)}
	}
	if len(silent) > 0 {
		found = append(found, f.finding(Warning, "Shards of "+name+" do not renew their Leases: "+joinNames(silent)+".",
			"Find out why they do not run. Their objects move to other shards.", ""))
	}
	if len(unlisted) > 0 && len(clusterRing.Spec.Resources) > 0 {
		found = append(found, f.finding(Warning, "The sharder does not list live shards of "+name+": "+joinNames(unlisted)+".",
			checkSharderRuns, sharderDown))
	}
	return found
}

// checkSharder judges what the sharder does for a ring with resources: the status that it writes, and whether the API server calls its
// webhook for the ring's objects.
func checkSharder(f reporter, core *Core, clusterRing *v1alpha1.ClusterRing) (found []Finding) {
	name := "ClusterRing " + clusterRing.Name
	switch ready := meta.FindStatusCondition(clusterRing.Status.Conditions, v1alpha1.ConditionReady); {
	case ready == nil:
		found = append(found, f.finding(Warning, "No sharder has reported the state of "+name+".", checkSharderRuns, sharderDown))
	case clusterRing.Status.ObservedGeneration < clusterRing.Generation:
		found = append(found, f.finding(Warning, "The sharder has not observed the latest generation of "+name+".", checkSharderRuns, sharderDown))
	case ready.Status != metav1.ConditionTrue:
		found = append(found, f.finding(Warning, fmt.Sprintf("%s is not Ready (%s): %s", name, ready.Reason, ready.Message), checkSharderRuns, objectsNotAssigned))
	}
	if core.Mutating.Err != nil {
		return found // checkRings reports it
	}
	hooks := webhookconfig.RingWebhooks(clusterRing.Name, core.Mutating.Value)
	if len(hooks) == 0 {
		return append(found, f.finding(Warning, "The API server does not send objects of "+name+" to the sharder, so they have no shard until its next resync: "+
			"no MutatingWebhookConfiguration calls "+webhookconfig.RingPath(clusterRing.Name)+".",
			"Check that the sharder runs: it creates the configuration.", sharderDown))
	}
	if weak := webhookconfig.RingWeaknesses(clusterRing, hooks); len(weak) > 0 {
		found = append(found, f.finding(Warning, "The webhooks for objects of "+name+" are not as the sharder configures them: "+strings.Join(weak, "; ")+".",
			"Check that the sharder runs: it restores its own configuration. Remove what other clients added.", objectsNotAssigned))
	}
	return found
}
