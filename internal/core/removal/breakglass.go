package removal

import (
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// IsBreakGlass reports whether the pod has the break-glass annotation.
func (r Request) IsBreakGlass() bool {
	return r.Pod.Facts.IsBreakGlass()
}

// WithBreakGlassOf returns the request with the break-glass annotations of live, the pod as read from its cell, or without any if live is
// nil. It ignores those of the review, which any client could have sent.
func (r Request) WithBreakGlassOf(live *corev1.Pod) Request {
	pod := r.Pod.DeepCopy()
	for _, name := range []string{v1alpha1.AnnotationForceDelete, v1alpha1.AnnotationForceReason} {
		delete(pod.Annotations, name)
		if live == nil || live.UID != pod.UID {
			continue
		}
		if value, ok := live.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, name, value)
		}
	}
	r.Pod = NewPod(pod)
	return r
}

// BreakGlassReason returns the user's reason, made fit for display: any client that may change the pod can have written it.
func (r Request) BreakGlassReason() string {
	return DisplayReason(r.Pod.Annotations[v1alpha1.AnnotationForceReason])
}

// DisplayReason returns a reason on one line, without invisible characters, cut to the maximum length.
func DisplayReason(reason string) string {
	if len(reason) > 8*v1alpha1.MostForceReason { // an annotation may have 256 KiB
		reason = reason[:8*v1alpha1.MostForceReason]
	}
	line := strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !printable.IsShown(r), r == utf8.RuneError:
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
