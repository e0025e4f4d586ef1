package deletion

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// askRootGuard answers each deletion as the root guard does.
func (w *State) askRootGuard(targets []*rootguard.Object) []rootguard.Answer {
	answers := make([]rootguard.Answer, len(targets))
	if w.Guard.Mode == rootguard.Off || w.Guard.Mode == "" {
		return answers
	}
	floors, owned := w.floors(false), map[string][]rootguard.Floor(nil)
	for i, o := range targets {
		if !w.Guard.IsCalledFor(o) {
			continue
		}
		of := floors
		if slices.Contains(w.Guard.OwnerKinds, o.Resource) || slices.Contains(w.Guard.OwnerKinds, o.DefinesResource) {
			if owned == nil {
				owned = w.floors(true)
			}
			of = owned
		}
		namespace := o.Namespace
		if o.Class() == "Namespace" {
			namespace = o.Name
		}
		o.NamespaceAnnotations = w.namespaceAnnotations(o.Namespace)
		q := rootguard.Deletion{Mode: w.Guard.Mode, Cluster: w.Guard.Cluster, Object: o, Now: w.Now}
		answers[i] = q.Decide(of[namespace])
	}
	return answers
}

// floors returns the floors of each namespace, sorted by name. The key "" has the floors of all namespaces.
func (w *State) floors(owners bool) map[string][]rootguard.Floor {
	core := cmp.Or(w.Guard.Cluster.Core, "core")
	all := map[string][]rootguard.Floor{}
	for i := range w.Protectors {
		p := &w.Protectors[i]
		floor, live := rootguard.FloorOf(core, p, w.Guard.Cluster, w.Now)
		if !live {
			continue
		}
		if source := floor.Source; owners && floor.Local && source != nil && w.Sources[*source] != nil {
			floor.Owners = w.ownersOf(w.Sources[*source], maxOwnerDepth)
		}
		all[p.Namespace] = append(all[p.Namespace], floor)
		all[""] = append(all[""], floor)
	}
	for _, some := range all {
		slices.SortFunc(some, func(a, b rootguard.Floor) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
	}
	return all
}

// ownersOf returns the owners of an object, and their owners.
func (w *State) ownersOf(object metav1.Object, depth int) (all []rootguard.Owner) {
	for _, ref := range object.GetOwnerReferences() {
		all = append(all, rootguard.Owner{Kind: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), UID: ref.UID})
		if owner, known := w.Owners[ref.UID]; known && depth > 1 {
			all = append(all, w.ownersOf(owner, depth-1)...)
		}
	}
	return all
}
