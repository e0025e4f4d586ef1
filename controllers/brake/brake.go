// Package brake holds back large decreases of floors, for the controllers that release protectors and lower floors. It records each
// decrease in the condition DecreasePending, decides by internal/core/brake, and stores grants in a ConfigMap that all leaders share.
package brake

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// Name is the field manager of the condition DecreasePending.
const Name = "breakwater-brake"

// cascadeRetry is when the brake checks a cascade again that it held because it could not read an owner.
const cascadeRetry = time.Minute

// Brake decides which large decreases may take effect. Setup creates it; it is safe for concurrent use.
type Brake struct {
	// Client reads from the cache, with the indexes of Setup, and writes conditions.
	Client client.Client
	// Live reads from the API server.
	Live   client.Reader
	Mapper meta.RESTMapper
	Events events.EventRecorder
	// Limits apply to protectors whose policy sets none.
	Limits brake.Limits
	// Now is the clock.
	Now func() time.Time

	ledger  *ledger
	metrics *metrics
	// semaphore has capacity 1: this process decides on one decrease at a time, so that each decision sees the grants of the one before.
	semaphore chan struct{}
}

// Decide decides whether a large decrease may take effect now (rule 13). If it may not, the condition of the protector states the reason. The
// caller asks again after Answer.Retry, or when an object changes that can confirm the decrease.
func (b *Brake) Decide(ctx context.Context, request brake.Request) (brake.Answer, error) {
	if b.isConfirmed(ctx, request) {
		b.metrics.decisions.WithLabelValues(verdictConfirmed).Inc()
		log.FromContext(ctx).Info("Confirmed large decrease", "protector", klog.KObj(request.Protector), "cause", request.Cause)
		return brake.Answer{Verdict: brake.Granted}, nil
	}
	budget, limits := brake.BudgetOf(request.Protector, b.Limits)
	pending, _ := brake.PendingOf(request.Protector)
	isRequest := request.NeedsCascadeCheck()
	if request.RevertsCascade() || request.Replaces() {
		if err := b.Withdraw(ctx, request.Protector); err != nil {
			return brake.Answer{}, err
		}
		isRequest = true
	}
	if isRequest {
		cascade, err := b.cascadeCause(ctx, request, limits)
		if err != nil {
			return brake.Answer{}, err
		}
		if pending, err = b.record(ctx, request, limits, cascade); apierrors.IsNotFound(err) {
			return brake.Answer{Verdict: brake.Quiet}, nil // an event will follow: the protector was deleted
		} else if err != nil {
			return brake.Answer{}, err
		}
	}
	if limits.HoldsCascade(pending) {
		return brake.Answer{Verdict: brake.Held, Retry: cascadeRetry}, nil
	}
	pending.Cascade = false
	answer, err := b.decidePending(ctx, budget, limits, pending)
	if err != nil {
		return brake.Answer{}, err
	}
	switch answer.Verdict {
	case brake.Granted:
		if answer.Grants != nil { // otherwise it was granted before, and counted
			b.metrics.decisions.WithLabelValues(string(brake.Granted)).Inc()
		}
		log.FromContext(ctx).Info("Granted large decrease", "protector", klog.KObj(request.Protector), "cause", request.Cause,
			"budget", budget, "left", answer.Left-len(answer.Grants))
	case brake.Held:
		err = b.recordHeld(ctx, request, limits)
	}
	return answer, err
}

// Withdraw removes the pending condition of a protector whose large decrease is no longer wanted. The caller must have read p from the API
// server before it determined that no component requests the decrease. The error is a conflict if p has changed since. What another leader
// recorded meanwhile is kept.
func (b *Brake) Withdraw(ctx context.Context, p *v1alpha1.PodProtector) error {
	if _, isPending := brake.PendingOf(p); !isPending {
		return nil
	}
	return b.announcer().AnnounceOn(ctx, p, clusters.Announcement{
		Condition: metav1.Condition{
			Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotPending,
			Message: "No large decrease of the floor is pending.",
		},
		EventType: corev1.EventTypeNormal,
	})
}

// DescribeDecrease returns how a change of a spec weakens a protector.
func (b *Brake) DescribeDecrease(before, after *v1alpha1.PodProtector) brake.Weakening {
	_, limits := brake.BudgetOf(before, b.Limits)
	return brake.DescribeWeakening(before, after, brake.Reference(before, limits.Window, b.Now()))
}

// FloorReference returns the annotation that a protector should have after a change of its spec; see brake.NextReference.
func (b *Brake) FloorReference(before, after *v1alpha1.PodProtector) string {
	_, limits := brake.BudgetOf(before, b.Limits)
	return brake.NextReference(before, after, limits.Window, b.Now())
}

// isConfirmed reports whether the protector, its source or its namespace has the confirmation. A namespace must have it also at the API server: a user
// may have withdrawn what a late cache still shows, and a restored core may have lost it.
func (b *Brake) isConfirmed(ctx context.Context, request brake.Request) bool {
	now := b.Now()
	if request.IsConfirmed(nil, now) {
		return true
	}
	for _, reader := range []client.Reader{b.Client, b.Live} {
		namespace := clusters.EmptyNamespace()
		// If the namespace cannot be read, it confirms nothing: the decrease waits.
		if reader.Get(ctx, client.ObjectKey{Name: request.Protector.Namespace}, namespace) != nil || !request.IsConfirmed(namespace.Annotations, now) {
			return false
		}
	}
	return true
}

