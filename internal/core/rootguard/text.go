package rootguard

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// warning is what a client reads whose deletion was allowed.
func (q *Question) warning(a *Answer, depending []*Floor) string {
	return fmt.Sprintf("Breakwater: deleting %s affects %s%s; %s", q.Object, a.counts(), q.here(a), q.advice(a, depending))
}

// advice is what the client can do about a deletion that was allowed.
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
		// The workload may not exist any more when the client reads this.
		key := depending[0].Key
		o = &Object{Kind: own("PodProtector"), Namespace: key.Namespace, Name: key.Name}
	}
	return "confirm a release on purpose: " + annotate(o)
}

// effect is what a deletion means for the PodProtectors of floors.
type effect int

const (
	// keeps leaves the PodProtectors as they are: only pods are in danger.
	keeps effect = iota
	// cascades deletes sources or PodProtectors along with something else.
	cascades
	// releases deletes a source, a PodProtector or what Breakwater works with.
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

// denial is what a client reads whose deletion was refused.
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

// here is how many of the pods the cluster itself has, where that is what counts.
func (q *Question) here(a *Answer) string {
	switch {
	case q.At.Core != "":
		return ""
	case a.Here == 1:
		return " (1 available pod runs in this cluster)"
	}
	return fmt.Sprintf(" (%d available pods run in this cluster)", a.Here)
}

// annotate is the command that confirms the release on an object.
func annotate(o *Object) string {
	namespace := ""
	if o.Namespace != "" {
		namespace = "-n " + o.Namespace + " "
	}
	return fmt.Sprintf("kubectl annotate %s%s %s %s=true", namespace, argument(o.Kind, o.Resource), o.Name, v1alpha1.AnnotationConfirmRelease)
}

// argument is how kubectl takes a kind: short for those that everybody has.
func argument(kind schema.GroupKind, resource schema.GroupResource) string {
	switch {
	case kind == definitionKind():
		return "crd"
	case kind.Group == "" || kind.Group == "apps" || kind.Group == v1alpha1.GroupVersion.Group:
		return strings.ToLower(kind.Kind)
	}
	return resource.String()
}
