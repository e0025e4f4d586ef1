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

func TestPodsOfAllCellsAreCountedAfterMinReadySeconds(t *testing.T) {
	claim(t, "7 pods count as available 5 s after they become ready, without any event; stray reservations are dropped", func(l *fixture) {
		l.CreateProtector(1, func(s *v1alpha1.PodProtectorSpec) { s.MinReadySeconds = 5 })
		l.Must(l.Application(7).DeployBare(l.Context(), l.Cells))
		for _, cell := range l.Cells {
			for _, pod := range l.ExistingPods(cell) {
				l.SetReady(cell, pod.Name, false)
			}
		}
		l.WaitForSummary(v1alpha1.Summary{Total: 7, Running: 7, Scheduled: 7})

		for _, pod := range l.ExistingPods(l.Cells[0])[:4] {
			l.SetReady(l.Cells[0], pod.Name, true)
		}
		l.WaitForSummary(v1alpha1.Summary{Total: 7, Ready: 4, Running: 7, Scheduled: 7})
		four := v1alpha1.Summary{Total: 7, Available: 4, EstimatedAvailable: 4, Ready: 4, Running: 7, Scheduled: 7}
		p := l.WaitForSummary(four)
		if got := p.Status.DisruptionsAllowed; got != 3 {
			l.Errorf("disruptionsAllowed is %d, want 3", got)
		}

		l.Eventually(func() string {
			p := l.GetProtector()
			for i := range p.Status.Cells {
				p.Status.Cells[i].AdmissionHistory.Buckets = []v1alpha1.Bucket{{
					StartTime: metav1.NowMicro(), Counter: 1, PodUID: "never-was", PodName: "never-was",
				}}
			}
			return e2e.ErrorText(l.Core.Status().Update(l.Context(), p))
		})
		l.Eventually(func() string {
			for _, cell := range l.GetProtector().Status.Cells {
				if left := cell.AdmissionHistory.Buckets; len(left) > 0 {
					return fmt.Sprintf("stray reservations in %s: %+v", cell.CellID, left)
				}
			}
			return ""
		})
		l.WaitForSummary(four)
	})
}

func TestProtectorFollowsDeployment(t *testing.T) {
	claim(t, "10 replicas and 30 % give a floor of 7, 20 give 14, and deleting the Deployment deletes its protector", func(l *fixture) {
		deployment := newSourceDeployment(l.Namespace)
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
			l.Fatalf("a deleted protector has no finalizer: %+v", p.ObjectMeta)
		}
		l.Must(l.Core.Delete(l.Context(), deployment))
		for _, object := range []client.Object{deployment, p} {
			l.Eventually(func() string {
				if err := l.Core.Get(l.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
					return fmt.Sprintf("%T still exists: %v, finalizers %v", object, err, object.GetFinalizers())
				}
				return ""
			})
		}
	})
}

func newSourceDeployment(namespace string) *appsv1.Deployment {
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
	for way, remove := range map[string]func(*fixture, storm.Cell, string) error{
		"delete": (*fixture).DeletePod,
		"evict":  (*fixture).EvictPod,
	} {
		t.Run(way, func(t *testing.T) {
			claim(t, "with 7 available and a floor of 5 one removal in each worker is admitted and the third is denied", func(l *fixture) {
				l.CreateProtector(5)
				l.CreateBarePods(l.Application(7))
				l.Must(remove(l, l.Cells[0], l.ExistingPods(l.Cells[0])[0].Name))
				l.Must(remove(l, l.Cells[1], l.ExistingPods(l.Cells[1])[0].Name))
				for _, cell := range l.Cells {
					l.ExpectDenial(remove(l, cell, l.ExistingPods(cell)[0].Name), "floor 5")
				}
				l.WaitForSummary(e2e.AllAvailable(5))
				if got := l.CountExistingPods(); got != 5 {
					l.Errorf("%d pods exist, want 5", got)
				}
			})
		})
	}
}

