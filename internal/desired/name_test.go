package desired

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
			if got := ProtectorName(c.deployment); got != c.want {
				t.Errorf("ProtectorName(%q) = %q, want %q", c.deployment, got, c.want)
			}
		})
	}
}

// longNames differ, if at all, only behind the place where the name is cut.
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
		if (ProtectorName(a) == ProtectorName(b)) != (a == b) {
			t.Fatalf("%q and %q: %q and %q", a, b, ProtectorName(a), ProtectorName(b))
		}
		if problems := validation.NameIsDNSSubdomain(a, false); problems != nil {
			t.Fatalf("the test made a name that is none, %q: %v", a, problems)
		}
		if problems := validation.NameIsDNSSubdomain(ProtectorName(a), false); problems != nil {
			t.Fatalf("ProtectorName(%q) = %q: %v", a, ProtectorName(a), problems)
		}
	})
}

func TestNoDeploymentCanTakeTheNameOfALongOne(t *testing.T) {
	long := ProtectorName(strings.Repeat("a", 250))
	thief := strings.TrimPrefix(long, deploymentPrefix)
	if ProtectorName(thief) == long {
		t.Errorf("Deployment %q has the protector of another", thief)
	}
}

func TestSourceName(t *testing.T) {
	long := strings.Repeat("a", 250)
	for claim, c := range map[string]struct {
		protector, annotation string
		want                  string
		wantOK                bool
	}{
		"the annotation":                                     {"deployment-web", "web", "web", true},
		"the annotation of a name that was cut":              {ProtectorName(long), long, long, true},
		"the name when the annotation is gone":               {"deployment-web", "", "web", true},
		"the name when the annotation tells of another":      {"deployment-web", "shop", "web", true},
		"nothing when a cut name has lost its annotation":    {ProtectorName(long), "", "", false},
		"nothing for a protector that is not named like one": {"web", "", "", false},
		"nothing when only the annotation leads somewhere":   {"web", "web", "", false},
	} {
		t.Run(claim, func(t *testing.T) {
			p := &v1alpha1.PodProtector{}
			p.Name = c.protector
			p.Annotations = map[string]string{v1alpha1.AnnotationSourceName: c.annotation}
			got, ok := SourceName(p)
			if ok != c.wantOK || (ok && got != c.want) {
				t.Errorf("SourceName = %q, %v; want %q, %v", got, ok, c.want, c.wantOK)
			}
		})
	}
}
