package deletion

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// ask answers each deletion as the root guard does.
func (w *World) ask(targets []*rootguard.Object) []rootguard.Answer {
	answers := make([]rootguard.Answer, len(targets))
	if w.Guard.Mode == rootguard.Off || w.Guard.Mode == "" {
		return answers
	}
	floors, owned := w.floors(false), map[string][]rootguard.Floor(nil)
	for i, o := range targets {
		if !w.Guard.Asks(o) {
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
		o.NamespaceAnnotations = w.annotations(o.Namespace)
		q := rootguard.Question{Mode: w.Guard.Mode, At: w.Guard.At, Object: o, Now: w.Now}
		answers[i] = q.Decide(of[namespace])
	}
	return answers
}

// floors returns the floors of each namespace, sorted by name. The key "" has the floors of all namespaces.
func (w *World) floors(owners bool) map[string][]rootguard.Floor {
	core := cmp.Or(w.Guard.At.Core, "core")
	all := map[string][]rootguard.Floor{}
	for i := range w.Protectors {
		p := &w.Protectors[i]
		floor, live := rootguard.FloorOf(core, p, w.Guard.At, w.Now)
		if !live {
			continue
		}
		if source := floor.Source; owners && floor.Local && source != nil && w.Sources[*source] != nil {
			floor.Owners = w.above(w.Sources[*source], deepest)
		}
		all[p.Namespace] = append(all[p.Namespace], floor)
		all[""] = append(all[""], floor)
	}
	for _, some := range all {
		slices.SortFunc(some, func(a, b rootguard.Floor) int { return cmp.Compare(a.Key.String(), b.Key.String()) })
	}
	return all
}

// above returns the owners of an object, and their owners.
func (w *World) above(object metav1.Object, depth int) (all []rootguard.Owner) {
	for _, ref := range object.GetOwnerReferences() {
		all = append(all, rootguard.Owner{Kind: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind(), UID: ref.UID})
		if owner, known := w.Owners[ref.UID]; known && depth > 1 {
			all = append(all, w.above(owner, depth-1)...)
		}
	}
	return all
}
