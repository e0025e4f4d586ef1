package policy

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestUnidentifiedProtectorBelongsToSourceByName(t *testing.T) {
	bundle := func(name string) Ref { return Ref{Group: "example.com", Kind: "Bundle", Namespace: "shop", Name: name} }
	dashed := Ref{Group: "my-group.io", Kind: "Bundle", Namespace: "shop", Name: "web"}
	long, front := bundle(strings.Repeat("a", 250)), PartName(bundle("web"), "front")
	for claim, c := range map[string]struct {
		protector, name, part, apiVersion string
		source                            Ref
		want                              bool
		wantKind                          schema.GroupResource
	}{
		"its name":                       {"bundle.example.com-web", "", "", "", bundle("web"), true, bundleResource("example.com")},
		"the name of another source":     {"bundle.example.com-web", "", "", "", bundle("shop"), false, bundleResource("example.com")},
		"its name, another annotation":   {"bundle.example.com-web", "shop", "", "example.com/v1", bundle("web"), true, bundleResource("example.com")},
		"its name, the annotated source": {"bundle.example.com-web", "shop", "", "example.com/v1", bundle("shop"), false, bundleResource("example.com")},
		"another kind":                   {"bundle.example.com-web", "", "", "", Ref{"example.com", "Set", "shop", "web"}, false, bundleResource("example.com")},
		"another namespace":              {"bundle.example.com-web", "", "", "", Ref{"example.com", "Bundle", "cart", "web"}, false, bundleResource("example.com")},
		"a part":                         {front, "", "", "", bundle("web"), true, bundleResource("example.com")},
		"a source named like a part":     {front, "", "", "", bundle(strings.TrimPrefix(front, "bundle.example.com-")), false, bundleResource("example.com")},
		"an annotated source named like it": {front, strings.TrimPrefix(front, "bundle.example.com-"), "", "",
			bundle(strings.TrimPrefix(front, "bundle.example.com-")), true, bundleResource("example.com")},
		"a truncated name":                {ProtectorName(long), "", "", "", long, true, bundleResource("example.com")},
		"another truncated name":          {ProtectorName(long), "", "", "", bundle(strings.Repeat("a", 249)), false, bundleResource("example.com")},
		"the hash of a group":             {ProtectorName(dashed), "", "", "my-group.io/v1", dashed, true, bundleResource("my-group.io")},
		"a kind that has no short prefix": {"bundle-web", "", "", "", Ref{"apps", "Bundle", "shop", "web"}, true, bundleResource("apps")},
	} {
		t.Run(claim, func(t *testing.T) {
			p := &v1alpha1.PodProtector{}
			p.Name, p.Namespace, p.Finalizers = c.protector, "shop", []string{v1alpha1.FinalizerProtector}
			p.Annotations = map[string]string{v1alpha1.AnnotationSourceName: c.name,
				v1alpha1.AnnotationSourceAPIVersion: c.apiVersion, v1alpha1.AnnotationSourcePart: c.part}
			if got := BelongsTo(p, c.source); got != c.want {
				t.Errorf("BelongsTo(%v) = %v, want %v", c.source, got, c.want)
			}
			if got := KindInName(p); got != c.wantKind {
				t.Errorf("KindInName() = %v, want %v", got, c.wantKind)
			}
			if c.want && len(p.Name) < maxNameLength && !slices.Equal(SourcesByName(p, c.source.GroupKind()), []Ref{c.source}) {
				t.Errorf("SourcesByName() = %v, want %v", SourcesByName(p, c.source.GroupKind()), c.source)
			}
			p.Finalizers = nil
			if BelongsTo(p, c.source) {
				t.Error("BelongsTo() = true for a protector that is not generated, want false")
			}
		})
	}
}

func bundleResource(group string) schema.GroupResource {
	return schema.GroupResource{Group: group, Resource: "bundle"}
}
