package e2e_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/install"
	"github.com/breakwater-k8s/breakwater/internal/storm"
)

func TestPodsOfAllCellsAreCountedWhenTheyHaveBeenReadyForLongEnough(t *testing.T) {
	claim(t, "7 pods count as available 5 s after they become ready, without any event; strays vanish", func(l *lab) {
		l.protect(1, func(s *v1alpha1.PodProtectorSpec) { s.MinReadySeconds = 5 })
		l.must(l.app(7).DeployBare(l.ctx, l.cells))
		for _, cell := range l.cells {
			for _, pod := range l.pods(cell) {
				l.setReady(cell, pod.Name, false)
			}
		}
		l.awaitSummary(v1alpha1.Summary{Total: 7, Running: 7, Scheduled: 7})

		for _, pod := range l.pods(l.cells[0])[:4] {
			l.setReady(l.cells[0], pod.Name, true)
		}
		l.awaitSummary(v1alpha1.Summary{Total: 7, Ready: 4, Running: 7, Scheduled: 7})
		four := v1alpha1.Summary{Total: 7, Available: 4, EstimatedAvailable: 4, Ready: 4, Running: 7, Scheduled: 7}
		p := l.awaitSummary(four)
		if got := p.Status.DisruptionsAllowed; got != 3 {
			l.Errorf("disruptionsAllowed is %d, want 3", got)
		}

		l.eventually(func() string {
			p := l.protector()
			for i := range p.Status.Cells {
				p.Status.Cells[i].AdmissionHistory.Buckets = []v1alpha1.Bucket{{
					StartTime: metav1.NowMicro(), Counter: 1, PodUID: "never-was", PodName: "never-was",
				}}
			}
			return word(l.core.Status().Update(l.ctx, p))
		})
		l.eventually(func() string {
			for _, cell := range l.protector().Status.Cells {
				if left := cell.AdmissionHistory.Buckets; len(left) > 0 {
					return fmt.Sprintf("stray reservations in %s: %+v", cell.CellID, left)
				}
			}
			return ""
		})
		l.awaitSummary(four)
	})
}

// word is what an eventually has to say of an error.
func word(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestAProtectorFollowsItsDeploymentUntilThatIsDeleted(t *testing.T) {
	claim(t, "10 replicas and 30 % make a floor of 7, 20 make 14, and both objects go together", func(l *lab) {
		deployment := sourceDeployment(l.namespace)
		l.must(l.core.Create(l.ctx, deployment))
		p := &v1alpha1.PodProtector{}
		key := client.ObjectKey{Namespace: l.namespace, Name: "deployment-web"}
		awaitFloor := func(want int32) {
			l.Helper()
			l.eventually(func() string {
				if err := l.core.Get(l.ctx, key, p); err != nil {
					return err.Error()
				}
				if p.Spec.MinAvailable != want || p.Spec.MinReadySeconds != 15 || p.Status.DesiredAvailable != want {
					return fmt.Sprintf("spec %+v, floor %d, want %d", p.Spec, p.Status.DesiredAvailable, want)
				}
				return ""
			})
		}
		awaitFloor(7)
		l.must(l.core.Patch(l.ctx, deployment, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":20}}`))))
		awaitFloor(14)

		l.must(l.core.Delete(l.ctx, p))
		l.must(l.core.Get(l.ctx, key, p))
		if p.DeletionTimestamp == nil || len(p.Finalizers) == 0 {
			l.Fatalf("a deleted protector is not held: %+v", p.ObjectMeta)
		}
		l.must(l.core.Delete(l.ctx, deployment))
		for _, object := range []client.Object{deployment, p} {
			l.eventually(func() string {
				if err := l.core.Get(l.ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
					return fmt.Sprintf("%T is still there: %v, finalizers %v", object, err, object.GetFinalizers())
				}
				return ""
			})
		}
	})
}

func sourceDeployment(namespace string) *appsv1.Deployment {
	replicas, unavailable := int32(10), intstr.FromString("30%")
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "web", Labels: map[string]string{v1alpha1.LabelProtect: "true"},
	}}
	d.Spec.Replicas, d.Spec.MinReadySeconds = &replicas, 15
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: &unavailable}
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.Labels = labels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: storm.Image}}
	return d
}

