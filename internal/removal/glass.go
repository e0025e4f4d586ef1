package removal

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Forced tells whether somebody has broken the glass for the pod.
func (r Request) Forced() bool { return r.Pod.Annotations[v1alpha1.AnnotationForceDelete] == "true" }

// ForceReason is why, as they say: fit to be told, since whoever may change the pod has written it.
func (r Request) ForceReason() string {
	return Tellable(r.Pod.Annotations[v1alpha1.AnnotationForceReason])
}

// Tellable is a reason in one line, without characters that are none to see, and not longer than is told.
func Tellable(reason string) string {
	if len(reason) > 8*v1alpha1.MostForceReason { // an annotation may have 256 KiB
		reason = reason[:8*v1alpha1.MostForceReason]
	}
	line := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r), r == utf8.RuneError:
			return -1
		default:
			return r
		}
	}, reason)), " ")
	if len(line) <= v1alpha1.MostForceReason {
		return line
	}
	end := v1alpha1.MostForceReason - len("…")
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end] + "…"
}
