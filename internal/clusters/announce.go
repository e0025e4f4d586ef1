package clusters

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Announcement is the desired state of a condition of a protector. Each change of the condition is also an event. Each state is therefore
// announced once, regardless of the number of reconciliations and changes of leadership.
type Announcement struct {
	metav1.Condition
	// EventType is the type of the event, whose reason and note are those of the condition.
	EventType string
}

// IsSet reports whether the protector already has the condition.
func (a Announcement) IsSet(protector *v1alpha1.PodProtector) bool {
	have := meta.FindStatusCondition(protector.Status.Conditions, a.Type)
	return have != nil && have.Status == a.Status && have.Reason == a.Reason && have.Message == a.Message
}

// Announcer writes conditions, each as one field manager. A field manager that applied one of several conditions would remove the others.
type Announcer struct {
	// Status writes the conditions.
	Status client.StatusClient
	// Live reads from the API server. A cache may not show the announcer's last write yet, and would cause a second announcement.
	Live   client.Reader
	Events events.EventRecorder
	// Owner is the field manager.
	Owner string
	// Action is the action of the events.
	Action string
}

// Announce writes the condition if it differs. An error may also mean that the protector has changed meanwhile.
func (a Announcer) Announce(ctx context.Context, protector *v1alpha1.PodProtector, want Announcement) error {
	if want.IsSet(protector) {
		return nil
	}
	live := &v1alpha1.PodProtector{}
	if err := a.Live.Get(ctx, client.ObjectKeyFromObject(protector), live); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("get the PodProtector from the API server: %w", err)
	}
	if live.UID != protector.UID && protector.UID != "" {
		return nil
	}
	live.ResourceVersion = ""
	return a.AnnounceOn(ctx, live, want)
}

// AnnounceOn writes the condition to a protector that was read from the API server, if it differs. If live has a resourceVersion, the error
// is a conflict when the protector has changed since. Use that for a condition that depends on the other conditions.
func (a Announcer) AnnounceOn(ctx context.Context, live *v1alpha1.PodProtector, want Announcement) error {
	if want.IsSet(live) {
		return nil
	}
	live = live.DeepCopy()
	meta.SetStatusCondition(&live.Status.Conditions, want.Condition)
	condition := meta.FindStatusCondition(live.Status.Conditions, want.Type)
	if err := a.apply(ctx, live, condition); err != nil {
		return fmt.Errorf("apply the condition %s: %w", want.Type, err)
	}
	log.FromContext(ctx).Info("condition changed", "protector", klog.KObj(live), "condition", want.Type, "status", want.Status, "reason", want.Reason)
	a.Events.Eventf(live, nil, want.EventType, want.Reason, a.Action, "%s", EventNote(want.Message))
	return nil
}

// apply writes this one condition and leaves the rest of the status to its owners. Server-side apply needs no resourceVersion. Without one,
// it neither conflicts with the writes of the webhooks in a storm nor reverts them.
func (a Announcer) apply(ctx context.Context, protector *v1alpha1.PodProtector, condition *metav1.Condition) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(condition)
	if err != nil {
		return err
	}
	object := NewApply(v1alpha1.GroupVersion.WithKind("PodProtector"), protector, protector.UID)
	object.SetResourceVersion(protector.ResourceVersion)
	object.Object["status"] = map[string]any{"conditions": []any{fields}}
	return a.Status.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(a.Owner), client.ForceOwnership)
}

// NewApply starts an apply configuration for an object. A uid restricts it to that very object.
func NewApply(kind schema.GroupVersionKind, object client.Object, uid types.UID) *unstructured.Unstructured {
	fields := &unstructured.Unstructured{Object: map[string]any{}}
	fields.SetGroupVersionKind(kind)
	fields.SetNamespace(object.GetNamespace())
	fields.SetName(object.GetName())
	fields.SetUID(uid)
	return fields
}

// EventNote shortens a text to the length that the API server accepts as the note of an event.
func EventNote(text string) string { return Truncate(text, 1024) }

// Truncate cuts a text to at most maxBytes bytes, without splitting a UTF-8 sequence.
func Truncate(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxBytes-3], "") + "..."
}
