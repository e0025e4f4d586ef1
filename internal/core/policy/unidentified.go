package policy

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// A generated protector is unidentified if SourceOf does not find its source: a user or a tool changed its labels or annotations. Its name then
// identifies the source, except that it has the kind in lower case.

// BelongsTo reports whether a protector is one of a source: by what SourceOf finds, and by its name if it is unidentified.
func BelongsTo(p *v1alpha1.PodProtector, source Ref) bool {
	if found, _, ok := SourceOf(p); ok {
		return found == source
	}
	return IsGenerated(p) && IsNamedFor(p, source)
}

// IsNamedFor reports whether a protector has the name of a protector of a source, and no other source could have given it that name.
func IsNamedFor(p *v1alpha1.PodProtector, source Ref) bool {
	if p.Namespace != source.Namespace {
		return false
	}
	if names := sourceNames(p, source.GroupKind()); len(names) > 0 {
		return slices.Contains(names, source.Name)
	}
	return ProtectorName(source) == p.Name // a truncated name
}

// SourcesByName returns the sources of a kind that may have given a protector its name.
func SourcesByName(p *v1alpha1.PodProtector, kind schema.GroupKind) []Ref {
	var sources []Ref
	for _, name := range sourceNames(p, kind) {
		sources = append(sources, Ref{Group: kind.Group, Kind: kind.Kind, Namespace: p.Namespace, Name: name})
	}
	return sources
}

// KindInName returns the kind, in lower case, and the group that the name of a protector begins with. The annotation decides if the name has only a hash
// of the group.
func KindInName(p *v1alpha1.PodProtector) schema.GroupResource {
	prefix, _, _ := strings.Cut(p.Name, "-")
	kind, group, hasGroup := strings.Cut(prefix, ".")
	if !hasGroup {
		group = "apps"
	}
	annotation := p.Annotations[v1alpha1.AnnotationSourceAPIVersion]
	annotated, err := schema.ParseGroupVersion(annotation)
	if err == nil && annotation != "" && kindPrefix(schema.GroupKind{Group: annotated.Group, Kind: kind}) == prefix+"-" {
		group = annotated.Group
	}
	return schema.GroupResource{Group: group, Resource: kind}
}

// sourceNames returns the names of the sources of a kind that may have given a protector its name: that of the annotation if it fits, and otherwise what
// the name has after the kind, with or without a part. It returns none for a truncated name without its annotation.
func sourceNames(p *v1alpha1.PodProtector, kind schema.GroupKind) []string {
	annotated := Ref{Group: kind.Group, Kind: kind.Kind, Namespace: p.Namespace, Name: p.Annotations[v1alpha1.AnnotationSourceName]}
	if annotated.Name != "" && PartName(annotated, p.Annotations[v1alpha1.AnnotationSourcePart]) == p.Name {
		return []string{annotated.Name}
	}
	name, found := strings.CutPrefix(p.Name, kindPrefix(kind))
	if !found || name == "" || len(p.Name) >= maxNameLength {
		return nil
	}
	if names := namesBeforePart(name); len(names) > 0 {
		return names
	}
	return []string{name}
}

// namesBeforePart returns the names of sources of which name, without its kind, is that of a part.
func namesBeforePart(name string) []string {
	end := strings.LastIndex(name, "-")
	if end < 0 {
		return nil
	}
	var names []string
	for i := range name[:end] {
		if name[i] == '-' && hash(name[:i] + "/" + name[i+1:end])[:partHashLength] == name[end+1:] {
			names = append(names, name[:i])
		}
	}
	return names
}
