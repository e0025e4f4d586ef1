package removal_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func TestAReasonIsToldInOneLine(t *testing.T) {
	long := strings.Repeat("ä", 200)
	for given, want := range map[string]string{
		"":                          "",
		"node 7 is on fire":         "node 7 is on fire",
		" two\nlines\t and \r\n so": "two lines and so",
		"\x1b[31mred\x1b[0m":        "[31mred[0m",
		"a\x00b\u202ec\xffd":        "abcd",
		long:                        strings.Repeat("ä", 126) + "…",
		strings.Repeat("x", 256):    strings.Repeat("x", 256),
		strings.Repeat("x", 300000): strings.Repeat("x", 253) + "…",
	} {
		if got := removal.Tellable(given); got != want {
			t.Errorf("%.40q: told %q, want %q", given, got, want)
		}
	}
}

func TestWhateverAReasonIsItCanBeTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) })).Draw(t, "reason")
		told := removal.Tellable(strings.Repeat(given, rapid.IntRange(1, 50).Draw(t, "times")))
		if len(told) > v1alpha1.MostForceReason || !utf8.ValidString(told) || strings.ContainsFunc(told, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("told %q (%d bytes)", told, len(told))
		}
		if removal.Tellable(told) != told {
			t.Fatalf("%q is told as %q", told, removal.Tellable(told))
		}
	})
}
