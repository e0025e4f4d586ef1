package rootguard

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// warning returns the text for a client whose deletion was allowed.
func (q *Deletion) warning(a *Answer, depending []*Floor) string {
	return fmt.Sprintf("Breakwater: deleting %s affects %s; %s", q.Object, a.countsText(depending), q.advice(a, depending))
}

// advice explains the remedy for a deletion that was allowed.
func (q *Deletion) advice(a *Answer, depending []*Floor) string {
	o, stays := q.Object, "they stay in force"
	if a.Floors == 1 {
		stays = "it stays in force"
	}
	if areShares(depending) && o.Class() != workload {
		return q.adviceOnShares()
	}
	switch q.effectOn(depending) {
	case effectKeeps:
		return stays + ", and the webhook denies removals of pods beyond the budget"
	case effectCascades:
		return stays + " until you confirm: " + annotateCommand(o)
	}
	if o.Kind == ownKind("Cell") {
		return "the pods of the cell no longer count"
	}
	if o.Class() == workload && len(depending) == 1 {
		// The workload may not exist any more when the client reads this text.
		key := depending[0].Key
		o = &Object{Kind: ownKind("PodProtector"), Namespace: key.Namespace, Name: key.Name}
	}
	return "confirm an intended release: " + annotateCommand(o)
}

// adviceOnShares explains what follows the deletion of shares, or of what they need. Breakwater recreates both, so nothing is released.
func (q *Deletion) adviceOnShares() string {
	const needs = ", for which it needs their core clusters"
	if q.Object.Kind == ownKind("Cell") {
		return "Breakwater does not count their pods until it has recreated the Cell" + needs
	}
	return "removals of these pods are denied until Breakwater has recreated the shares" + needs
}

// effect is the effect of a deletion on the PodProtectors of floors.
type effect int

const (
	// effectKeeps leaves the PodProtectors unchanged: only pods are affected.
	effectKeeps effect = iota
	// effectCascades deletes sources or PodProtectors along with another object.
	effectCascades
	// effectReleases deletes a source, a PodProtector, or an object that Breakwater depends on.
	effectReleases
)

func (q *Deletion) effectOn(depending []*Floor) effect {
	o, found := q.Object, effectKeeps
	for _, f := range depending {
		switch {
		case !f.Local, f.share != nil: // a share releases nothing
		case o.Kind == namespaceKind() || o.Kind == definitionKind() && o.Defines.Group != v1alpha1.GroupVersion.Group:
			return effectCascades
		case o.Class() != workload || f.isFrom(o):
			return effectReleases
		case f.isOwnedBy(o):
			found = effectCascades
		}
	}
	return found
}

// denial returns the text for a client whose deletion was denied.
func (q *Deletion) denial(a *Answer, depending []*Floor) string {
	depend := "depend"
	if len(depending) == 1 {
		depend = "depends"
	}
	text := fmt.Sprintf("Breakwater denies the deletion of %s: %s %s on it; if it is intended, confirm it: %s",
		q.Object, a.countsText(depending), depend, annotateCommand(q.Object))
	if q.Object.Replicas != nil {
		text += ", or scale it to 0 first"
	}
	return text
}

// areShares reports whether all of these floors are shares.
func areShares(depending []*Floor) bool {
	return !slices.ContainsFunc(depending, func(f *Floor) bool { return f.share == nil })
}

func (a *Answer) countsText(depending []*Floor) string {
	keep, pods := "keep", counted(a.Pods, "pod")+" available"
	if len(depending) == 1 {
		keep = "keeps"
	}
	if areShares(depending) {
		return fmt.Sprintf("%s of %s that %s %s in this cluster", counted(a.Shares, "share"), counted(a.Floors, "floor"), keep, pods)
	}
	return fmt.Sprintf("%s that %s %s%s", counted(a.Floors, "floor"), keep, pods, a.localPodsText(depending))
}

// localPodsText returns the number of affected pods in this cluster as text, unless the cluster is the core of all these floors.
func (a *Answer) localPodsText(depending []*Floor) string {
	switch {
	case !slices.ContainsFunc(depending, func(f *Floor) bool { return !f.Local }):
		return ""
	case a.LocalPods == 1:
		return " (1 available pod runs in this cluster)"
	}
	return fmt.Sprintf(" (%d available pods run in this cluster)", a.LocalPods)
}

// counted returns a number with its noun.
func counted(number int, noun string) string {
	if number == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", number, noun)
}

// annotateCommand returns the command that confirms the release on an object.
func annotateCommand(o *Object) string {
	namespace := ""
	if o.Namespace != "" {
		namespace = "-n " + o.Namespace + " "
	}
	return fmt.Sprintf("kubectl annotate %s%s %s %s=true", namespace, kubectlKind(o.Kind, o.Resource), o.Name, v1alpha1.AnnotationConfirmRelease)
}

// kubectlKind returns the name of a kind as a kubectl argument: short for well-known kinds.
func kubectlKind(kind schema.GroupKind, resource schema.GroupResource) string {
	switch {
	case kind == definitionKind():
		return "crd"
	case kind.Group == "" || kind.Group == "apps" || kind.Group == v1alpha1.GroupVersion.Group:
		return strings.ToLower(kind.Kind)
	}
	return resource.String()
}
