// Package overlap reports protectors that cover the same pods. That is allowed. Each removal of such a pod then needs budget in all of
// them, which is usually not what their authors expect.
package overlap

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// Name is the name of the controller and of its field manager.
const Name = "breakwater-overlap"

// Reconciler keeps the condition Overlapping of protectors up to date.
type Reconciler struct {
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	index  *coverageIndex
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	p := &v1alpha1.PodProtector{}
	if err := r.Client.Get(ctx, request.NamespacedName, p); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	want, isNeeded := overlappingCondition(p, r.index.overlapping(request.NamespacedName))
	if !isNeeded {
		return reconcile.Result{}, nil
	}
	announcer := clusters.Announcer{Status: r.Client, Live: r.Live, Events: r.Events, Owner: Name, Action: "Compare"}
	err := announcer.Announce(ctx, p, want)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil // the object has changed, and an event will follow
	}
	return reconcile.Result{}, err
}

// maxNamed is how many overlapping protectors a message names.
const maxNamed = 10

// overlappingCondition returns the condition of a protector. isNeeded is false if the protector overlaps with no other, and never has.
func overlappingCondition(p *v1alpha1.PodProtector, overlapping []string) (want clusters.Announcement, isNeeded bool) {
	if len(overlapping) == 0 {
		return clusters.Announcement{EventType: corev1.EventTypeNormal, Condition: metav1.Condition{
			Type: v1alpha1.ConditionOverlapping, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonDisjoint,
			Message: "No other PodProtector in the namespace can cover the same pods.",
		}}, meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionOverlapping) != nil
	}
	named := strings.Join(overlapping[:min(len(overlapping), maxNamed)], ", ")
	if more := len(overlapping) - maxNamed; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return clusters.Announcement{EventType: corev1.EventTypeWarning, Condition: metav1.Condition{
		Type: v1alpha1.ConditionOverlapping, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSelectorsOverlap,
		Message: fmt.Sprintf("Other PodProtectors can cover the same pods: %s. The removal of such a pod needs budget in all of "+
			"them. If this is not intended, narrow a selector, or exempt pods with exemptPodSelector.", named),
	}}, true
}
