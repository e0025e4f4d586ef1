package deletion

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// plan is a set of objects that are deleted at the same time.
type plan struct {
	state   *State
	objects map[policy.Ref]*rootguard.Object
	uids    map[types.UID]*rootguard.Object
	// namespaces are the deleted namespaces, and kinds are the kinds whose CustomResourceDefinitions are deleted.
	namespaces map[string]*rootguard.Object
	kinds      map[schema.GroupKind]*rootguard.Object
	// affecting has the objects that protectors of a namespace may depend on. Cluster-scoped objects have the key "".
	affecting map[string][]*rootguard.Object
}

func newPlan(w *State, targets []*rootguard.Object) *plan {
	d := &plan{
		state: w, objects: map[policy.Ref]*rootguard.Object{}, uids: map[types.UID]*rootguard.Object{},
		namespaces: map[string]*rootguard.Object{}, kinds: map[schema.GroupKind]*rootguard.Object{}, affecting: map[string][]*rootguard.Object{},
	}
	for _, o := range targets {
		d.objects[policy.Ref{Group: o.Kind.Group, Kind: o.Kind.Kind, Namespace: o.Namespace, Name: o.Name}] = o
		d.affecting[o.Namespace] = append(d.affecting[o.Namespace], o)
		if o.UID != "" {
			d.uids[o.UID] = o
		}
		switch {
		case o.Class() == "Namespace":
			d.namespaces[o.Name] = o
		case o.Defines.Kind != "":
			d.kinds[o.Defines] = o
		}
	}
	return d
}

// deletedBy returns the target whose deletion deletes an object of a kind. It returns nil if the object stays.
func (d *plan) deletedBy(kind schema.GroupKind, object metav1.Object) *rootguard.Object {
	if by := d.namespaces[object.GetNamespace()]; by != nil {
		return by
	}
	if by := d.kinds[kind]; by != nil {
		return by
	}
	if by := d.objects[policy.RefOf(kind, object)]; by != nil {
		return by
	}
	return d.collectedBy(object, maxOwnerDepth)
}

// maxOwnerDepth is the number of owner levels above an object that are followed.
const maxOwnerDepth = 4

// collectedBy returns the target after whose deletion the garbage collector deletes an object, because it has no owner left. It returns
// nil if the object stays.
func (d *plan) collectedBy(object metav1.Object, depth int) (by *rootguard.Object) {
	for _, ref := range object.GetOwnerReferences() {
		if d.state.isOwnerDeleted(ref) {
			continue
		}
		removed := d.removedBy(ref, depth)
		if removed == nil {
			return nil
		}
		by = removed
	}
	return by
}

// removedBy returns the target whose deletion deletes an existing owner. It returns nil if the owner stays.
func (d *plan) removedBy(ref metav1.OwnerReference, depth int) *rootguard.Object {
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
	if by := d.uids[ref.UID]; by != nil {
		return by
	}
	if by := d.kinds[kind]; by != nil {
		return by
	}
	owner, known := d.state.Owners[ref.UID]
	if !known || depth == 0 {
		return nil
	}
	if by := d.namespaces[owner.Namespace]; by != nil {
		return by
	}
	return d.collectedBy(owner, depth-1)
}

// isOwnerDeleted reports whether an owner no longer exists, even without the plan.
func (w *State) isOwnerDeleted(ref metav1.OwnerReference) bool {
	switch w.OwnerKinds[schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()] {
	case Unserved:
		return true
	case Complete:
		owner, known := w.Owners[ref.UID]
		return !known || owner.DeletionTimestamp != nil
	default:
		return false
	}
}
