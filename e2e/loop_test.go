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
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

func TestPodsOfAllCellsAreCountedWhenTheyHaveBeenReadyForLongEnough(t *testing.T) {
	claim(t, "7 pods count as available 5 s after they become ready, without any event; strays vanish", func(l *lab) {
		l.Protect(1, func(s *v1alpha1.PodProtectorSpec) { s.MinReadySeconds = 5 })
		l.Must(l.App(7).DeployBare(l.Context(), l.Cells))
		for _, cell := range l.Cells {
			for _, pod := range l.Pods(cell) {
				l.SetReady(cell, pod.Name, false)
			}
		}
		l.AwaitSummary(v1alpha1.Summary{Total: 7, Running: 7, Scheduled: 7})

		for _, pod := range l.Pods(l.Cells[0])[:4] {
			l.SetReady(l.Cells[0], pod.Name, true)
		}
		l.AwaitSummary(v1alpha1.Summary{Total: 7, Ready: 4, Running: 7, Scheduled: 7})
		four := v1alpha1.Summary{Total: 7, Available: 4, EstimatedAvailable: 4, Ready: 4, Running: 7, Scheduled: 7}
		p := l.AwaitSummary(four)
		if got := p.Status.DisruptionsAllowed; got != 3 {
			l.Errorf("disruptionsAllowed is %d, want 3", got)
		}

		l.Eventually(func() string {
			p := l.Protector()
			for i := range p.Status.Cells {
				p.Status.Cells[i].AdmissionHistory.Buckets = []v1alpha1.Bucket{{
					StartTime: metav1.NowMicro(), Counter: 1, PodUID: "never-was", PodName: "never-was",
				}}
			}
			return e2e.Word(l.Core.Status().Update(l.Context(), p))
		})
		l.Eventually(func() string {
			for _, cell := range l.Protector().Status.Cells {
				if left := cell.AdmissionHistory.Buckets; len(left) > 0 {
					return fmt.Sprintf("stray reservations in %s: %+v", cell.CellID, left)
				}
			}
			return ""
		})
		l.AwaitSummary(four)
	})
}

