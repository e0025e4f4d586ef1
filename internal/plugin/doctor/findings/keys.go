package findings

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// Labeled is the metadata of an object that can have labels and annotations of Breakwater.
type Labeled struct {
	// On is the kind of object that Breakwater distinguishes. Kind is its kind in the API.
	On     v1alpha1.KeyTarget
	Kind   string
	Object metav1.Object
}

// name returns the object as "Deployment shop/web".
func (l *Labeled) name() string {
	if l.Object.GetNamespace() == "" {
		return l.Kind + " " + l.Object.GetName()
	}
	return l.Kind + " " + l.Object.GetNamespace() + "/" + l.Object.GetName()
}

// checkKeys finds labels and annotations that have no effect because of their spelling, and groups objects with the same mistake.
func checkKeys(where string, read Result[[]Labeled]) []Finding {
	f := reporter{where, "labels"}
	if read.Err != nil {
		return f.unreadable("Workloads", read.Err, "Ask for permission to list workloads in all namespaces, or use --as.")
	}
	var order []string
	names := map[string][]string{}
	for i := range read.Value {
		l := &read.Value[i]
		if metav1.GetControllerOfNoCopy(l.Object) != nil {
			continue // it copies the labels of its controller, or of a template
		}
		for _, mistake := range policy.Mistakes(l.On, l.Object.GetLabels(), l.Object.GetAnnotations()) {
			text := mistake.String()
			if names[text] == nil {
				order = append(order, text)
			}
			names[text] = append(names[text], l.name())
		}
	}
	var found []Finding
	for _, text := range order {
		sentence, remedy, _ := strings.Cut(text, ". ")
		if remedy == "" {
			remedy = "Remove it, or correct it: api/v1alpha1/labels.go of the source lists the labels and annotations of Breakwater."
		}
		found = append(found, f.finding(Warning, strings.TrimSuffix(sentence, ".")+", on "+joinNames(names[text])+".", remedy, ""))
	}
	return f.orOK(found, "No label or annotation of Breakwater is misspelt.")
}

// checkIgnoredLabels finds workloads of a cell that request protection by their label, although the generator reads it in core clusters only and
// none has a protector for them.
func checkIgnoredLabels(c *Cell, cores []Core) []Finding {
	f := reporter{c.where(), "labels"}
	if c.Requesting.Err != nil {
		return f.unreadable("Workloads", c.Requesting.Err, "Ask for permission to list workloads in all namespaces, or use --as.")
	}
	sources := map[string]bool{}
	for i := range cores {
		if cores[i].Protectors.Err != nil {
			return nil // reported by protectors
		}
		for j := range cores[i].Protectors.Value {
			if ref, _, ok := policy.SourceOf(&cores[i].Protectors.Value[j]); ok {
				sources[ref.Kind+" "+ref.Namespace+"/"+ref.Name] = true
			}
		}
	}
	var names []string
	for i := range c.Requesting.Value {
		l := &c.Requesting.Value[i]
		inCell := len(c.Namespaces) == 0 || slices.Contains(c.Namespaces, l.Object.GetNamespace())
		if inCell && metav1.GetControllerOfNoCopy(l.Object) == nil && l.Object.GetLabels()[v1alpha1.LabelProtect] == "true" && !sources[l.name()] {
			names = append(names, l.name())
		}
	}
	if len(names) == 0 {
		return f.ok("No workload requests protection in a cluster where its label has no effect.")
	}
	return []Finding{f.finding(Warning, fmt.Sprintf("The label %s=true has no effect in the cluster of a cell, and no core has a protector for: %s.",
		v1alpha1.LabelProtect, joinNames(names)),
		"Create the same workload with the label in the core cluster, whose generator reads it, or create a PodProtector there.", "")}
}

// labeledOf returns the objects of a core that can have labels and annotations of Breakwater.
func labeledOf(core *Core) Result[[]Labeled] {
	all := Result[[]Labeled]{Value: slices.Clone(core.Labeled.Value), Err: core.Labeled.Err}
	for i := range core.Protectors.Value {
		all.Value = append(all.Value, Labeled{On: v1alpha1.KeyOnProtector, Kind: "PodProtector", Object: &core.Protectors.Value[i]})
	}
	return all
}

// namespacesOf returns the namespaces of a cell's cluster. The check exempt reports if they cannot be read.
func namespacesOf(c *Cell) (all Result[[]Labeled]) {
	for i := range c.NamespaceObjects.Value {
		all.Value = append(all.Value, Labeled{On: v1alpha1.KeyOnNamespace, Kind: "Namespace", Object: &c.NamespaceObjects.Value[i]})
	}
	return all
}
