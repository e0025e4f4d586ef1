package simulation

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// recordCoreRestore removes the history that a restored core has lost since a version. The core continues with next.
func (d *decreaseJudge) recordCoreRestore(core *clusterState, version, next uint64) {
	for key, truth := range d.protectors {
		if key.core == core.name {
			for _, p := range truth.pendings {
				if p.version > version {
					truth.lost = append(truth.lost, p.value)
				}
			}
			truth.floors, truth.pendings = valuesUntil(truth.floors, version), valuesUntil(truth.pendings, version)
		}
	}
	truth := d.grantsOf(core.name)
	for _, g := range truth.grants {
		if g.version > version {
			truth.lost = append(truth.lost, g)
		}
	}
	truth.grants = slices.DeleteFunc(truth.grants, func(g grant) bool { return g.version > version })
	truth.deletions = slices.DeleteFunc(truth.deletions, func(deleted uint64) bool { return deleted > version })
	truth.restored, truth.restoredAt = next, time.Now()
	d.recordRestoredObjects(core)
}

// recordRestoredObjects records which namespaces, owners and confirmations a restored core has.
func (d *decreaseJudge) recordRestoredObjects(core *clusterState) {
	clear(d.ownersIn(core.name))
	for name := range d.terminating {
		if strings.HasPrefix(name, core.name+"/") {
			delete(d.terminating, name)
		}
	}
	for key, c := range d.confirmations {
		if key.core == core.name && c.until.After(time.Now()) {
			c.until = time.Now()
		}
	}
	for _, resource := range []string{apiserver.Namespaces, "applications", "deployments", "podprotectors"} {
		objects, _ := core.store.List(resource, "")
		for _, object := range objects {
			kind := object.GetObjectKind().GroupVersionKind().Kind
			switch resource {
			case apiserver.Namespaces:
				d.terminating[core.name+"/"+object.GetName()] = object.GetDeletionTimestamp() != nil
			case "applications":
				d.ownersIn(core.name)[object.GetUID()] = true
			}
			d.recordConfirmation(core.name, kind, object, false)
		}
	}
}

// isReleaseUndone reports whether a restore undid the record of a release when the generator was about to release the source. The generator then
// sees that the source vanished, and the protector stays in force.
func (d *decreaseJudge) isReleaseUndone(core string, p *v1alpha1.PodProtector, source sourceState) bool {
	restored := d.grantsOf(core).restoredAt
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
	return c != nil && c.Reason == v1alpha1.ReasonSourceVanished && source.at.After(restored) && source.at.Before(restored.Add(maxInFlightRelease))
}

// isRecreationUndone reports whether a restore undid the recreation of a deleted source. The generator then sees that the source vanished, and
// the protector stays in force.
func (d *decreaseJudge) isRecreationUndone(core string, p *v1alpha1.PodProtector, source *sourceHistory) bool {
	c, deleted := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved), source.current().at
	return c != nil && c.Reason == v1alpha1.ReasonSourceVanished && source.deletionUndone.After(deleted) && deleted.Before(d.grantsOf(core).restoredAt)
}

// isHeldCascade reports whether a protector may stay in force although its source was deleted: a cascade deleted it, or seemed to when a
// generator saw it, and no confirmation exists.
func (d *decreaseJudge) isHeldCascade(core string, p *v1alpha1.PodProtector, source sourceState) bool {
	c := pendingOf(p)
	if c == nil || c.Reason != v1alpha1.ReasonCascade || source.object == nil {
		return false
	}
	key := protectorKey{core, types.NamespacedName{Namespace: p.Namespace, Name: p.Name}}
	return (!source.cascade.IsZero() || d.isCascade(core, source.object)) && !d.isConfirmed(key, time.Now())
}