func TestRemovalsInAllCellsShareOneBudget(t *testing.T) {
	for way, remove := range map[string]func(*lab, storm.Cell, string) error{
		"delete": (*lab).remove,
		"evict":  (*lab).evict,
	} {
		t.Run(way, func(t *testing.T) {
			claim(t, "with 7 available and a floor of 5 one removal in each worker passes and the third does not", func(l *lab) {
				l.protect(5)
				l.deployBare(l.app(7))
				l.must(remove(l, l.cells[0], l.pods(l.cells[0])[0].Name))
				l.must(remove(l, l.cells[1], l.pods(l.cells[1])[0].Name))
				for _, cell := range l.cells {
					l.wantRefusal(remove(l, cell, l.pods(cell)[0].Name), "floor 5")
				}
				l.awaitSummary(allAvailable(5))
				if got := l.living(); got != 5 {
					l.Errorf("%d pods live, want 5", got)
				}
			})
		})
	}
}

func TestADeleteCollectionIsRefused(t *testing.T) {
	claim(t, "deletecollection stops at the floor", func(l *lab) {
		l.protect(5)
		l.deployBare(l.app(7))
		cell := l.cells[1]
		l.must(l.remove(l.cells[0], l.pods(l.cells[0])[0].Name))
		l.must(l.remove(l.cells[0], l.pods(l.cells[0])[0].Name))
		l.wantRefusal(cell.Client.CoreV1().Pods(l.namespace).DeleteCollection(l.ctx,
			metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=web"}), "floor 5")
		if got := l.living(); got != 5 {
			l.Errorf("%d pods live, want 5", got)
		}
	})
}

func TestMaxConcurrentLagHoldsBackWhatAnAggregatorHasNotSeen(t *testing.T) {
	claim(t, "with maxConcurrentLag 1 and a frozen aggregator the first removal passes and no other", func(l *lab) {
		l.protect(1, func(s *v1alpha1.PodProtectorSpec) { s.AdmissionHistory.MaxConcurrentLag = 1 })
		l.deployBare(l.app(8))
		frozen := install.AggregatorName(l.shared.Federation().Cores()[0].Name(), l.cells[0].Name)
		l.must(l.breakwater.Freeze(frozen))
		defer func() { l.must(l.breakwater.Thaw(frozen)) }()
		pods := l.pods(l.cells[0])
		l.must(l.remove(l.cells[0], pods[0].Name))
		l.wantRefusal(l.remove(l.cells[0], pods[1].Name), "maxConcurrentLag")
		l.wantRefusal(l.evict(l.cells[0], pods[2].Name), "maxConcurrentLag")
		l.wantRefusal(l.remove(l.cells[1], l.pods(l.cells[1])[0].Name), "maxConcurrentLag")

		l.must(l.breakwater.Thaw(frozen))
		l.eventually(func() string { return word(l.remove(l.cells[0], pods[1].Name)) })
	})
}

func TestPodsThatAreNotAvailableAreNotCharged(t *testing.T) {
	claim(t, "at budget 0 an unready pod passes, and one that is not ready for long enough", func(l *lab) {
		l.protect(5)
		l.deployBare(l.app(6))
		cell := l.cells[0]
		unready := l.pods(cell)[0].Name
		l.setReady(cell, unready, false)
		l.awaitSummary(v1alpha1.Summary{Total: 6, Available: 5, EstimatedAvailable: 5, Ready: 5, Running: 6, Scheduled: 6})
		l.wantRefusal(l.remove(cell, l.pods(cell)[1].Name), "floor 5")
		l.must(l.remove(cell, unready))

		long := int32(3600)
		l.eventually(func() string {
			p := l.protector()
			p.Spec.MinReadySeconds = long
			return word(l.core.Update(l.ctx, p))
		})
		l.eventually(func() string {
			if got := l.protector().Status.Summary; got.Available != 0 || got.Ready != 5 {
				return fmt.Sprintf("summary %+v, want 5 ready and none available", got)
			}
			return ""
		})
		l.must(l.evict(cell, l.pods(cell)[0].Name))
	})
}

func TestAReservationThatSomebodyElseRefusedComesBack(t *testing.T) {
	claim(t, "budget of an eviction that a PodDisruptionBudget refused returns after the admission deadline", func(l *lab) {
		l.protect(5)
		l.deployBare(l.app(6))
		cell := l.cells[0]
		l.forbidEvictions(cell)
		began := time.Now()
		if err := l.evict(cell, l.pods(cell)[0].Name); !apierrors.IsTooManyRequests(err) {
			l.Fatalf("eviction: %v, want the refusal of the PodDisruptionBudget", err)
		}
		l.wantRefusal(l.remove(cell, l.pods(cell)[1].Name), "floor 5", "removals under way 1")
		l.awaitSummary(allAvailable(6))
		if early := time.Since(began); early < admissionDeadline {
			l.Errorf("the reservation came back after %s, before the deadline of %s", early, admissionDeadline)
		}
		l.must(l.remove(cell, l.pods(cell)[1].Name))
	})
}
