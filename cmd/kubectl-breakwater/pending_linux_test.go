package main

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestReleasePendingAsksAtATerminal(t *testing.T) {
	const question = "Type yes to confirm 1 decrease: "
	for claim, c := range map[string]struct {
		typed, flag      string
		asked, confirmed bool
	}{
		"yes":                    {"yes\n", "", true, true},
		"yes, with spaces":       {"  yes \n", "", true, true},
		"y":                      {"y\n", "", true, false},
		"no":                     {"no\n", "", true, false},
		"nothing":                {"\n", "", true, false},
		"the end of the input":   {"\x04", "", true, false},
		"yes on the next line":   {"\nyes\n", "", true, false},
		"a dry run does not ask": {"yes\n", "--dry-run", false, false},
		"--yes does not ask":     {"no\n", "--yes", false, true},
	} {
		t.Run(claim, func(t *testing.T) {
			h := newHub(t)
			h.protect("web", 5, 9, withPendingDecrease(v1alpha1.ReasonCascade, "Deployment web was deleted", "release the floor of 5"))
			userEnd, programEnd := openTerminal(t, 80, 24)
			if _, err := userEnd.WriteString(c.typed); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			root := rootCommand(genericiooptions.IOStreams{In: programEnd, Out: &out, ErrOut: &out})
			arguments := append([]string{"release", "--pending", "web"}, h.flags...)
			if c.flag != "" {
				arguments = append(arguments, c.flag)
			}
			root.SetArgs(arguments)
			err := root.ExecuteContext(t.Context())
			if asked := strings.Contains(out.String(), question); asked != c.asked {
				t.Errorf("confirmation requested: %v, want %v\n%s", asked, c.asked, out.String())
			}
			if denied := c.asked && !c.confirmed; (err != nil) != denied {
				t.Errorf("error %v, want an error: %v", err, denied)
			}
			if confirmed := h.confirmed("web") != ""; confirmed != c.confirmed {
				t.Errorf("protector confirmed: %v, want %v\n%s", confirmed, c.confirmed, out.String())
			}
		})
	}
}
