package clusters

import (
	"context"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// Teller makes events of conditions that somebody has written.
type Teller struct {
	Events events.EventRecorder
	// Action is that of the events.
	Action string
	// IsGood tells whether a condition is as it should be, or on its way there; of all others there are warnings.
	IsGood func(metav1.Condition) bool
}

// Tell makes an event, and a line in the log, of each condition of an object whose status or reason is not what it was before.
func (t Teller) Tell(ctx context.Context, object client.Object, before, now []metav1.Condition) {
	for _, c := range now {
		have := meta.FindStatusCondition(before, c.Type)
		if have != nil && have.Status == c.Status && have.Reason == c.Reason {
			continue
		}
		kind := corev1.EventTypeWarning
		if t.IsGood(c) {
			kind = corev1.EventTypeNormal
		}
		log.FromContext(ctx).Info("condition changed", "object", klog.KObj(object), "condition", c.Type, "status", c.Status, "reason", c.Reason)
		t.Events.Eventf(object, nil, kind, c.Reason, t.Action, "%s", Note(c.Message))
	}
}

// Sentence is what an error says to people, in at most 1,000 bytes or so. Some errors have no text.
func Sentence(err error) string {
	text := webhookconfig.RedactCallers(err.Error())
	if text == "" {
		return "Unknown error."
	}
	first, width := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + Shorten(text[width:], 1000) + "."
}
