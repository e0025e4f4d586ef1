package rootguard

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/confirm"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// ClusterIdentity is the role of a deletion's cluster: a core cluster, the cluster of cells, or both.
type ClusterIdentity struct {
	// Core is the name of the cluster as a core cluster. It is empty if the cluster is not a core. A worker that stores shares is the core
	// of these shares.
	Core string
	// Cells are the cells whose pods run in the cluster.
	Cells []string
}

// Owner is an owner of a source workload, or an owner of that owner.
type Owner struct {
	Kind schema.GroupKind
	UID  types.UID
}

// Floor is a live floor, as far as the objects of one cluster affect it.
type Floor struct {
	Key types.NamespacedName
	// Local reports whether its PodProtector is stored in the cluster.
	Local bool
	// Pods is the number of pods that must stay available over all cells.
	Pods int
	// Available is the number of the floor's available pods over all cells, and LocalPods of those in the cluster.
	Available, LocalPods int
	// Source is the workload that the PodProtector was generated from. It is nil for a handwritten PodProtector.
	Source *policy.Ref
	// Owners are the known owners of the source. Only those of local floors count.
	Owners []Owner
	// Confirmed reports whether the release of the floor is confirmed on the PodProtector.
	Confirmed bool

	// share is spec.shareOf of a share of a floor. It is nil for the PodProtector of a whole floor.
	share *v1alpha1.ShareOf
	// target is the workload that the PodProtector's targetRef names. It is nil for a PodProtector with a selector.
	target *policy.Ref
	// policy is the kind of the policy that the PodProtector results from. It is empty if there is none.
	policy string
	// cells are the cells in which the floor has available pods.
	cells []string
	// protector, and counted (the cells of the cluster in which it has available pods), determine which pods the floor covers.
	// Selectors are compiled only for workloads, because a namespace may have thousands of them.
	protector *v1alpha1.PodProtector
	counted   []string
}

// FloorOf returns the floor of a PodProtector of a core cluster. ok is false if no object of the cluster affects it, or if it keeps
// no pod available. A PodProtector that is being deleted keeps its floor until its release removes the object. A share is a floor only in
// the cluster that stores it, and only while it is open: a closed one decides nothing.
func FloorOf(core string, p *v1alpha1.PodProtector, cluster ClusterIdentity, now time.Time) (f Floor, ok bool) {
	f = Floor{
		Key: types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, Local: core == cluster.Core, Pods: podsOf(p),
		Confirmed: confirm.Confirmed(p.Annotations, now), protector: p, share: p.Spec.ShareOf,
	}
	if f.share != nil && (!f.Local || f.share.Closed) {
		return Floor{}, false
	}
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		if cell.Aggregation.CountedReplicas == 0 {
			continue
		}
		f.cells, f.Available = append(f.cells, cell.CellID), f.Available+int(cell.Aggregation.CountedReplicas)
		if slices.Contains(cluster.Cells, cell.CellID) {
			f.LocalPods += int(cell.Aggregation.CountedReplicas)
			f.counted = append(f.counted, cell.CellID)
		}
	}
	if f.Pods <= 0 || !f.Local && f.LocalPods == 0 {
		return Floor{}, false
	}
	if ref := p.Spec.TargetRef; ref != nil {
		kind := kindOf(ref.APIVersion, ref.Kind)
		f.target = &policy.Ref{Group: kind.Group, Kind: kind.Kind, Namespace: p.Namespace, Name: ref.Name}
	}
	if policy.IsGenerated(p) {
		if source, _, found := policy.SourceOf(p); found {
			f.Source = &source
		}
		f.policy, _, _ = strings.Cut(p.Annotations[v1alpha1.AnnotationPolicy], "/")
	}
	return f, true
}

// podsOf returns the number of pods that a PodProtector keeps available. While its floor is unknown, that is all available pods.
func podsOf(p *v1alpha1.PodProtector) int {
	if floor, known := quota.Floor(p); known {
		return floor
	}
	return quota.BudgetOf(p).Floor
}

// DependsOn reports whether the floor depends on an object.
func (f *Floor) DependsOn(o *Object) bool {
	switch o.Kind {
	case namespaceKind():
		return f.Key.Namespace == o.Name // every floor affects this cluster
	case definitionKind():
		return f.dependsOnKind(o.Defines)
	case ownKind("PodProtector"):
		return f.Local && f.Key == types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	case ownKind("Cell"):
		if f.share != nil { // its pods are counted by the copy of the Cell, also if none is left
			return f.Local && f.share.Cell == o.Name
		}
		return f.Local && slices.Contains(f.cells, o.Name)
	}
	return f.dependsOnWorkload(o)
}

// dependsOnKind reports whether the floor is lost if all objects of a kind are deleted.
func (f *Floor) dependsOnKind(kind schema.GroupKind) bool {
	if kind.Group == v1alpha1.GroupVersion.Group {
		switch kind.Kind {
		case "PodProtector", "Cell", "ClusterRing": // the components cannot work without them
			return f.Local
		}
		return f.Local && kind.Kind == f.policy
	}
	return f.isFromKind(kind) || f.LocalPods > 0 && f.target != nil && f.target.GroupKind() == kind
}

// isFromKind reports whether the source of the floor is of a kind, or in the core cluster of its PodProtector an owner of the source.
func (f *Floor) isFromKind(kind schema.GroupKind) bool {
	return f.Source != nil && f.Source.GroupKind() == kind ||
		f.Local && slices.ContainsFunc(f.Owners, func(owner Owner) bool { return owner.Kind == kind })
}

func (f *Floor) dependsOnWorkload(o *Object) bool {
	if f.isFrom(o) || f.isOwnedBy(o) {
		return true
	}
	if f.LocalPods == 0 || f.Key.Namespace != o.Namespace {
		return false
	}
	return f.target != nil && *f.target == refOf(o) || o.TemplateLabels != nil && f.covers(o.TemplateLabels)
}

// covers reports whether the floor protects pods with these labels in a cell of the cluster.
func (f *Floor) covers(labels map[string]string) bool {
	if !removal.NamesWorkload(f.protector) {
		return removal.CoverageIn(f.protector, "").Covers(labels) // the coverage is the same in every cell
	}
	return slices.ContainsFunc(f.counted, func(cell string) bool { return removal.CoverageIn(f.protector, cell).Covers(labels) })
}

// isFrom reports whether the object is the source of the floor, in the core cluster of its PodProtector.
func (f *Floor) isFrom(o *Object) bool { return f.Local && f.Source != nil && *f.Source == refOf(o) }

// isOwnedBy reports whether the garbage collector deletes the floor's source after the object.
func (f *Floor) isOwnedBy(o *Object) bool {
	return f.Local && o.UID != "" && slices.ContainsFunc(f.Owners, func(owner Owner) bool { return owner.UID == o.UID })
}

func refOf(o *Object) policy.Ref {
	return policy.Ref{Group: o.Kind.Group, Kind: o.Kind.Kind, Namespace: o.Namespace, Name: o.Name}
}