// record writes the condition of a decrease that is new, or that turns out to be a cascade, and returns it as it is stored.
func (b *Brake) record(ctx context.Context, request brake.Request, limits brake.Limits, cascade string) (brake.Pending, error) {
	var pending brake.Pending
	err := b.updateProtector(ctx, request, func(live *v1alpha1.PodProtector) error {
		var isNew bool
		if pending, isNew = brake.NextPending(live, request, cascade, b.Now()); !isNew {
			return nil
		}
		reason := v1alpha1.ReasonQuietPeriod
		if cascade != "" {
			reason = v1alpha1.ReasonCascade
		}
		return b.announce(ctx, live, request, limits, reason, cascade)
	})
	return pending, err
}

// recordHeld records that the limits hold a pending decrease, unless another leader found it to be a cascade.
func (b *Brake) recordHeld(ctx context.Context, request brake.Request, limits brake.Limits) error {
	return client.IgnoreNotFound(b.updateProtector(ctx, request, func(live *v1alpha1.PodProtector) error {
		if pending, isPending := brake.PendingOf(live); !isPending || pending.Cascade {
			return nil
		}
		return b.announce(ctx, live, request, limits, v1alpha1.ReasonLimitExceeded, "")
	}))
}

// updateProtector writes to the newest state of the protector, and retries on conflict: the record of another leader must not be lost.
func (b *Brake) updateProtector(ctx context.Context, request brake.Request, write func(live *v1alpha1.PodProtector) error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live := &v1alpha1.PodProtector{}
		if err := b.Live.Get(ctx, client.ObjectKeyFromObject(request.Protector), live); err != nil {
			return fmt.Errorf("get the PodProtector from the API server: %w", err)
		}
		if live.UID != request.Protector.UID {
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("podprotectors").GroupResource(), live.Name)
		}
		return write(live)
	})
}

func (b *Brake) announce(ctx context.Context, live *v1alpha1.PodProtector, request brake.Request, limits brake.Limits, reason, cascade string) error {
	eventType := corev1.EventTypeWarning
	if reason == v1alpha1.ReasonQuietPeriod {
		eventType = corev1.EventTypeNormal
	}
	return b.announcer().AnnounceOn(ctx, live, clusters.Announcement{
		Condition: metav1.Condition{
			Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: reason,
			Message: brake.Message(request, reason, limits, cascade),
		},
		EventType: eventType,
	})
}

func (b *Brake) announcer() clusters.Announcer {
	return clusters.Announcer{Status: b.Client, Live: b.Live, Events: b.Events, Owner: Name, Action: "Decrease"}
}

// decidePending decides on one decrease, considering all that are pending, and stores the grant. If the grant conflicts with one of another
// leader, it decides again based on the grants that the other leader stored.
func (b *Brake) decidePending(ctx context.Context, budget string, limits brake.Limits, pending brake.Pending) (brake.Answer, error) {
	select {
	case b.semaphore <- struct{}{}:
		defer func() { <-b.semaphore }()
	case <-ctx.Done():
		return brake.Answer{}, fmt.Errorf("wait for the decision on another large decrease: %w", context.Cause(ctx))
	}
	state, err := b.state(ctx, budget, limits, pending)
	if err != nil {
		return brake.Answer{}, err
	}
	// The remembered grants can only be incomplete, so a verdict other than Granted is final.
	state.Grants = b.ledger.observedGrants(budget)
	if answer := brake.Decide(state, pending, b.Now()); answer.Verdict != brake.Granted {
		return answer, nil
	}
	var answer brake.Answer
	err = b.ledger.update(ctx, budget, func(grants []brake.Grant) []brake.Grant {
		state.Grants = grants
		answer = brake.Decide(state, pending, b.Now())
		return answer.Grants
	})
	return answer, err
}

// state returns the cached state of a budget. The decrease to decide on may not be in the cache yet.
func (b *Brake) state(ctx context.Context, budget string, limits brake.Limits, pending brake.Pending) (brake.State, error) {
	state := brake.State{Limits: limits, Pending: []brake.Pending{pending}}
	var all, open v1alpha1.PodProtectorList
	if err := b.Client.List(ctx, &all, client.MatchingFields{budgetIndex: budget}, client.UnsafeDisableDeepCopy); err != nil {
		return state, fmt.Errorf("list the PodProtectors of budget %s: %w", budget, err)
	}
	state.Protectors = len(all.Items)
	if err := b.Client.List(ctx, &open, client.MatchingFields{pendingIndex: budget}, client.UnsafeDisableDeepCopy); err != nil {
		return state, fmt.Errorf("list the pending decreases of budget %s: %w", budget, err)
	}
	for i := range open.Items {
		if other, ok := brake.PendingOf(&open.Items[i]); ok && other.Protector != pending.Protector {
			state.Pending = append(state.Pending, other)
		}
	}
	return state, nil
}
