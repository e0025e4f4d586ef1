package generator

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	brakes "github.com/breakwater-k8s/breakwater/controllers/brake"
	core "github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// holdingBrake holds all decreases, and records the requests.
type holdingBrake struct{ requests, withdrawn []string }

func (b *holdingBrake) Decide(_ context.Context, request core.Request) (core.Answer, error) {
	b.requests = append(b.requests, request.Effect)
	return core.Answer{Verdict: core.Held}, nil
}

// grantingBrake grants what holdingBrake holds.
type grantingBrake struct{ holdingBrake }

func (b *grantingBrake) Decide(context.Context, core.Request) (core.Answer, error) {
	return core.Answer{Verdict: core.Granted}, nil
}

func (b *holdingBrake) Withdraw(_ context.Context, p *v1alpha1.PodProtector) error {
	b.withdrawn = append(b.withdrawn, p.Name)
	return nil
}

func (*holdingBrake) DescribeDecrease(before, after *v1alpha1.PodProtector) core.Weakening {
	return core.DescribeWeakening(before, after, 0)
}

func (*holdingBrake) FloorReference(before, after *v1alpha1.PodProtector) string {
	return core.NextReference(before, after, time.Hour, time.Now())
}

// The cache may show a protector with a lower floor than it has; to that, a large decrease looks like a small one.
func TestLargeDecreaseIsDetectedFromLiveProtector(t *testing.T) {
	p := newFixture(t)
	web, stale := p.createWebWithProtector() // a floor of 7
	live := stale.DeepCopy()
	edit(p, live, func(live *v1alpha1.PodProtector) { live.Spec.MinAvailable = v1alpha1.Pods(20) })
	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 7 })
	brake := &holdingBrake{}
	r := p.reconciler(brake)

	if _, err := r.reconcileProtectors(t.Context(), p.ref("web"), web, []*v1alpha1.PodProtector{stale}); err != nil {
		t.Fatal(err)
	}
	if len(brake.requests) != 1 || brake.requests[0] != "lower the floor from 20 to 5" {
		t.Errorf("brake got the requests %q, want \"lower the floor from 20 to 5\"", brake.requests)
	}
	if got := p.waitForProtector("deployment-web", "the PodProtector exists", isSourceFound); got.Spec.MinAvailable.IntValue() != 20 {
		t.Errorf("got the floor %s, want 20", got.Spec.MinAvailable)
	}
}

// The cache may show a source as scaled down although it no longer is, or, in a restored core, never was.
func TestStaleSourceDoesNotLowerFloor(t *testing.T) {
	p := newFixture(t)
	web, protector := p.createWebWithProtector()
	stale := web.DeepCopy()
	*stale.Spec.Replicas = 1
	brake := &holdingBrake{}
	r := p.reconciler(brake)

	got, err := r.reconcileProtectors(t.Context(), p.ref("web"), stale, []*v1alpha1.PodProtector{protector})
	if err != nil || got != outdated {
		t.Errorf("reconcileProtectors() = %q, %v, want %q", got, err, outdated)
	}
	if len(brake.requests) != 0 {
		t.Errorf("brake got the requests %q, want none", brake.requests)
	}
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(protector), protector); err != nil || protector.Spec.MinAvailable.IntValue() != 7 {
		t.Errorf("got the floor %s, %v, want 7", protector.Spec.MinAvailable, err)
	}
}

// The keeper recreates a protector with the annotations of the lost one, and so owns them.
func TestKeeperFloorReferenceIsCleared(t *testing.T) {
	p := newFixture(t)
	web, protector := p.createWebWithProtector()
	edit(p, protector, func(protector *v1alpha1.PodProtector) {
		protector.Annotations[v1alpha1.AnnotationFloorReference] = "9@2020-01-01T00:00:00Z"
	})
	r := p.reconciler(&holdingBrake{})
	if _, err := r.reconcileProtectors(t.Context(), p.ref("web"), web, []*v1alpha1.PodProtector{protector}); err != nil {
		t.Fatal(err)
	}
	got := p.waitForProtector("deployment-web", "the PodProtector exists", isSourceFound)
	if reference := got.Annotations[v1alpha1.AnnotationFloorReference]; reference != "" {
		t.Errorf("annotation %s = %q, want it empty", v1alpha1.AnnotationFloorReference, reference)
	}
}

// Pending decreases of a window wait for older ones, so a decrease that no source requests would hold them for ever.
func TestDecreaseOfVanishedSourceIsWithdrawn(t *testing.T) {
	p := newFixture(t)
	web, protector := p.createWebWithProtector()
	p.recordPendingDecrease(protector, v1alpha1.ReasonQuietPeriod)
	p.loseDeployment(web)
	brake := &holdingBrake{}
	r := p.reconciler(brake)
	for range 2 { // the first call records that the source vanished; for the second the condition is already set
		if got, err := r.retainer.retainWithoutSource(t.Context(), p.ref("web"), []*v1alpha1.PodProtector{protector}); err != nil || got != sourceVanished {
			t.Fatalf("retainWithoutSource() = %q, %v, want %q", got, err, sourceVanished)
		}
		protector = p.waitForProtector("deployment-web", "the condition reports that the source vanished", isSourceVanished)
	}
	if len(brake.withdrawn) != 1 || brake.withdrawn[0] != "deployment-web" {
		t.Errorf("got the withdrawn decreases %q, want deployment-web", brake.withdrawn)
	}
}

