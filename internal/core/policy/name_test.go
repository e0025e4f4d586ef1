package policy

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validation"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestProtectorName(t *testing.T) {
	for claim, c := range map[string]struct{ deployment, want string }{
		"carries the Deployment's name": {"web", "deployment-web"},
		"carries dots":                  {"web.v1", "deployment-web.v1"},
		"is whole up to 252 characters": {strings.Repeat("a", 241), "deployment-" + strings.Repeat("a", 241)},
		"ends in a hash when it is longer": {strings.Repeat("a", 242),
			"deployment-" + strings.Repeat("a", 222) + "8fded59c427b2e6809c8"},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := ProtectorName(deploymentRef(c.deployment)); got != c.want {
				t.Errorf("ProtectorName(%q) = %q, want %q", c.deployment, got, c.want)
			}
		})
	}
}

// longNames generates names that differ, if at all, only after the position where the name is cut.
func longNames() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		length := rapid.IntRange(225, 253).Draw(t, "length")
		middle := rapid.SampledFrom([]string{"a", "a.", "-", "a--", "0"}).Draw(t, "middle")
		end := rapid.StringMatching(`[a-c]{1,3}`).Draw(t, "end")
		name := "a" + strings.Repeat(middle, length)
		return name[:length-len(end)-1] + "x" + end
	})
}

func TestProtectorNamesAreUniqueAndValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := longNames().Draw(t, "a"), longNames().Draw(t, "b")
		if (ProtectorName(deploymentRef(a)) == ProtectorName(deploymentRef(b))) != (a == b) {
			t.Fatalf("%q and %q: %q and %q", a, b, ProtectorName(deploymentRef(a)), ProtectorName(deploymentRef(b)))
		}
		if problems := validation.NameIsDNSSubdomain(a, false); problems != nil {
			t.Fatalf("test generated an invalid name %q: %v", a, problems)
		}
		if problems := validation.NameIsDNSSubdomain(ProtectorName(deploymentRef(a)), false); problems != nil {
			t.Fatalf("ProtectorName(%q) = %q: %v", a, ProtectorName(deploymentRef(a)), problems)
		}
	})
}

func TestHashedNamesDoNotCollide(t *testing.T) {
	long := ProtectorName(deploymentRef(strings.Repeat("a", 250)))
	thief := strings.TrimPrefix(long, "deployment-")
	if ProtectorName(deploymentRef(thief)) == long {
		t.Errorf("Deployment %q has the protector of another Deployment", thief)
	}
}

func deploymentRef(name string) Ref {
	return Ref{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: name}
}

func TestPartName(t *testing.T) {
	for claim, c := range map[string]struct {
		source Ref
		part   string
		want   string
	}{
		"a StatefulSet":               {Ref{Group: "apps", Kind: "StatefulSet", Name: "web"}, "", "statefulset-web"},
		"a kind of the core":          {Ref{Kind: "ReplicationController", Name: "web"}, "", "replicationcontroller-web"},
		"another group's Deployment":  {Ref{Group: "example.com", Kind: "Deployment", Name: "web"}, "", "deployment.example.com-web"},
		"a group with a dash in it":   {Ref{Group: "my-shop.io", Kind: "Rollout", Name: "web"}, "", "rollout.41ba78259c75ff8b364c-web"},
		"a part":                      {Ref{Group: "example.com", Kind: "Bundle", Name: "web"}, "front", "bundle.example.com-web-front-5bb8e40a"},
		"a part of another by a dash": {Ref{Group: "example.com", Kind: "Bundle", Name: "web-front"}, "x", "bundle.example.com-web-front-x-2687173e"},
	} {
		t.Run(claim, func(t *testing.T) {
			got := PartName(c.source, c.part)
			if got != c.want {
				t.Errorf("PartName(%v, %q) = %q, want %q", c.source, c.part, got, c.want)
			}
			if problems := validation.NameIsDNSSubdomain(got, false); problems != nil {
				t.Errorf("%q is not a valid name: %v", got, problems)
			}
		})
	}
}

