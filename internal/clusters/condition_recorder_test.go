package clusters_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

func TestSentence(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "Unknown error.",
		"x":                       "X.",
		"cut":                     "Cut.",
		"übel":                    "Übel.",
		"https://a answers":       "https://a answers.",
		"\xff":                    "\uFFFD.",
		strings.Repeat("a", 2000): "A" + strings.Repeat("a", 997) + "....",
	} {
		if got := clusters.Sentence(errors.New(text)); got != want {
			t.Errorf("Sentence(%q) = %q, want %q", text, got, want)
		}
	}
}