// recordPendingDecrease records that a decrease of a protector is pending, as the brake does.
func (p *fixture) recordPendingDecrease(protector *v1alpha1.PodProtector, reason string) {
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
func TestStaleLeaderDoesNotWithdrawCascadeRecord(t *testing.T) {
	p := newFixture(t)
	web, protector := p.createWebWithProtector()
	p.recordPendingDecrease(protector, v1alpha1.ReasonCascade)
	stale := web.DeepCopy()
	p.loseDeployment(web)
	brake := &holdingBrake{}
	r := p.reconciler(brake)
	if got, err := r.reconcileProtectors(t.Context(), p.ref("web"), stale, []*v1alpha1.PodProtector{protector}); err != nil || got != outdated {
		t.Errorf("reconcileProtectors() = %q, %v, want %q", got, err, outdated)
	}
	if len(brake.withdrawn) > 0 {
		t.Errorf("got the withdrawn decreases %q, want none", brake.withdrawn)
	}
}

// A leader that was paused sees the former state of the source, and another leader has recorded that a user deleted it. Without the record the
// protector would stay in force until a user confirms that it is not needed any more.
func TestStaleLeaderDoesNotHideDeletion(t *testing.T) {
	p := newFixture(t)
	web, protector := p.createWebWithProtector()
	stale := web.DeepCopy()
	held := deletedCause(p.ref("web")).heldCondition
	meta.SetStatusCondition(&protector.Status.Conditions, held.Condition)
	if err := p.Status().Update(t.Context(), protector); err != nil {
		t.Fatal(err)
	}
	r := p.reconciler(&holdingBrake{})
	protect := func() {
		t.Helper()
		_, err := r.reconcileProtectors(t.Context(), p.ref("web"), stale, []*v1alpha1.PodProtector{protector.DeepCopy()})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(protector), protector); err != nil {
			t.Fatal(err)
		}
	}
	p.loseDeployment(web)
	if protect(); !held.IsSet(protector) {
		t.Errorf("the source was deleted, but the conditions are %+v", protector.Status.Conditions)
	}
	again := stale.DeepCopy()
	again.ResourceVersion, again.UID = "", ""
	if err := p.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if protect(); !held.IsSet(protector) {
		t.Errorf("another source has the name, but the conditions are %+v", protector.Status.Conditions)
	}
	stale = again
	if protect(); !isSourceFound(protector) {
		t.Errorf("the source was created again, but the conditions are %+v", protector.Status.Conditions)
	}
}

// The record was written after the protector was read.
func TestNewerRecordIsNotWithdrawn(t *testing.T) {
	p := newFixture(t)
	_, read := p.createWebWithProtector()
	p.recordPendingDecrease(read, v1alpha1.ReasonQuietPeriod)
	newer := read.DeepCopy()
	p.recordPendingDecrease(newer, v1alpha1.ReasonCascade)
	b := &brakes.Brake{Client: p.Client, Live: p.Client, Events: events.NewFakeRecorder(9)}
	if err := b.Withdraw(t.Context(), read); !apierrors.IsConflict(err) {
		t.Errorf("Withdraw() = %v, want a conflict", err)
	}
	if err := b.Withdraw(t.Context(), newer); err != nil {
		t.Errorf("Withdraw(live protector) = %v, want nil", err)
	}
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(read), read); err != nil ||
		meta.IsStatusConditionTrue(read.Status.Conditions, v1alpha1.ConditionDecreasePending) {
		t.Errorf("got the conditions %+v, %v, want nothing pending", read.Status.Conditions, err)
	}
}

// pausingClient runs a function before its next apply, patch or creation, as if the process were paused there.
type pausingClient struct {
	client.Client
	pause func()
}

func (c *pausingClient) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	c.pauseOnce()
	return c.Client.Apply(ctx, object, options...)
}

func (c *pausingClient) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	c.pauseOnce()
	return c.Client.Patch(ctx, object, patch, options...)
}

func (c *pausingClient) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	c.pauseOnce()
	return c.Client.Create(ctx, object, options...)
}

func (c *pausingClient) pauseOnce() {
	if pause := c.pause; pause != nil {
		c.pause = nil
		pause()
	}
}

