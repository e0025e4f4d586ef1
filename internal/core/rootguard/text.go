package rootguard

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// warning returns the text for a client whose deletion was allowed.
func (q *Question) warning(a *Answer, depending []*Floor) string {
	return fmt.Sprintf("Breakwater: deleting %s affects %s%s; %s", q.Object, a.counts(), q.here(a), q.advice(a, depending))
}

// advice explains the remedy for a deletion that was allowed.
func (q *Question) advice(a *Answer, depending []*Floor) string {
	o, stays := q.Object, "they stay in force"
	if a.Floors == 1 {
		stays = "it stays in force"
	}
	switch q.effect(depending) {
	case keeps:
		return stays + ", and the webhook denies removals of pods beyond the budget"
	case cascades:
		return stays + " until you confirm: " + annotate(o)
	}
	if o.Kind == own("Cell") {
		return "the pods of the cell no longer count"
	}
	if o.Class() == workload && len(depending) == 1 {
		// The workload may not exist any more when the client reads this text.
		key := depending[0].Key
		o = &Object{Kind: own("PodProtector"), Namespace: key.Namespace, Name: key.Name}
	}
	return "confirm a release on purpose: " + annotate(o)
}

// effect is the effect of a deletion on the PodProtectors of floors.
type effect int

const (
	// keeps leaves the PodProtectors unchanged: only pods are affected.
	keeps effect = iota
	// cascades deletes sources or PodProtectors along with another object.
	cascades
	// releases deletes a source, a PodProtector, or an object that Breakwater depends on.
	releases
)

func (q *Question) effect(depending []*Floor) effect {
	o, found := q.Object, keeps
	for _, f := range depending {
		switch {
		case !f.Local:
		case o.Kind == namespaceKind() || o.Kind == definitionKind() && o.Defines.Group != v1alpha1.GroupVersion.Group:
			return cascades
		case o.Class() != workload || f.isFrom(o):
			return releases
		case f.isOwnedBy(o):
			found = cascades
		}
	}
	return found
}

// denial returns the text for a client whose deletion was denied.
func (q *Question) denial(a *Answer) string {
	depend := "depend"
	if a.Floors == 1 {
		depend = "depends"
	}
	text := fmt.Sprintf("Breakwater denies the deletion of %s: %s%s %s on it; if it is on purpose, confirm it: %s",
		q.Object, a.counts(), q.here(a), depend, annotate(q.Object))
	if q.Object.Replicas != nil {
		text += ", or scale it to 0 first"
	}
	return text
}

func (a *Answer) counts() string {
	floors, pods := fmt.Sprintf("%d floors that keep", a.Floors), fmt.Sprintf("%d pods available", a.Pods)
	if a.Floors == 1 {
		floors = "1 floor that keeps"
	}
	if a.Pods == 1 {
		pods = "1 pod available"
	}
	return floors + " " + pods
}

// here returns the number of affected pods in this cluster as text, unless the cluster is a core.
func (q *Question) here(a *Answer) string {
	switch {
	case q.At.Core != "":
		return ""
	case a.Here == 1:
		return " (1 available pod runs in this cluster)"
	}
	return fmt.Sprintf(" (%d available pods run in this cluster)", a.Here)
}

// annotate returns the command that confirms the release on an object.
func annotate(o *Object) string {
	namespace := ""
	if o.Namespace != "" {
		namespace = "-n " + o.Namespace + " "
	}
	return fmt.Sprintf("kubectl annotate %s%s %s %s=true", namespace, argument(o.Kind, o.Resource), o.Name, v1alpha1.AnnotationConfirmRelease)
}

// argument returns the name of a kind as a kubectl argument: short for well-known kinds.
func argument(kind schema.GroupKind, resource schema.GroupResource) string {
	switch {
	case kind == definitionKind():
		return "crd"
	case kind.Group == "" || kind.Group == "apps" || kind.Group == v1alpha1.GroupVersion.Group:
		return strings.ToLower(kind.Kind)
	}
	return resource.String()
}
