package rootguard

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// warning returns the text for a client whose deletion is allowed: the floors that depend on the object, and what happens to them.
func (q *Deletion) warning(floors []*Floor) string {
	text := fmt.Sprintf("Breakwater: %s %s on %s: ", countsText(floors), verb(len(floors), "depend"), q.Object)
	if areShares(floors) && q.Object.Class() != workload {
		return text + q.adviceOnShares()
	}
	return text + q.fatesText(floors)
}

// adviceOnShares explains what follows the deletion of shares, or of what they need. Breakwater recreates both, so nothing is released.
func (q *Deletion) adviceOnShares() string {
	const needs = ", for which it needs their core clusters"
	if q.Object.Kind == ownKind("Cell") {
		return "Breakwater does not count their pods until it has recreated the Cell" + needs
	}
	return "removals of these pods are denied until Breakwater has recreated the shares" + needs
}

// fatesText returns how many floors have which fate, and the command that confirms their release if any is unconfirmed.
func (q *Deletion) fatesText(floors []*Floor) string {
	counts, open := map[fate]int{}, []*Floor(nil)
	for _, f := range floors {
		of := q.fateOf(f)
		counts[of]++
		if of == held || of == braked {
			open = append(open, f)
		}
	}
	var clauses []string
	for _, of := range slices.Sorted(maps.Keys(counts)) {
		n := counts[of]
		subject := strconv.Itoa(n)
		switch {
		case n == len(floors) && n == 1:
			subject = "it"
		case n == len(floors):
			subject = "they"
		}
		clauses = append(clauses, subject+" "+of.clause(n))
	}
	text := strings.Join(clauses, ", ")
	switch {
	case len(open) == 0:
		return text
	case counts[held] == len(floors): // the clause ends with "confirm"
		return text + ": " + q.confirmCommand(open)
	}
	return text + "; confirm: " + q.confirmCommand(open)
}

// confirmCommand returns a command that confirms the release of floors, also after the deletion.
func (q *Deletion) confirmCommand(floors []*Floor) string {
	namespace := floors[0].Key.Namespace
	switch {
	case q.Object.Kind == namespaceKind():
		return annotateCommand(q.Object)
	case len(floors) == 1:
		return annotateCommand(&Object{Kind: ownKind("PodProtector"), Namespace: namespace, Name: floors[0].Key.Name})
	case slices.ContainsFunc(floors, func(f *Floor) bool { return f.Key.Namespace != namespace }):
		return "kubectl breakwater release --pending -A"
	}
	return annotateCommand(&Object{Kind: namespaceKind(), Name: namespace})
}

// denial returns the text for a client whose deletion was denied.
func (q *Deletion) denial(depending []*Floor) string {
	text := fmt.Sprintf("Breakwater denies the deletion of %s: %s %s on it; if it is intended, confirm it: %s",
		q.Object, countsText(depending), verb(len(depending), "depend"), annotateCommand(q.Object))
	if q.Object.Replicas != nil {
		text += ", or scale it to 0 first"
	}
	return text
}

// areShares reports whether all of these floors are shares.
func areShares(floors []*Floor) bool {
	return !slices.ContainsFunc(floors, func(f *Floor) bool { return f.share == nil })
}

// countsText returns the number of floors, of the pods that they keep available, and of their available pods. It also returns the number of
// available pods in this cluster, unless the cluster is the core of all these floors.
func countsText(floors []*Floor) string {
	a, available := count(floors), 0
	for _, f := range floors {
		available += f.Available
	}
	keep, pods := verb(len(floors), "keep"), counted(a.Pods, "pod")
	switch {
	case areShares(floors):
		return fmt.Sprintf("%s of %s that %s %s available in this cluster (now %d)", counted(a.Shares, "share"), counted(a.Floors, "floor"), keep, pods, available)
	case slices.ContainsFunc(floors, func(f *Floor) bool { return !f.Local }):
		return fmt.Sprintf("%s that %s %s available (now %d, %d of them in this cluster)", counted(a.Floors, "floor"), keep, pods, available, a.LocalPods)
	}
	return fmt.Sprintf("%s that %s %s available (now %d)", counted(a.Floors, "floor"), keep, pods, available)
}

// counted returns a number with its noun.
func counted(number int, noun string) string {
	if number == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", number, noun)
}

// verb returns a regular verb for a number of subjects.
func verb(subjects int, plural string) string {
	if subjects == 1 {
		return plural + "s"
	}
	return plural
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
