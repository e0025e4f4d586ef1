package validate_test

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/terraform-provider/validate"
)

func TestNames(t *testing.T) {
	for claim, test := range map[string]struct {
		text                string
		isName, isNamespace bool
	}{
		"a label":                             {"web-2", true, true},
		"a subdomain is no namespace":         {"web.shop", true, false},
		"empty":                               {"", false, false},
		"upper case":                          {"Web", false, false},
		"a namespace of the greatest length":  {strings.Repeat("a", 63), true, true},
		"a namespace that is one too long":    {strings.Repeat("a", 64), true, false},
		"a name of the greatest length":       {strings.Repeat("a", 253), true, false},
		"a name that is one letter too long":  {strings.Repeat("a", 254), false, false},
		"a name that ends with a dot is none": {"web.", false, false},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := validate.IsName(test.text); got != test.isName {
				t.Errorf("IsName(%q) = %t, want %t", test.text, got, test.isName)
			}
			if got := validate.IsNamespace(test.text); got != test.isNamespace {
				t.Errorf("IsNamespace(%q) = %t, want %t", test.text, got, test.isNamespace)
			}
		})
	}
}
