package simulation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// recordCoreRestore removes the history that a restored core has lost since a version. The core continues with next.
func (d *decreaseJudge) recordCoreRestore(core *clusterView, version, next uint64) {
	d.floors.recordRestore(core.name, version)
	d.grants.recordRestore(core.name, version, next)
	d.policies.restore(core.name, version)
	d.evidence.recordRestoredObjects(core)
}

func (h *floorHistories) recordRestore(core string, version uint64) {
	for key, truth := range h.protectors {
		if key.core == core {
			for _, p := range truth.pendings {
				if p.version > version {
					truth.lost = append(truth.lost, p.value)
				}
			}
			truth.floors, truth.pendings = valuesUntil(truth.floors, version), valuesUntil(truth.pendings, version)
		}
	}
}

func (j *grantJudge) recordRestore(core string, version, next uint64) {
	truth := j.historyOf(core)
	for _, g := range truth.grants {
		if g.version > version {
			truth.lost = append(truth.lost, g)
		}
	}
	clear(truth.usedUntil) // generations begin again
	truth.grants = slices.DeleteFunc(truth.grants, func(g grant) bool { return g.version > version })
	truth.deletions = slices.DeleteFunc(truth.deletions, func(deleted uint64) bool { return deleted > version })
	truth.restored, truth.restoredAt = next, time.Now()
}

// isReleaseUndone reports whether a restore undid the record of a release when the generator was about to release the source. The generator then
// sees that the source vanished, and the protector stays in force.
func (d *decreaseJudge) isReleaseUndone(core string, p *v1alpha1.PodProtector, source sourceState) bool {
	restored := d.grants.historyOf(core).restoredAt
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
	return c != nil && c.Reason == v1alpha1.ReasonSourceVanished && source.at.After(restored) && source.at.Before(restored.Add(maxInFlightRelease))
}

// isRecreationUndone reports whether a restore undid the recreation of a deleted source. The generator then sees that the source vanished, and
// the protector stays in force.
func (d *decreaseJudge) isRecreationUndone(core string, p *v1alpha1.PodProtector, source *sourceHistory) bool {
	c, deleted := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved), source.current().at
	return c != nil && c.Reason == v1alpha1.ReasonSourceVanished && source.deletionUndone.After(deleted) && deleted.Before(d.grants.historyOf(core).restoredAt)
}

// isHeldCascade reports whether a protector may stay in force although its source was deleted: a cascade deleted it, or seemed to when a
// generator saw it.
func (d *decreaseJudge) isHeldCascade(core string, p *v1alpha1.PodProtector, source sourceState) bool {
	c := pendingOf(p)
	if c == nil || c.Reason != v1alpha1.ReasonCascade || source.object == nil {
		return false
	}
	return !source.cascade.IsZero() || d.evidence.isCascade(core, source.object)
}
