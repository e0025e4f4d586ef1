package disasters_test

import (
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

// awaitHold waits until the keeper holds a protector. Before that its loss cannot be told from its end.
func (l lab) awaitHold(name string) {
	l.Helper()
	l.Eventually(func() string {
		if !slices.Contains(l.protector(name).Finalizers, v1alpha1.FinalizerHold) {
			return "protector " + name + " is not held yet"
		}
		return ""
	})
}

func reservations(p *v1alpha1.PodProtector) (n int) {
	for i := range p.Status.Cells {
		for _, bucket := range p.Status.Cells[i].AdmissionHistory.Buckets {
			n += max(1, int(bucket.Counter))
		}
	}
	return n
}

func TestProtectorsAreErasedFromTheCore(t *testing.T) {
	claim(t, "they stay in force from memory, and are made anew with what was reserved", func(l lab) {
		l.protect(6, 10)
		v := l.watch(6)
		// What is admitted now stays reserved: nobody counts it.
		count := l.freeze(l.aggregators()...)
		l.Must(l.removeAny(0, false))
		l.Must(l.removeAny(1, true))
		v.awaitAvailable(8)
		before := l.protector("web")
		if reservations(before) != 2 {
			l.Fatalf("%d reservations, want 2: %+v", reservations(before), before.Status)
		}
		restore := l.freeze(install.GeneratorName(l.Core.Name))
		l.erase(l.core(), 1, "breakwater.dev/podprotectors/"+l.Namespace)
		end := v.siege()
		l.wantRefusalsEverywhere("/web", "is gone although nobody has released it", "floor 6, available 10, removals under way 2")

		restore()
		p := l.protectorAnew(before)
		if reservations(p) != 2 {
			l.Errorf("%d reservations were restored, want 2: %+v", reservations(p), p.Status)
		}
		l.awaitEvent("web", v1alpha1.ConditionRestored)
		l.awaitRefusals("/web", "was restored, or its core cluster was, and not all of its cells are counted anew")
		count()
		v.awaitAvailable(6)
		end()
		v.wantExhausted("/web")
	})
}

// protectorAnew waits until a protector that vanished is made anew.
func (l lab) protectorAnew(before *v1alpha1.PodProtector) *v1alpha1.PodProtector {
	l.Helper()
	p := before.DeepCopy()
	l.awaitCondition(p, v1alpha1.ConditionRestored, metav1.ConditionTrue, v1alpha1.ReasonVanished)
	if p.UID == before.UID {
		l.Fatalf("the protector was never gone: %+v", p.ObjectMeta)
	}
	return p
}