// A leader decides, and is paused before it writes. Meanwhile another leader raises the floor, or creates the protector.
func TestPausedLeaderDoesNotWriteOverHigherFloor(t *testing.T) {
	for claim, existed := range map[string]bool{"an update": true, "a creation": false} {
		t.Run(claim, func(t *testing.T) {
			p := newFixture(t)
			web, protector := p.createWebWithProtector() // a floor of 7 of 10
			protectors := []*v1alpha1.PodProtector{protector}
			if !existed {
				p.deleteWithFinalizers(protector)
				protectors = nil
			}
			edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 8 })
			stale := web.DeepCopy() // which wants 6: a small decrease
			paused, other := p.reconciler(&holdingBrake{}), p.reconciler(&holdingBrake{})
			paused.protection.applier.client = &pausingClient{Client: p.Client, pause: func() {
				edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 60 })
				if _, err := other.reconcileProtectors(t.Context(), p.ref("web"), web, protectors); err != nil {
					t.Fatal(err)
				}
			}}
			got, err := paused.reconcileProtectors(t.Context(), p.ref("web"), stale, protectors)
			if err != nil || got != outdated {
				t.Errorf("reconcileProtectors() = %q, %v, want %q", got, err, outdated)
			}
			p.waitForProtector("deployment-web", "the higher floor stays", hasFloor(42))
		})
	}
}

// A leader decides on a release, and is paused before it writes. Meanwhile another leader raises the floor, since the source was created again.
func TestPausedLeaderDoesNotReleaseChangedProtector(t *testing.T) {
	p := newFixture(t)
	_, protector := p.createWebWithProtector()
	r := p.reconciler(nil)
	r.releaser.client = &pausingClient{Client: p.Client, pause: func() {
		edit(p, protector.DeepCopy(), func(live *v1alpha1.PodProtector) { live.Spec.MinAvailable = v1alpha1.Pods(42) })
	}}
	got, err := r.releaser.releaseWithoutSource(t.Context(), p.ref("web"), protector, releaseCause{text: "Deployment web was deleted"})
	if err == nil {
		t.Errorf("releaseWithoutSource() = %q, want an error, to decide again", got)
	}
	p.waitForProtector("deployment-web", "the protector with the higher floor stays", hasFloor(42))
}

// stalePolicies is a cache that shows a former state of a policy.
type stalePolicies struct {
	client.Reader
	shown v1alpha1.ProtectionPolicy
}

func (s stalePolicies) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if policies, ok := list.(*v1alpha1.ProtectionPolicyList); ok {
		policies.Items = []v1alpha1.ProtectionPolicy{s.shown}
		return nil
	}
	return s.Reader.List(ctx, list, options...)
}

// The cache may show a policy that a user has made stronger since.
func TestStalePolicyDoesNotWeakenProtector(t *testing.T) {
	p := newFixture(t)
	rule := p.policy("all", "90%", func(pp *v1alpha1.ProtectionPolicy) { pp.Finalizers = []string{v1alpha1.FinalizerPolicy} })
	p.create(rule)
	web := p.unlabeledDeployment("web")
	web.Finalizers = []string{v1alpha1.FinalizerSource}
	p.create(web)
	brake := &holdingBrake{}
	r := p.reconciler(brake)
	if _, err := r.reconcileProtectors(t.Context(), p.ref("web"), web, nil); err != nil {
		t.Fatal(err)
	}
	protector := p.waitForProtector("deployment-web", "the policy applies", hasFloor(9))
	r.policies.cache = stalePolicies{p.Client, *p.policy("all", "10%", func(pp *v1alpha1.ProtectionPolicy) {
		pp.Finalizers, pp.Spec.Workloads = rule.Finalizers, rule.Spec.Workloads
	})}

	got, err := r.reconcileProtectors(t.Context(), p.ref("web"), web, []*v1alpha1.PodProtector{protector})
	if err != nil || got != outdated {
		t.Errorf("reconcileProtectors() = %q, %v, want %q", got, err, outdated)
	}
	if len(brake.requests) > 0 {
		t.Errorf("brake got the requests %q, want none", brake.requests)
	}
	p.waitForProtector("deployment-web", "the floor stays", hasFloor(9))
}

// In a storm, webhooks write the status all the time. A floor rises all the same.
func TestFloorRisesAlthoughStatusChangesMeanwhile(t *testing.T) {
	p := newFixture(t)
	web, protector := p.createWebWithProtector()
	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 60 })
	r := p.reconciler(&holdingBrake{})
	r.protection.applier.client = &pausingClient{Client: p.Client, pause: func() {
		p.recordPendingDecrease(protector.DeepCopy(), v1alpha1.ReasonQuietPeriod)
	}}
	got, err := r.reconcileProtectors(t.Context(), p.ref("web"), web, []*v1alpha1.PodProtector{protector})
	if err != nil || got != protected {
		t.Errorf("reconcileProtectors() = %q, %v, want %q", got, err, protected)
	}
	p.waitForProtector("deployment-web", "the floor rises", hasFloor(42))
}