func TestAProtectorFollowsItsDeploymentUntilThatIsDeleted(t *testing.T) {
	claim(t, "10 replicas and 30 % make a floor of 7, 20 make 14, and both objects go together", func(l *lab) {
		deployment := sourceDeployment(l.Namespace)
		l.Must(l.Core.Create(l.Context(), deployment))
		p := &v1alpha1.PodProtector{}
		key := client.ObjectKey{Namespace: l.Namespace, Name: "deployment-web"}
		awaitFloor := func(want int32) {
			l.Helper()
			l.Eventually(func() string {
				if err := l.Core.Get(l.Context(), key, p); err != nil {
					return err.Error()
				}
				if p.Spec.MinAvailable.IntVal != want || p.Spec.MinReadySeconds != 15 || p.Status.DesiredAvailable != want {
					return fmt.Sprintf("spec %+v, floor %d, want %d", p.Spec, p.Status.DesiredAvailable, want)
				}
				return ""
			})
		}
		awaitFloor(7)
		l.Must(l.Core.Patch(l.Context(), deployment, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":20}}`))))
		awaitFloor(14)

		l.Must(l.Core.Delete(l.Context(), p))
		l.Must(l.Core.Get(l.Context(), key, p))
		if p.DeletionTimestamp == nil || len(p.Finalizers) == 0 {
			l.Fatalf("a deleted protector is not held: %+v", p.ObjectMeta)
		}
		l.Must(l.Core.Delete(l.Context(), deployment))
		for _, object := range []client.Object{deployment, p} {
			l.Eventually(func() string {
				if err := l.Core.Get(l.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
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
		"delete": (*lab).Remove,
		"evict":  (*lab).Evict,
	} {
		t.Run(way, func(t *testing.T) {
			claim(t, "with 7 available and a floor of 5 one removal in each worker passes and the third does not", func(l *lab) {
				l.Protect(5)
				l.DeployBare(l.App(7))
				l.Must(remove(l, l.Cells[0], l.Pods(l.Cells[0])[0].Name))
				l.Must(remove(l, l.Cells[1], l.Pods(l.Cells[1])[0].Name))
				for _, cell := range l.Cells {
					l.WantRefusal(remove(l, cell, l.Pods(cell)[0].Name), "floor 5")
				}
				l.AwaitSummary(e2e.AllAvailable(5))
				if got := l.Living(); got != 5 {
					l.Errorf("%d pods live, want 5", got)
				}
			})
		})
	}
}

func TestADeleteCollectionIsRefused(t *testing.T) {
	claim(t, "deletecollection stops at the floor", func(l *lab) {
		l.Protect(5)
		l.DeployBare(l.App(7))
		cell := l.Cells[1]
		l.Must(l.Remove(l.Cells[0], l.Pods(l.Cells[0])[0].Name))
		l.Must(l.Remove(l.Cells[0], l.Pods(l.Cells[0])[0].Name))
		l.WantRefusal(cell.Client.CoreV1().Pods(l.Namespace).DeleteCollection(l.Context(),
			metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=web"}), "floor 5")
		if got := l.Living(); got != 5 {
			l.Errorf("%d pods live, want 5", got)
		}
	})
}

func TestMaxConcurrentLagHoldsBackWhatAnAggregatorHasNotSeen(t *testing.T) {
	claim(t, "with maxConcurrentLag 1 and a frozen aggregator the first removal passes and no other", func(l *lab) {
		l.Protect(1, func(s *v1alpha1.PodProtectorSpec) { s.AdmissionHistory.MaxConcurrentLag = 1 })
		l.DeployBare(l.App(8))
		frozen := install.AggregatorName(l.Core.Name, l.Cells[0].Name)
		l.Must(l.Breakwater.Freeze(frozen))
		defer func() { l.Must(l.Breakwater.Thaw(frozen)) }()
		pods := l.Pods(l.Cells[0])
		l.Must(l.Remove(l.Cells[0], pods[0].Name))
		l.WantRefusal(l.Remove(l.Cells[0], pods[1].Name), "maxConcurrentLag")
		l.WantRefusal(l.Evict(l.Cells[0], pods[2].Name), "maxConcurrentLag")
		l.WantRefusal(l.Remove(l.Cells[1], l.Pods(l.Cells[1])[0].Name), "maxConcurrentLag")

		l.Must(l.Breakwater.Thaw(frozen))
		l.Eventually(func() string { return e2e.Word(l.Remove(l.Cells[0], pods[1].Name)) })
	})
}

func TestPodsThatAreNotAvailableAreNotCharged(t *testing.T) {
	claim(t, "at budget 0 an unready pod passes, and one that is not ready for long enough", func(l *lab) {
		l.Protect(5)
		l.DeployBare(l.App(6))
		cell := l.Cells[0]
		unready := l.Pods(cell)[0].Name
		l.SetReady(cell, unready, false)
		l.AwaitSummary(v1alpha1.Summary{Total: 6, Available: 5, EstimatedAvailable: 5, Ready: 5, Running: 6, Scheduled: 6})
		l.WantRefusal(l.Remove(cell, l.Pods(cell)[1].Name), "floor 5")
		l.Must(l.Remove(cell, unready))

		long := int32(3600)
		l.Eventually(func() string {
			p := l.Protector()
			p.Spec.MinReadySeconds = long
			return e2e.Word(l.Core.Update(l.Context(), p))
		})
		l.Eventually(func() string {
			if got := l.Protector().Status.Summary; got.Available != 0 || got.Ready != 5 {
				return fmt.Sprintf("summary %+v, want 5 ready and none available", got)
			}
			return ""
		})
		l.Must(l.Evict(cell, l.Pods(cell)[0].Name))
	})
}

func TestAReservationThatSomebodyElseRefusedComesBack(t *testing.T) {
	claim(t, "budget of an eviction that a PodDisruptionBudget refused returns after the admission deadline", func(l *lab) {
		l.Protect(5)
		l.DeployBare(l.App(6))
		cell := l.Cells[0]
		forbidEvictions(l, cell)
		began := time.Now()
		if err := l.Evict(cell, l.Pods(cell)[0].Name); !apierrors.IsTooManyRequests(err) {
			l.Fatalf("eviction: %v, want the refusal of the PodDisruptionBudget", err)
		}
		l.WantRefusal(l.Remove(cell, l.Pods(cell)[1].Name), "floor 5", "removals under way 1")
		l.AwaitSummary(e2e.AllAvailable(6))
		if early := time.Since(began); early < e2e.AdmissionDeadline {
			l.Errorf("the reservation came back after %s, before the deadline of %s", early, e2e.AdmissionDeadline)
		}
		l.Must(l.Remove(cell, l.Pods(cell)[1].Name))
	})
}
