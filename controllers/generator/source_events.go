package generator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// Reasons of events on sources. The reasons of outcomes are others.
const (
	reasonProtected = "Protected"
	reasonHeld      = "FloorHeld"
)

// sourceEvents emits events on sources, whose owners may not know of protectors. Each reports a change, so that reconciliations without one
// emit none. It is safe for concurrent use.
type sourceEvents struct {
	recorder events.EventRecorder
	// selector selects the workloads that have protectors even without a policy. Its keys have the values that it defines.
	selector labels.Selector

	mu sync.Mutex
	// mistakes are the reported mistakes in labels and annotations, by the UID of the source.
	mistakes map[types.UID]string
}

// emitProtected emits that a protector of the source was created, or that its floor or selector changed. before is nil for a new protector.
// The event names the protector as its related object, so that the recorder does not merge it with that of an earlier floor.
func (e *sourceEvents) emitProtected(source client.Object, before *v1alpha1.PodProtector, wanted policy.Protector) {
	spec := &wanted.Object.Spec
	if before != nil && equality.Semantic.DeepEqual(before.Spec.MinAvailable, spec.MinAvailable) &&
		equality.Semantic.DeepEqual(before.Spec.MaxUnavailable, spec.MaxUnavailable) && equality.Semantic.DeepEqual(before.Spec.Selector, spec.Selector) {
		return
	}
	related := wanted.Object
	if before != nil {
		related = before
	}
	e.recorder.Eventf(source, related, corev1.EventTypeNormal, reasonProtected, "Protect", "%s", clusters.EventNote(protectedNote(wanted)))
}

// protectedNote describes the floor of a protector, as "Protected: floor 3 of 4 (PodProtector shop/deployment-web)".
func protectedNote(wanted policy.Protector) string {
	p, floor := wanted.Object, ""
	switch spec := &p.Spec; {
	case spec.MinAvailable != nil && spec.MaxUnavailable == nil:
		floor = spec.MinAvailable.String()
	case spec.MaxUnavailable != nil:
		floor = "maxUnavailable " + spec.MaxUnavailable.String()
	}
	if wanted.Replicas != nil {
		floor += fmt.Sprintf(" of %d", *wanted.Replicas)
	}
	note := fmt.Sprintf("Protected: floor %s (PodProtector %s/%s)", floor, p.Namespace, p.Name)
	if wanted.Replicas != nil && *wanted.Replicas == 0 {
		note += ". Nothing is protected until it is scaled up."
	}
	return note
}

// emitHeld emits that a large decrease of a protector is held, unless that was recorded before. before is the protector as it was read from
// the API server before the decision.
func (e *sourceEvents) emitHeld(request brake.Request) {
	source, ok := request.Source.(client.Object)
	if d, pending := brake.DecreaseOf(request.Protector); !ok || pending && d.IsHeld() {
		return
	}
	p := request.Protector
	e.recorder.Eventf(source, p, corev1.EventTypeWarning, reasonHeld, "Protect", "%s", clusters.EventNote(fmt.Sprintf(
		"The floor stays in force (PodProtector %s/%s), although %s. If that is intended, confirm it: %s",
		p.Namespace, p.Name, brake.Decrease{Cause: request.Cause, Effect: request.Effect}.Summary(), brake.Command(p.Namespace, p.Name))))
}

// describeMistakes returns the labels and annotations of a source that have no effect because of their spelling, in sentences; "" if it has none.
func (e *sourceEvents) describeMistakes(source client.Object) string {
	var texts []string
	for _, mistake := range slices.Concat(
		policy.Mistakes(v1alpha1.KeyOnWorkload, e.withoutSelected(source.GetLabels()), nil),
		policy.Mistakes(v1alpha1.KeyOnWorkload, nil, source.GetAnnotations()),
	) {
		texts = append(texts, mistake.String())
	}
	return strings.Join(texts, " ")
}

// emitMistakes emits the mistakes of a source, once for each state of the source. A leader that starts emits them again: the API server deletes
// events after an hour. It is one event, because recorders take a second one of the same reason for a repetition of the first.
func (e *sourceEvents) emitMistakes(source client.Object) {
	if text := e.describeMistakes(source); e.isNew(source.GetUID(), text) {
		e.recorder.Eventf(source, nil, corev1.EventTypeWarning, v1alpha1.ReasonUnknownKey, "Protect", "%s", clusters.EventNote(text))
	}
}

// withoutSelected returns the labels that the generator's selector does not use.
func (e *sourceEvents) withoutSelected(all map[string]string) map[string]string {
	if e.selector == nil || !e.selector.Matches(labels.Set(all)) {
		return all
	}
	requirements, _ := e.selector.Requirements()
	rest := maps.Clone(all)
	maps.DeleteFunc(rest, func(key, _ string) bool {
		return slices.ContainsFunc(requirements, func(r labels.Requirement) bool { return r.Key() == key })
	})
	return rest
}

// isNew records the mistakes of a source, and reports whether they have changed and there are any.
func (e *sourceEvents) isNew(source types.UID, mistakes string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if mistakes == "" {
		delete(e.mistakes, source)
		return false
	}
	if e.mistakes[source] == mistakes {
		return false
	}
	if e.mistakes == nil {
		e.mistakes = map[types.UID]string{}
	}
	e.mistakes[source] = mistakes
	return true
}
