package webhook_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// All requests arrive while the first batch is blocked, so that the rest share the second. The test uses evictions,
// since a deletion causes two reviews: one when its grace period is set, and one when it is carried out.
func TestConcurrentRemovalsShareAWrite(t *testing.T) {
	for _, threshold := range []int32{0, 1, 100} {
		t.Run(fmt.Sprint("compactThreshold ", threshold), func(t *testing.T) {
			l := newFixture(t)
			l.protect("web", 54, 64, compacted(threshold))
			pods := l.pods(64)
			core := l.proxied()
			r := l.serve(core.asCore).guard()
			answers := r.removeWhileCoreStalls(core, eviction, pods)
			if admitted := l.admitted(answers); admitted != 10 || l.remaining() != 54 {
				t.Errorf("%d removals admitted and %d pods left, want 10 and 54", admitted, l.remaining())
			}
			l.wantReserved("web", 10)
			if writes := r.count("breakwater_webhook_status_writes_total"); writes > 2 {
				t.Errorf("%d status writes for 10 removals, want at most 2", writes)
			}
			if buckets := len(l.protector("web").Status.Cells[0].AdmissionHistory.Buckets); threshold < 10 && buckets > int(threshold)+1 {
				t.Errorf("%d buckets with a compactThreshold of %d", buckets, threshold)
			}
		})
	}
}

func TestTwoReplicasAdmitExactlyTheBudget(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 30, 40)
	var pods []*corev1.Pod
	for i := range 20 {
		pods = append(pods, l.pod(fmt.Sprintf("web-%d-0", i)), l.pod(fmt.Sprintf("web-%d-1", i)))
	}
	// The API server asks each replica about the pods whose names have the suffix of its probe.
	var replicas []*replica
	for _, suffix := range []string{"-0", "-1"} {
		replicas = append(replicas, l.serve().guard(func(hook *admissionregistrationv1.ValidatingWebhook) {
			hook.MatchConditions = append(hook.MatchConditions, admissionregistrationv1.MatchCondition{
				Name: "half", Expression: "request.name.endsWith('" + suffix + "')",
			})
		}))
	}
	if admitted := l.admitted(l.removeAll(deletion, pods)); admitted != 10 || l.remaining() != 30 {
		t.Errorf("%d removals admitted and %d pods left, want 10 and 30", admitted, l.remaining())
	}
	l.wantReserved("web", 10)
	for i, r := range replicas {
		if asked := r.count("breakwater_webhook_reviews_total"); asked < 20 {
			t.Errorf("replica %d got %d reviews, want half of the removals", i, asked)
		}
	}
}

func TestConcurrentStatusWriterLosesNoReservation(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 14, 24)
	pods := l.pods(24)
	r := l.serve().guard()
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() { l.writeStatusRepeatedly(ctx, "web") })
	admitted := l.admitted(l.removeAll(deletion, pods))
	stop()
	writer.Wait()
	if admitted != 10 || l.remaining() != 14 {
		t.Errorf("%d removals admitted and %d pods left, want 10 and 14", admitted, l.remaining())
	}
	l.wantReserved("web", 10)
	if r.count("breakwater_webhook_status_writes_total", "result", "error") != 0 {
		t.Error("a write conflict ended in an error")
	}
}

// writeStatusRepeatedly changes the status of a protector as fast as it can until ctx ends.
func (l *fixture) writeStatusRepeatedly(ctx context.Context, name string) {
	for ctx.Err() == nil {
		p := l.protector(name)
		p.Status.ObservedGeneration++
		if err := l.client.Status().Update(context.Background(), p); err != nil && !apierrors.IsConflict(err) {
			l.Errorf("another writer: %v", err)
		}
	}
}

func TestDenialStormMakesOneEvent(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 10, 10)
	pods := l.pods(10)
	l.serve().guard()
	if admitted := l.admitted(l.removeAll(deletion, pods)); admitted != 0 {
		t.Fatalf("%d removals admitted without budget", admitted)
	}
	l.eventually(func() string {
		events := &eventsv1.EventList{}
		if err := l.client.List(t.Context(), events, client.InNamespace(l.namespace)); err != nil {
			return err.Error()
		}
		if len(events.Items) == 0 {
			return "no event yet"
		}
		e := events.Items[0]
		if len(events.Items) > 1 || e.Series != nil || e.Regarding.Kind != "PodProtector" || e.Regarding.Name != "web" ||
			e.Reason != "RemovalRefused" || e.Type != corev1.EventTypeWarning || e.ReportingController != "breakwater-webhook" {
			t.Fatalf("events %+v, want one of the refusals", events.Items)
		}
		return ""
	})
}

// A refused removal must be admitted as soon as budget is back: the webhook does not remember a refusal.
func TestReturnedBudgetIsUsable(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 2, 2)
	pod := l.pod("web-0")
	l.serve().guard()
	wantDenied(t, deletion(l, pod))
	l.eventually(func() string {
		p := l.protector("web")
		p.Status.Cells[0].Aggregation.CountedReplicas = 3
		p.Status.Cells[0].Aggregation.LastEventTime = metav1.NowMicro()
		if err := l.client.Status().Update(t.Context(), p); err != nil {
			return err.Error()
		}
		return ""
	})
	l.eventually(func() string {
		if err := deletion(l, pod); err != nil {
			return err.Error()
		}
		return ""
	})
	l.wantReserved("web", 1)
}
