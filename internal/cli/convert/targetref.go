package convert

import (
	"fmt"
	"regexp"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// targetRefProblem says how a TargetRef violates the schema of v1alpha1.TargetRef; empty if it is valid.
func targetRefProblem(ref *v1alpha1.TargetRef) string {
	for _, field := range []struct {
		name, value, pattern string
		longest              int
	}{
		{"apiVersion", ref.APIVersion, `^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$`, 253},
		{"kind", ref.Kind, `^[A-Z][A-Za-z0-9]*$`, 63},
		{"name", ref.Name, `^.+$`, 253},
	} {
		switch {
		case field.value == "":
			return "has no " + field.name
		case len(field.value) > field.longest || !regexp.MustCompile(field.pattern).MatchString(field.value):
			return fmt.Sprintf("has the invalid %s %q", field.name, field.value)
		}
	}
	return ""
}
