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

func TestDisplayReasonReturnsOneLine(t *testing.T) {
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
		if got := removal.DisplayReason(given); got != want {
			t.Errorf("DisplayReason(%.40q) = %q, want %q", given, got, want)
		}
	}
}

func TestDisplayReasonIsAlwaysPrintable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) })).Draw(t, "reason")
		displayed := removal.DisplayReason(strings.Repeat(given, rapid.IntRange(1, 50).Draw(t, "times")))
		if len(displayed) > v1alpha1.MostForceReason || !utf8.ValidString(displayed) || strings.ContainsFunc(displayed, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("DisplayReason() = %q (%d bytes), want a short printable line", displayed, len(displayed))
		}
		if removal.DisplayReason(displayed) != displayed {
			t.Fatalf("DisplayReason(%q) = %q, want it unchanged", displayed, removal.DisplayReason(displayed))
		}
	})
}
