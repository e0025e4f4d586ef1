package generator

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	brakes "github.com/breakwater-k8s/breakwater/controllers/brake"
	core "github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// heldBrake holds all decreases, and records the requests.
type heldBrake struct{ asked, withdrawn []string }

func (b *heldBrake) Ask(_ context.Context, request core.Request) (core.Answer, error) {
	b.asked = append(b.asked, request.Effect)
	return core.Answer{Verdict: core.Held}, nil
}

func (b *heldBrake) Withdraw(_ context.Context, p *v1alpha1.PodProtector) error {
	b.withdrawn = append(b.withdrawn, p.Name)
	return nil
}

func (*heldBrake) Weakened(before, after *v1alpha1.PodProtector) (effect string, large bool) {
	return core.Weakened(before, after, 0)
}

func (*heldBrake) Reference(before, after *v1alpha1.PodProtector) string {
	return core.NextReference(before, after, time.Hour, time.Now())
}

// The cache may show a protector with a lower floor than it has; to that, a large decrease looks like a small one.
func TestALargeDecreaseIsNoticedByTheProtectorThatTheAPIServerHas(t *testing.T) {
	p := newPlane(t)
	web, stale := p.pair() // a floor of 7
	live := stale.DeepCopy()
	edit(p, live, func(live *v1alpha1.PodProtector) { live.Spec.MinAvailable = v1alpha1.Pods(20) })
	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 7 })
	brake, r := &heldBrake{}, p.reconciler()
	r.Brake = brake

	if _, err := r.settle(t.Context(), p.ref("web"), web, []*v1alpha1.PodProtector{stale}); err != nil {
		t.Fatal(err)
	}
	if len(brake.asked) != 1 || brake.asked[0] != "lower the floor from 20 to 5" {
		t.Errorf("the brake was asked to %q, want \"lower the floor from 20 to 5\"", brake.asked)
	}
	if got := p.protector("deployment-web", "it exists", sourceFound); got.Spec.MinAvailable.IntValue() != 20 {
		t.Errorf("the floor is %s, want 20", got.Spec.MinAvailable)
	}
}

// The cache may show a source as scaled down although it no longer is, or, in a restored core, never was.
func TestNoFloorFallsByASourceThatTheAPIServerDoesNotHave(t *testing.T) {
	p := newPlane(t)
	web, protector := p.pair()
	stale := web.DeepCopy()
	*stale.Spec.Replicas = 1
	brake, r := &heldBrake{}, p.reconciler()
	r.Brake = brake

	got, err := r.settle(t.Context(), p.ref("web"), stale, []*v1alpha1.PodProtector{protector})
	if err != nil || got != outdated {
		t.Errorf("settle() = %q, %v, want %q", got, err, outdated)
	}
	if len(brake.asked) != 0 {
		t.Errorf("the brake was asked to %q, want nothing", brake.asked)
	}
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(protector), protector); err != nil || protector.Spec.MinAvailable.IntValue() != 7 {
		t.Errorf("the floor is %s, %v, want 7", protector.Spec.MinAvailable, err)
	}
}

// The keeper recreates a protector with the annotations of the lost one, and so owns them.
func TestAReferenceThatTheKeeperWroteEnds(t *testing.T) {
	p := newPlane(t)
	web, protector := p.pair()
	edit(p, protector, func(protector *v1alpha1.PodProtector) {
		protector.Annotations[v1alpha1.AnnotationFloorReference] = "9@2020-01-01T00:00:00Z"
	})
	r := p.reconciler()
	r.Brake = &heldBrake{}
	if _, err := r.settle(t.Context(), p.ref("web"), web, []*v1alpha1.PodProtector{protector}); err != nil {
		t.Fatal(err)
	}
	got := p.protector("deployment-web", "it exists", sourceFound)
	if reference := got.Annotations[v1alpha1.AnnotationFloorReference]; reference != "" {
		t.Errorf("the annotation %s is %q, want it empty", v1alpha1.AnnotationFloorReference, reference)
	}
}

// Pending decreases of a window wait for older ones, so a decrease that no source requests would hold them for ever.
func TestADecreaseOfASourceThatVanishedIsWithdrawn(t *testing.T) {
	p := newPlane(t)
	web, protector := p.pair()
	p.pend(protector, v1alpha1.ReasonQuietPeriod)
	p.lose(web)
	brake, r := &heldBrake{}, p.reconciler()
	r.Brake = brake
	for range 2 { // the first call records that the source vanished; for the second the condition is already set
		if got, err := r.keep(t.Context(), p.ref("web"), []*v1alpha1.PodProtector{protector}); err != nil || got != sourceVanished {
			t.Fatalf("keep() = %q, %v, want %q", got, err, sourceVanished)
		}
		protector = p.protector("deployment-web", "its source vanished", isVanished)
	}
	if len(brake.withdrawn) != 1 || brake.withdrawn[0] != "deployment-web" {
		t.Errorf("withdrawn are the decreases of %q, want deployment-web", brake.withdrawn)
	}
}

// pend records that a decrease of a protector is pending, as the brake does.
func (p *plane) pend(protector *v1alpha1.PodProtector, reason string) {
	p.t.Helper()
	meta.SetStatusCondition(&protector.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: reason, Message: "It waits.",
	})
	if err := p.Status().Update(p.t.Context(), protector); err != nil {
		p.t.Fatal(err)
	}
}

// A leader that was paused sees the former state of the source, and another leader has recorded that a cascade deleted it. Without the
// record the brake would grant the release after the quiet period, since the owner of a source that no longer exists cannot be determined.
func TestAStaleLeaderDoesNotWithdrawTheRecordOfACascade(t *testing.T) {
	p := newPlane(t)
	web, protector := p.pair()
	p.pend(protector, v1alpha1.ReasonCascade)
	stale := web.DeepCopy()
	p.lose(web)
	brake, r := &heldBrake{}, p.reconciler()
	r.Brake = brake
	if got, err := r.settle(t.Context(), p.ref("web"), stale, []*v1alpha1.PodProtector{protector}); err != nil || got != outdated {
		t.Errorf("settle() = %q, %v, want %q", got, err, outdated)
	}
	if len(brake.withdrawn) > 0 {
		t.Errorf("withdrawn are the decreases of %q, want none", brake.withdrawn)
	}
}

// The record was written after the protector was read.
func TestARecordThatIsNewerThanWhatWasReadIsNotWithdrawn(t *testing.T) {
	p := newPlane(t)
	_, read := p.pair()
	p.pend(read, v1alpha1.ReasonQuietPeriod)
	newer := read.DeepCopy()
	p.pend(newer, v1alpha1.ReasonCascade)
	b := &brakes.Brake{Client: p.Client, Live: p.Client, Events: events.NewFakeRecorder(9)}
	if err := b.Withdraw(t.Context(), read); !apierrors.IsConflict(err) {
		t.Errorf("Withdraw() = %v, want a conflict", err)
	}
	if err := b.Withdraw(t.Context(), newer); err != nil {
		t.Errorf("Withdraw() of what the API server has = %v", err)
	}
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(read), read); err != nil ||
		meta.IsStatusConditionTrue(read.Status.Conditions, v1alpha1.ConditionDecreasePending) {
		t.Errorf("conditions %+v, %v, want nothing pending", read.Status.Conditions, err)
	}
}
