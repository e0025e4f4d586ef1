package simulation

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// objectKey identifies an object that may confirm.
type objectKey struct {
	core, kind string
	name       types.NamespacedName
}

// confirmation is the time until which an object confirms, or last confirmed.
type confirmation struct{ until time.Time }

type stall struct{ from, to time.Time }

// recordConfirmation records whether an object confirms.
func (d *decreaseJudge) recordConfirmation(core, kind string, object client.Object, isDeleted bool) {
	key, now := objectKey{core, kind, client.ObjectKeyFromObject(object)}, time.Now()
	value, isConfirming := object.GetAnnotations()[v1alpha1.AnnotationConfirmRelease]
	c := d.confirmations[key]
	switch {
	case isConfirming && !isDeleted:
		c = &confirmation{now.Add(24 * time.Hour)}
		if ends, err := time.Parse(time.RFC3339, value); err == nil {
			c.until = ends
		}
		d.confirmations[key] = c
	case c != nil && c.until.After(now):
		c.until = now
	}
}

// isConfirmed reports whether the decrease of a protector was confirmed at a time or later.
func (d *decreaseJudge) isConfirmed(protector protectorKey, from time.Time) bool {
	source := strings.TrimPrefix(protector.name.Name, "deployment-")
	for _, key := range []objectKey{
		{protector.core, "PodProtector", protector.name},
		{protector.core, "Deployment", types.NamespacedName{Namespace: protector.name.Namespace, Name: source}},
		{protector.core, "Namespace", types.NamespacedName{Name: protector.name.Namespace}},
	} {
		if c := d.confirmations[key]; c != nil && !c.until.Before(from) {
			return true
		}
	}
	return false
}

// isCascade reports whether a Deployment that is deleted now is deleted with its namespace or with all of its owners.
func (d *decreaseJudge) isCascade(core string, source client.Object) bool {
	if d.terminating[core+"/"+source.GetNamespace()] {
		return true
	}
	return areOwnersDeleted(source, d.ownersIn(core))
}

// ownersIn returns the UIDs of the owners of workloads, and whether they exist.
func (d *decreaseJudge) ownersIn(core string) map[types.UID]bool {
	if d.owners[core] == nil {
		d.owners[core] = map[types.UID]bool{}
	}
	return d.owners[core]
}

// recordStall records that a process is stalled, or receives no events, for a while.
func (j *judge) recordStall(p *process, length time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.decreases.stalled[p.name] = append(j.decreases.stalled[p.name], stall{time.Now(), time.Now().Add(length)})
}

// oldestObservedState returns how old the state may be that a process acts on, given that without stalls it would act on the state since from.
func (d *decreaseJudge) oldestObservedState(process string, from time.Time) time.Time {
	for again := true; again; {
		again = false
		for _, s := range d.stalled[process] {
			if earlier := s.from.Add(-maxInFlightRelease); !s.to.Before(from) && earlier.Before(from) {
				from, again = earlier, true
			}
		}
	}
	return from
}
