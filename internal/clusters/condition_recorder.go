package clusters

import (
	"context"
	"strings"
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

// ConditionRecorder emits events for conditions that its caller has written.
type ConditionRecorder struct {
	Events events.EventRecorder
	// Action is the action of the events.
	Action string
	// IsGood reports whether a condition is in its desired state, or on its way there. All other conditions cause warnings.
	IsGood func(metav1.Condition) bool
}

// RecordChanges emits an event and logs a line for each condition of an object whose status or reason changed.
func (r ConditionRecorder) RecordChanges(ctx context.Context, object client.Object, before, now []metav1.Condition) {
	for _, c := range now {
		old := meta.FindStatusCondition(before, c.Type)
		if old != nil && old.Status == c.Status && old.Reason == c.Reason {
			continue
		}
		kind := corev1.EventTypeWarning
		if r.IsGood(c) {
			kind = corev1.EventTypeNormal
		}
		log.FromContext(ctx).Info("condition changed", "object", klog.KObj(object), "condition", c.Type, "status", c.Status, "reason", c.Reason)
		r.Events.Eventf(object, nil, kind, c.Reason, r.Action, "%s", EventNote(c.Message))
	}
}

// Sentence turns an error into a sentence for the user, of about 1,000 bytes at most. Some errors have no text, and some
// begin with an address, which stays as it is.
func Sentence(err error) string {
	text := webhookconfig.RedactCallerTokens(err.Error())
	if text == "" {
		return "Unknown error."
	}
	if strings.HasPrefix(text, "https://") {
		return Truncate(text, 1000) + "."
	}
	first, width := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + Truncate(text[width:], 1000) + "."
}
