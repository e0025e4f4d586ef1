package convert

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Reason is the category of a warning, in one word.
type Reason string

// Reasons.
const (
	// EvictionsOnly: the source guards only evictions, the protector also deletions.
	EvictionsOnly Reason = "EvictionsOnly"
	// LabelsMove: the selector uses labels that controllers move between living pods.
	LabelsMove Reason = "LabelsMove"
	// ExemptNamespace: the webhooks do not review removals in the namespace.
	ExemptNamespace Reason = "ExemptNamespace"
	// OneCluster: the source counts the pods of its cluster, the protector those of all cells.
	OneCluster Reason = "OneCluster"
	// UnhealthyPods: the source can deny evictions of pods that are not ready, the protector never does.
	UnhealthyPods Reason = "UnhealthyPods"
	// NothingToSpare: all expected pods must stay available.
	NothingToSpare Reason = "NothingToSpare"
	// PercentageBase: the base of the floor is a different number.
	PercentageBase Reason = "PercentageBase"
	// DoesNotFollow: a controller writes the source, and will not write the protector.
	DoesNotFollow Reason = "DoesNotFollow"
	// BothMustAdmit: another protector can cover the same pods.
	BothMustAdmit Reason = "BothMustAdmit"
	// Ignored: a part of the source had no effect there, or has none here.
	Ignored Reason = "Ignored"
	// Repeated: the source was given several times.
	Repeated Reason = "Repeated"
	// ProtectsNothing: the source protects no pod.
	ProtectsNothing Reason = "ProtectsNothing"
	// Malformed: the source is invalid.
	Malformed Reason = "Malformed"
	// NotPossible: no protector can express the same.
	NotPossible Reason = "NotPossible"
)

// Reasons returns all reasons, in the order in which docs/how-to/migrate.md explains them.
func Reasons() []Reason {
	return []Reason{
		EvictionsOnly, LabelsMove, ExemptNamespace, OneCluster, UnhealthyPods, NothingToSpare, PercentageBase, DoesNotFollow, BothMustAdmit, Ignored,
		Repeated, ProtectsNothing, Malformed, NotPossible,
	}
}

// Warning describes a difference of one object in one sentence.
type Warning struct {
	About   Ref
	Reason  Reason
	Message string
	// NotConverted reports whether the object was not converted.
	NotConverted bool
}

// Ref names an object in messages.
type Ref struct {
	// Title is the kind.
	Title           string
	Namespace, Name string
	// Origin is where the object was read. It is empty for a cluster.
	Origin string
}

// ID returns namespace/name, or the name of a cluster-scoped object.
func (r Ref) ID() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

func (r Ref) String() string { return r.Title + " " + r.ID() }

func (r Ref) originSuffix() string {
	if r.Origin == "" {
		return ""
	}
	return " in " + r.Origin
}

func (r Ref) compare(o Ref) int {
	return cmp.Or(strings.Compare(r.Title, o.Title), strings.Compare(r.Namespace, o.Namespace), strings.Compare(r.Name, o.Name))
}

func refOf(title string, source Source) Ref {
	return Ref{Title: title, Namespace: source.Object.GetNamespace(), Name: source.Object.GetName(), Origin: source.Origin}
}

// conversion is the conversion of one budget. Later steps can still drop its protector.
type conversion struct {
	from      Ref
	protector v1alpha1.PodProtector
	warnings  []Warning
}

// warn records a difference between the source and the result.
func (c *conversion) warn(reason Reason, format string, args ...any) {
	c.warnings = append(c.warnings, Warning{About: c.from, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// reject records why the object was not converted. It discards earlier warnings of the object.
func (c *conversion) reject(reason Reason, format string, args ...any) {
	c.warnings = []Warning{{About: c.from, Reason: reason, Message: fmt.Sprintf(format, args...), NotConverted: true}}
}
