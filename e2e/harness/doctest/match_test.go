package doctest_test

import (
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
)

func TestCompareIgnoresVolatileText(t *testing.T) {
	for claim, c := range map[string]struct {
		shown, output string
		wrapped, same bool
	}{
		"the same":                        {shown: "a\nb", output: "a\nb\n", same: true},
		"another word":                    {shown: "a\nb", output: "a\nc\n"},
		"a line more":                     {shown: "a", output: "a\nb\n"},
		"a line less":                     {shown: "a\nb", output: "a\n"},
		"wider columns":                   {shown: "NAME  AGE\nweb   1s", output: "NAME     AGE \nweb      1s", same: true},
		"a word split in two":             {shown: "web", output: "we b"},
		"another age":                     {shown: "web  46s", output: "web  3m2s", same: true},
		"another number":                  {shown: "web  46", output: "web  47"},
		"another time":                    {shown: "at 2026-01-02T03:04:05Z", output: "at 2027-01-02T03:04:05.123+01:00", same: true},
		"another pod of a Deployment":     {shown: "pod/web-6b7f9-x2x4k", output: "pod/web-7d9c5b8f6d-zzzzz", same: true},
		"a pod of another Deployment":     {shown: "pod/web-6b7f9-x2x4k", output: "pod/api-7d9c5b8f6d-zzzzz"},
		"a pod of a StatefulSet":          {shown: "pod/web-0", output: "pod/web-1"},
		"another port of this machine":    {shown: "https://127.0.0.1:1", output: "https://127.0.0.1:65000", same: true},
		"any text of a line":              {shown: "floor …, available 3", output: "floor 40, available 3", same: true},
		"no text for a wildcard":          {shown: "a…b", output: "ab", same: true},
		"text of another line":            {shown: "a…b", output: "a\nb"},
		"any lines":                       {shown: "a\n…\nz", output: "a\nb\nc\nz", same: true},
		"no lines for a wildcard":         {shown: "a\n…\nz", output: "a\nz", same: true},
		"any lines, then another line":    {shown: "a\n…\nz", output: "a\nb\nc"},
		"a period is not a pattern":       {shown: "a.b", output: "axb"},
		"broken lines":                    {shown: "one\ntwo", output: "one two", wrapped: true, same: true},
		"broken lines without the option": {shown: "one\ntwo", output: "one two"},
		"broken lines with another word":  {shown: "one\ntwo", output: "one too", wrapped: true},
	} {
		t.Run(claim, func(t *testing.T) {
			if difference := doctest.Compare(c.shown, c.output, c.wrapped); (difference == "") != c.same {
				t.Errorf("Compare() matched: %t\n%s", difference == "", difference)
			}
		})
	}
}
