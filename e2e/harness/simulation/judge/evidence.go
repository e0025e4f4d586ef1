package judge

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// objectKey identifies an object that may confirm.
type objectKey struct {
	core, kind string
	name       types.NamespacedName
}

// confirmation is the time until which an object confirms, or last confirmed.
type confirmation struct{ until time.Time }

// evidence is what decides whether a decrease needs a confirmation, and has one. The lock of the judge guards it.
type evidence struct {
	// terminating are the namespaces that are being deleted. owners are the UIDs of the owners that exist, by core.
	terminating   map[string]bool
	owners        map[string]map[types.UID]bool
	confirmations map[objectKey]*confirmation
}

func newEvidence() *evidence {
	return &evidence{terminating: map[string]bool{}, owners: map[string]map[types.UID]bool{}, confirmations: map[objectKey]*confirmation{}}
}

// recordConfirmation records whether an object confirms.
func (v *evidence) recordConfirmation(core, kind string, object client.Object, isDeleted bool) {
	key, now := objectKey{core, kind, client.ObjectKeyFromObject(object)}, time.Now()
	value, isConfirming := object.GetAnnotations()[v1alpha1.AnnotationConfirmRelease]
	c := v.confirmations[key]
	switch {
	case isConfirming && !isDeleted:
		c = &confirmation{now.Add(24 * time.Hour)}
		if ends, err := time.Parse(time.RFC3339, value); err == nil {
			c.until = ends
		}
		v.confirmations[key] = c
	case c != nil && c.until.After(now):
		c.until = now
	}
}

// isConfirmed reports whether the decrease of a protector was confirmed at a time or later.
func (v *evidence) isConfirmed(protector protectorKey, from time.Time) bool {
	source := strings.TrimPrefix(protector.name.Name, "deployment-")
	for _, key := range []objectKey{
		{protector.core, "PodProtector", protector.name},
		{protector.core, "Deployment", types.NamespacedName{Namespace: protector.name.Namespace, Name: source}},
		{protector.core, "Namespace", types.NamespacedName{Name: protector.name.Namespace}},
	} {
		if c := v.confirmations[key]; c != nil && !c.until.Before(from) {
			return true
		}
	}
	return false
}

// isCascade reports whether a Deployment that is deleted now is deleted with its namespace or with all of its owners.
func (v *evidence) isCascade(core string, source client.Object) bool {
	if v.terminating[core+"/"+source.GetNamespace()] {
		return true
	}
	return AreOwnersDeleted(source, v.ownersIn(core))
}

// ownersIn returns the UIDs of the owners of workloads, and whether they exist.
func (v *evidence) ownersIn(core string) map[types.UID]bool {
	if v.owners[core] == nil {
		v.owners[core] = map[types.UID]bool{}
	}
	return v.owners[core]
}

// recordRestoredObjects records which namespaces, owners and confirmations a restored core has.
func (v *evidence) recordRestoredObjects(core *Cluster) {
	clear(v.ownersIn(core.Name))
	for name := range v.terminating {
		if strings.HasPrefix(name, core.Name+"/") {
			delete(v.terminating, name)
		}
	}
	for key, c := range v.confirmations {
		if key.core == core.Name && c.until.After(time.Now()) {
			c.until = time.Now()
		}
	}
	for _, resource := range []string{apiserver.Namespaces, "applications", "deployments", "podprotectors"} {
		objects, _ := core.Store.List(resource, "")
		for _, object := range objects {
			kind := object.GetObjectKind().GroupVersionKind().Kind
			switch resource {
			case apiserver.Namespaces:
				v.terminating[core.Name+"/"+object.GetName()] = object.GetDeletionTimestamp() != nil
			case "applications":
				v.ownersIn(core.Name)[object.GetUID()] = true
			}
			v.recordConfirmation(core.Name, kind, object, false)
		}
	}
}

// AreOwnersDeleted reports whether an object has owners, and none of them is alive.
func AreOwnersDeleted(d client.Object, alive map[types.UID]bool) bool {
	for _, owner := range d.GetOwnerReferences() {
		if alive[owner.UID] {
			return false
		}
	}
	return len(d.GetOwnerReferences()) > 0
}