func TestDeleteCollectionIsDenied(t *testing.T) {
	claim(t, "deletecollection stops at the floor", func(l *fixture) {
		l.CreateProtector(5)
		l.CreateBarePods(l.Application(7))
		cell := l.Cells[1]
		l.Must(l.DeletePod(l.Cells[0], l.ExistingPods(l.Cells[0])[0].Name))
		l.Must(l.DeletePod(l.Cells[0], l.ExistingPods(l.Cells[0])[0].Name))
		l.ExpectDenial(cell.Client.CoreV1().Pods(l.Namespace).DeleteCollection(l.Context(),
			metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=web"}), "floor 5")
		if got := l.CountExistingPods(); got != 5 {
			l.Errorf("%d pods exist, want 5", got)
		}
	})
}

func TestMaxConcurrentLagLimitsOpenReservations(t *testing.T) {
	claim(t, "with maxConcurrentLag 1 and a frozen aggregator only the first removal is admitted", func(l *fixture) {
		l.CreateProtector(1, func(s *v1alpha1.PodProtectorSpec) { s.AdmissionHistory.MaxConcurrentLag = 1 })
		l.CreateBarePods(l.Application(8))
		frozen := install.AggregatorName(l.Core.Name, l.Cells[0].Name)
		l.Must(l.Breakwater.Freeze(frozen))
		defer func() { l.Must(l.Breakwater.Thaw(frozen)) }()
		pods := l.ExistingPods(l.Cells[0])
		l.Must(l.DeletePod(l.Cells[0], pods[0].Name))
		l.ExpectDenial(l.DeletePod(l.Cells[0], pods[1].Name), "maxConcurrentLag")
		l.ExpectDenial(l.EvictPod(l.Cells[0], pods[2].Name), "maxConcurrentLag")
		l.ExpectDenial(l.DeletePod(l.Cells[1], l.ExistingPods(l.Cells[1])[0].Name), "maxConcurrentLag")

		l.Must(l.Breakwater.Thaw(frozen))
		l.Eventually(func() string { return e2e.ErrorText(l.DeletePod(l.Cells[0], pods[1].Name)) })
	})
}

func TestUnavailablePodsAreNotCharged(t *testing.T) {
	claim(t, "at budget 0 removals of an unready pod and of one that has not reached minReadySeconds are admitted", func(l *fixture) {
		l.CreateProtector(5)
		l.CreateBarePods(l.Application(6))
		cell := l.Cells[0]
		unready := l.ExistingPods(cell)[0].Name
		l.SetReady(cell, unready, false)
		l.WaitForSummary(v1alpha1.Summary{Total: 6, Available: 5, EstimatedAvailable: 5, Ready: 5, Running: 6, Scheduled: 6})
		l.ExpectDenial(l.DeletePod(cell, l.ExistingPods(cell)[1].Name), "floor 5")
		l.Must(l.DeletePod(cell, unready))

		long := int32(3600)
		l.Eventually(func() string {
			p := l.GetProtector()
			p.Spec.MinReadySeconds = long
			return e2e.ErrorText(l.Core.Update(l.Context(), p))
		})
		l.Eventually(func() string {
			if got := l.GetProtector().Status.Summary; got.Available != 0 || got.Ready != 5 {
				return fmt.Sprintf("summary %+v, want 5 ready and none available", got)
			}
			return ""
		})
		l.Must(l.EvictPod(cell, l.ExistingPods(cell)[0].Name))
	})
}

func TestReservationDeniedByPDBIsReleased(t *testing.T) {
	claim(t, "the reservation of an eviction that a PodDisruptionBudget denied is released after the admission deadline", func(l *fixture) {
		l.CreateProtector(5)
		l.CreateBarePods(l.Application(6))
		cell := l.Cells[0]
		createForbiddingBudget(l, cell)
		began := time.Now()
		if err := l.EvictPod(cell, l.ExistingPods(cell)[0].Name); !apierrors.IsTooManyRequests(err) {
			l.Fatalf("eviction: %v, want the denial by the PodDisruptionBudget", err)
		}
		l.ExpectDenial(l.DeletePod(cell, l.ExistingPods(cell)[1].Name), "floor 5", "removals under way 1")
		l.WaitForSummary(e2e.AllAvailable(6))
		if early := time.Since(began); early < e2e.AdmissionDeadline {
			l.Errorf("the reservation was released after %s, before the deadline of %s", early, e2e.AdmissionDeadline)
		}
		l.Must(l.DeletePod(cell, l.ExistingPods(cell)[1].Name))
	})
}
