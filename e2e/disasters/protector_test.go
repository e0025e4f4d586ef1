package disasters_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

func isTrue(conditions []metav1.Condition, kind string) bool {
	return meta.IsStatusConditionTrue(conditions, kind)
}

// waitForFinalizer waits until a protector has the finalizer. Without it, Breakwater cannot distinguish the loss of a protector from its
// regular deletion.
func (l fixture) waitForFinalizer(name string) {
	l.Helper()
	l.Eventually(func() string {
		if !slices.Contains(l.getProtector(name).Finalizers, v1alpha1.FinalizerHold) {
			return "protector " + name + " has no finalizer yet"
		}
		return ""
	})
}

func countReservations(p *v1alpha1.PodProtector) (n int) {
	for i := range p.Status.Cells {
		for _, bucket := range p.Status.Cells[i].AdmissionHistory.Buckets {
			n += max(1, int(bucket.Counter))
		}
	}
	return n
}

func TestProtectorsDeletedFromCoreEtcd(t *testing.T) {
	claim(t, "they stay in force from memory, and are recreated with their reservations", func(l fixture) {
		l.createCountedProtector(6, 10)
		v := l.startPodWatch(6)
		// Removals that are admitted now stay reserved, because no aggregator counts their pods.
		count := l.freezeComponents(l.aggregators()...)
		l.Must(l.removeAnyPod(0, false))
		l.Must(l.removeAnyPod(1, true))
		v.waitForAvailable(8)
		var before *v1alpha1.PodProtector
		l.Eventually(func() string { // on a slow machine the core counts as far, and webhooks reserve in advance for a second
			if before = l.getProtector("web"); countReservations(before) != 2 || before.Status.Summary.Reserved != 2 {
				return fmt.Sprintf("%d reservations, want 2: %+v", countReservations(before), before.Status)
			}
			return ""
		})
		restore := l.freezeComponents(install.GeneratorName(l.Core.Name))
		l.deleteFromEtcd(l.core(), 1, "breakwater.dev/podprotectors/"+l.Namespace)
		end := v.startAttack()
		l.expectDenialsInAllCells("/web", "no longer exists although it was not released", "floor 6, available 10, removals under way 2")

		restore()
		p := l.waitForRecreated(before)
		if countReservations(p) != 2 {
			l.Errorf("%d reservations were restored, want 2: %+v", countReservations(p), p.Status)
		}
		l.waitForEvent("web", v1alpha1.ConditionRestored)
		l.waitForDenials("/web", "was restored, or its core cluster was, and not all of its cells have been counted again")
		count()
		v.waitForAvailable(6)
		end()
		v.waitForExhaustedBudget("/web")
	})
}

// waitForRecreated waits until a lost protector is recreated, and returns it.
func (l fixture) waitForRecreated(before *v1alpha1.PodProtector) *v1alpha1.PodProtector {
	l.Helper()
	p := before.DeepCopy()
	l.waitForCondition(p, v1alpha1.ConditionRestored, metav1.ConditionTrue, v1alpha1.ReasonVanished)
	if p.UID == before.UID {
		l.Fatalf("the protector was never deleted: %+v", p.ObjectMeta)
	}
	return p
}
