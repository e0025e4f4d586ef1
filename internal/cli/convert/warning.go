package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Reason is why a warning is given, in one word.
type Reason string

// The reasons.
const (
	// EvictionsOnly: the source guards evictions alone, the protector deletes as well.
	EvictionsOnly Reason = "EvictionsOnly"
	// OneCluster: the source counts the pods of its cluster, the protector those of all cells.
	OneCluster Reason = "OneCluster"
	// UnhealthyPods: the source can refuse to evict pods that are not ready, the protector never does.
	UnhealthyPods Reason = "UnhealthyPods"
	// NothingToSpare: all that is expected must stay.
	NothingToSpare Reason = "NothingToSpare"
	// PercentageBase: what the floor is reckoned from is another number.
	PercentageBase Reason = "PercentageBase"
	// Retained: the protector outlives the workload.
	Retained Reason = "Retained"
	// ExemptNotCounted: pods that may always go counted towards the source's floor.
	ExemptNotCounted Reason = "ExemptNotCounted"
	// DoesNotFollow: something else writes the source, and will not write the protector.
	DoesNotFollow Reason = "DoesNotFollow"
	// BothMustAdmit: another protector can cover the same pods.
	BothMustAdmit Reason = "BothMustAdmit"
	// PodsAlone: the source changes templates of workloads, the policy pods.
	PodsAlone Reason = "PodsAlone"
	// DaemonSets: what chooses nodes does not reach the pods of DaemonSets.
	DaemonSets Reason = "DaemonSets"
	// KeepsOwn: a pod that no node could take with both keeps its own.
	KeepsOwn Reason = "KeepsOwn"
	// Contradicts: a part of the policy is not heeded, for another one that goes first.
	Contradicts Reason = "Contradicts"
	// Renamed: another object has the name.
	Renamed Reason = "Renamed"
	// Ignored: something in the source had no effect there, or has none here.
	Ignored Reason = "Ignored"
	// OutOfRange: a number was brought into the range that the protector allows.
	OutOfRange Reason = "OutOfRange"
	// Repeated: the source was given several times.
	Repeated Reason = "Repeated"
	// ProtectsNothing: there is no pod, or no operation, that the source protects.
	ProtectsNothing Reason = "ProtectsNothing"
	// ChoosesNothing: there is no pod that the source is for.
	ChoosesNothing Reason = "ChoosesNothing"
	// AddsNothing: the source adds nothing to pods.
	AddsNothing Reason = "AddsNothing"
	// Malformed: the source is not what its kind says.
	Malformed Reason = "Malformed"
	// NotPossible: no protector, or policy, can say the same.
	NotPossible Reason = "NotPossible"
)

// Reasons are all of them, in the order in which docs/migrate.md explains them.
func Reasons() []Reason {
	return []Reason{EvictionsOnly, OneCluster, UnhealthyPods, NothingToSpare, PercentageBase, Retained, ExemptNotCounted, DoesNotFollow,
		BothMustAdmit, PodsAlone, DaemonSets, KeepsOwn, Contradicts, Renamed, Ignored, OutOfRange, Repeated, ProtectsNothing, ChoosesNothing,
		AddsNothing, Malformed, NotPossible}
}

// Warning tells what differs, of one object, in one sentence.
type Warning struct {
	About   Ref
	Reason  Reason
	Message string
	// Lost tells that the object was not converted.
	Lost bool
}

// Ref names an object to people.
type Ref struct {
	// Title is its kind, or the kind and whose it is.
	Title           string
	Namespace, Name string
	// Origin is where it was read; empty if that is a cluster.
	Origin string
}

// ID is namespace and name.
func (r Ref) ID() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

func (r Ref) String() string { return r.Title + " " + r.ID() }

func (r Ref) in() string {
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

// reading is the conversion of one object.
type reading struct {
	from     Ref
	warnings []Warning
	// generated tells that its name is the one that our own generator has for a protector of the same workload.
	generated bool
}

// differs tells of a difference that the protector has.
func (r *reading) differs(reason Reason, format string, args ...any) {
	r.warnings = append(r.warnings, Warning{About: r.from, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// isLost tells that nothing was made of the object.
func (r *reading) isLost() bool {
	return slices.ContainsFunc(r.warnings, func(w Warning) bool { return w.Lost })
}

// lost tells why there is no protector, or policy. What else was told of it does not matter then.
func (r *reading) lost(reason Reason, format string, args ...any) {
	r.warnings = []Warning{{About: r.from, Reason: reason, Message: fmt.Sprintf(format, args...), Lost: true}}
}
