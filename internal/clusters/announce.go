package clusters

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Announcement is what a condition of a protector should say. A change of it is an event too, so that each state is
// announced once, however often somebody comes by and whoever leads.
type Announcement struct {
	metav1.Condition
	// EventType is that of the event, whose reason and note are the condition's.
	EventType string
}

// Stands tells whether the protector says so already.
func (a Announcement) Stands(protector *v1alpha1.PodProtector) bool {
	have := meta.FindStatusCondition(protector.Status.Conditions, a.Type)
	return have != nil && have.Status == a.Status && have.Reason == a.Reason && have.Message == a.Message
}

// Announcer writes conditions, each for one owner: an owner of several would take back the one by writing the other.
type Announcer struct {
	// Status writes.
	Status client.StatusClient
	// Live reads from the apiserver: a cache may not show our last write yet, and would make us announce it twice.
	Live   client.Reader
	Events events.EventRecorder
	// Owner is the field manager.
	Owner string
	// Action is that of the events.
	Action string
}

// Announce writes the condition if it says something new. An error may be of a protector that is not any more what it was.
func (a Announcer) Announce(ctx context.Context, protector *v1alpha1.PodProtector, want Announcement) error {
	if want.Stands(protector) {
		return nil
	}
	live := &v1alpha1.PodProtector{}
	if err := a.Live.Get(ctx, client.ObjectKeyFromObject(protector), live); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("get the PodProtector from the apiserver: %w", err)
	}
	if live.UID != protector.UID && protector.UID != "" {
		return nil
	}
	live.ResourceVersion = ""
	return a.AnnounceOn(ctx, live, want)
}

// AnnounceOn writes the condition to a protector that was read from the API server, if it says something new. Unless the protector has no
// resourceVersion, the error is a conflict if it has changed since: for a condition that says something about the others.
func (a Announcer) AnnounceOn(ctx context.Context, live *v1alpha1.PodProtector, want Announcement) error {
	if want.Stands(live) {
		return nil
	}
	live = live.DeepCopy()
	meta.SetStatusCondition(&live.Status.Conditions, want.Condition)
	condition := meta.FindStatusCondition(live.Status.Conditions, want.Type)
	if err := a.apply(ctx, live, condition); err != nil {
		return fmt.Errorf("apply the condition %s: %w", want.Type, err)
	}
	log.FromContext(ctx).Info("condition changed", "protector", klog.KObj(live), "condition", want.Type, "status", want.Status, "reason", want.Reason)
	a.Events.Eventf(live, nil, want.EventType, want.Reason, a.Action, "%s", Note(want.Message))
	return nil
}

// apply writes this one condition and leaves the rest of the status to its owners. Server-side apply needs no
// resourceVersion: without one it neither loses against the webhooks in a storm nor undoes what they wrote.
func (a Announcer) apply(ctx context.Context, protector *v1alpha1.PodProtector, condition *metav1.Condition) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(condition)
	if err != nil {
		return err
	}
	object := NewApply(protector, protector.UID)
	object.SetResourceVersion(protector.ResourceVersion)
	object.Object["status"] = map[string]any{"conditions": []any{fields}}
	return a.Status.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(a.Owner), client.ForceOwnership)
}

// NewApply starts an apply configuration for a protector. A uid makes it one of that very object.
func NewApply(protector *v1alpha1.PodProtector, uid types.UID) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodProtector"))
	object.SetNamespace(protector.Namespace)
	object.SetName(protector.Name)
	object.SetUID(uid)
	return object
}

// Note shortens a text to what the apiserver takes as an event's note.
func Note(text string) string { return Shorten(text, 1024) }

// Shorten cuts a text to that many bytes, in front of a letter.
func Shorten(text string, longest int) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest-3], "") + "..."
}