// Kinds, groups and names have few letters, so that ambiguous combinations are likely.
func TestSourcesHaveUniqueProtectorNames(t *testing.T) {
	source := rapid.Custom(func(t *rapid.T) Ref {
		return Ref{
			Kind:  rapid.StringMatching(`A[ab]?`).Draw(t, "kind"),
			Group: rapid.SampledFrom([]string{"a", "a.b", "a-b", "a.b-a", "a.b.a", "apps"}).Draw(t, "group"),
			Name:  rapid.StringMatching(`a(-a|\.a|b){0,3}`).Draw(t, "name"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := source.Draw(t, "a"), source.Draw(t, "b")
		if (ProtectorName(a) == ProtectorName(b)) != (a == b) {
			t.Fatalf("%v and %v: %q and %q", a, b, ProtectorName(a), ProtectorName(b))
		}
		x, y := rapid.StringMatching(`a(-a)?`).Draw(t, "x"), rapid.StringMatching(`a(-a)?`).Draw(t, "y")
		if (PartName(a, x) == PartName(b, y)) != (a == b && x == y) {
			t.Fatalf("parts %v %s and %v %s: %q and %q", a, x, b, y, PartName(a, x), PartName(b, y))
		}
		if problems := validation.NameIsDNSSubdomain(PartName(a, x), false); problems != nil {
			t.Fatalf("PartName(%v, %q) = %q: %v", a, x, PartName(a, x), problems)
		}
	})
}

func TestSourceOf(t *testing.T) {
	long := strings.Repeat("a", 250)
	bundle := Ref{Group: "example.com", Kind: "Bundle", Namespace: "shop", Name: "web"}
	for claim, c := range map[string]struct {
		protector, name, kind, apiVersion, part string
		want                                    Ref
		wantVersion                             string
		wantOK                                  bool
	}{
		"the annotations":                                     {"deployment-web", "web", "Deployment", "apps/v1", "", deploymentRef("web"), "v1", true},
		"the annotation of a truncated name":                  {ProtectorName(deploymentRef(long)), long, "", "", "", deploymentRef(long), "v1", true},
		"the name without annotations":                        {"deployment-web", "", "", "", "", deploymentRef("web"), "v1", true},
		"the name when the annotation has another name":       {"deployment-web", "shop", "Deployment", "apps/v1", "", deploymentRef("web"), "v1", true},
		"the name when the annotation has another kind":       {"deployment-web", "web", "StatefulSet", "apps/v1", "", deploymentRef("web"), "v1", true},
		"the name of a StatefulSet":                           {"statefulset-web", "", "", "", "", Ref{"apps", "StatefulSet", "shop", "web"}, "v1", true},
		"the name of a ReplicationController":                 {"replicationcontroller-web", "", "", "", "", Ref{"", "ReplicationController", "shop", "web"}, "v1", true},
		"another kind by its annotations":                     {"bundle.example.com-web", "web", "Bundle", "example.com/v2", "", bundle, "v2", true},
		"a part":                                              {PartName(bundle, "front"), "web", "Bundle", "example.com/v2", "front", bundle, "v2", true},
		"nothing for a part that is not that one":             {PartName(bundle, "front"), "web", "Bundle", "example.com/v2", "back", Ref{}, "", false},
		"nothing for another kind without annotations":        {"bundle.example.com-web", "", "", "", "", Ref{}, "", false},
		"nothing for a truncated name without its annotation": {ProtectorName(deploymentRef(long)), "", "", "", "", Ref{}, "", false},
		"nothing for a protector that is not named like one":  {"web", "", "", "", "", Ref{}, "", false},
		"nothing when only the annotation matches":            {"web", "web", "Deployment", "apps/v1", "", Ref{}, "", false},
	} {
		t.Run(claim, func(t *testing.T) {
			p := &v1alpha1.PodProtector{}
			p.Name, p.Namespace = c.protector, "shop"
			p.Labels = map[string]string{v1alpha1.LabelSourceKind: c.kind}
			p.Annotations = map[string]string{v1alpha1.AnnotationSourceName: c.name,
				v1alpha1.AnnotationSourceAPIVersion: c.apiVersion, v1alpha1.AnnotationSourcePart: c.part}
			got, version, ok := SourceOf(p)
			if got != c.want || version != c.wantVersion || ok != c.wantOK {
				t.Errorf("SourceOf() = %v, %q, %v; want %v, %q, %v", got, version, ok, c.want, c.wantVersion, c.wantOK)
			}
		})
	}
}
