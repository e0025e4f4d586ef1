package aggregator

import (
	"errors"
	"strings"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/internal/ring"
	"github.com/breakwater-k8s/breakwater/internal/testplane"
)

// leaseLab is the Lease of a shard on a real apiserver, and a clock.
type leaseLab struct {
	*testing.T
	client    kubernetes.Interface
	namespace string
	clock     time.Time
}

func newLeaseLab(t *testing.T) *leaseLab {
	t.Helper()
	client, err := kubernetes.NewForConfig(testplane.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	return &leaseLab{T: t, client: client, namespace: testplane.Namespace(t), clock: time.Now()}
}

func (l *leaseLab) of(incarnation string) *shardLease {
	return &shardLease{
		leases: l.client.CoordinationV1().Leases(l.namespace), ring: "r", name: "web-0", holder: "web-0_" + incarnation, seconds: 10,
		now: time.Now, monotonic: func() time.Time { return l.clock },
	}
}

func (l *leaseLab) try(lease *shardLease) bool {
	l.Helper()
	taken, err := lease.try(l.Context())
	if err != nil {
		l.Fatal(err)
	}
	return taken
}

// hold is somebody else who writes another holder into it.
func (l *leaseLab) hold(holder string) {
	l.Helper()
	leases := l.client.CoordinationV1().Leases(l.namespace)
	lease, err := leases.Get(l.Context(), "web-0", metav1.GetOptions{})
	if err == nil {
		lease.Spec.HolderIdentity = &holder
		_, err = leases.Update(l.Context(), lease, metav1.UpdateOptions{})
	}
	if err != nil {
		l.Fatal(err)
	}
}

func TestALeaseIsHeldForAsLongAsItLastsSinceItsRenewalWasSent(t *testing.T) {
	l := newLeaseLab(t)
	lease := l.of("a")
	if !l.try(lease) || !lease.held() {
		t.Fatal("a Lease that nobody had is not taken")
	}
	l.clock = l.clock.Add(8 * time.Second)
	if err := lease.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.clock = l.clock.Add(9 * time.Second)
	if !lease.held() {
		t.Error("it lapses although it was renewed")
	}
	l.clock = l.clock.Add(time.Second)
	if lease.held() {
		t.Error("it is held for longer than it lasts")
	}
}

func TestALeaseThatWasTakenIsLostForGood(t *testing.T) {
	for claim, take := range map[string]func(*leaseLab){
		"buried":                      func(l *leaseLab) { l.hold("") },
		"revoked":                     func(l *leaseLab) { l.hold(ring.Revoked) },
		"another incarnation's":       func(l *leaseLab) { l.hold("web-0_b") },
		"given up as to come back to": func(l *leaseLab) { l.hold("web-0_") },
		"deleted": func(l *leaseLab) {
			if err := l.client.CoordinationV1().Leases(l.namespace).Delete(l.Context(), "web-0", metav1.DeleteOptions{}); err != nil {
				l.Fatal(err)
			}
		},
		"deleted and made anew": func(l *leaseLab) {
			leases := l.client.CoordinationV1().Leases(l.namespace)
			lease, err := leases.Get(l.Context(), "web-0", metav1.GetOptions{})
			if err == nil {
				err = leases.Delete(l.Context(), "web-0", metav1.DeleteOptions{})
			}
			if err == nil {
				_, err = leases.Create(l.Context(), &coordination.Lease{
					ObjectMeta: metav1.ObjectMeta{Name: "web-0", Labels: lease.Labels}, Spec: lease.Spec,
				}, metav1.CreateOptions{})
			}
			if err != nil {
				l.Fatal(err)
			}
		},
	} {
		t.Run(claim, func(t *testing.T) {
			l := newLeaseLab(t)
			lease := l.of("a")
			l.try(lease)
			take(l)
			if err := lease.renew(t.Context()); !errors.Is(err, errTaken) {
				t.Errorf("renewed: %v, want %v", err, errTaken)
			}
		})
	}
}

func TestALeaseWithAnotherLabelIsStillHeld(t *testing.T) {
	l := newLeaseLab(t)
	lease := l.of("a")
	l.try(lease)
	leases := l.client.CoordinationV1().Leases(l.namespace)
	stored, err := leases.Get(t.Context(), "web-0", metav1.GetOptions{})
	if err == nil {
		stored.Labels["team"] = "x"
		_, err = leases.Update(t.Context(), stored, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.renew(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestALeaseIsTakenWhenNobodyCanWorkByIt(t *testing.T) {
	for claim, test := range map[string]struct {
		holder string
		before string
		waits  bool
	}{
		"buried":                                {holder: ""},
		"stopped, and expected back":            {holder: "web-0_"},
		"an incarnation that may live":          {holder: "web-0_x", waits: true},
		"an incarnation that this process was":  {holder: "web-0_x", before: "web-0_x"},
		"somebody who is no shard of that name": {holder: "x"},
	} {
		t.Run(claim, func(t *testing.T) {
			l := newLeaseLab(t)
			l.try(l.of("first"))
			l.hold(test.holder)
			lease := l.of("second")
			lease.before = test.before
			if taken := l.try(lease); taken == test.waits {
				t.Fatalf("taken: %v", taken)
			}
			if !test.waits {
				return
			}
			l.clock = l.clock.Add(10 * time.Second)
			if l.try(lease) {
				t.Error("it is taken before it has not changed for as long as it lasts")
			}
			l.clock = l.clock.Add(time.Second)
			if !l.try(lease) {
				t.Error("it is not taken although it has lapsed")
			}
		})
	}
}

func TestARevokedLeaseIsNotTakenUntilItIsBuried(t *testing.T) {
	l := newLeaseLab(t)
	l.try(l.of("first"))
	l.hold(ring.Revoked)
	lease := l.of("second")
	for range 3 {
		if l.try(lease) {
			t.Fatal("a Lease is taken whose shard may not have noticed yet")
		}
		l.clock = l.clock.Add(time.Minute)
	}
	l.hold("")
	if !l.try(lease) {
		t.Error("it is not taken when it is buried")
	}
}

func TestALeaseOfAnotherRingIsRefused(t *testing.T) {
	l := newLeaseLab(t)
	l.try(l.of("first"))
	lease := l.of("second")
	lease.ring = "other"
	if _, err := lease.try(t.Context()); err == nil || !strings.Contains(err.Error(), `of ring "r": give the shard another name by --shard`) {
		t.Errorf("%v", err)
	}
	if works, err := lease.mayWork(t.Context()); err != nil || works {
		t.Errorf("a shard of another ring may be at work for this one: %v, %v", works, err)
	}
}
