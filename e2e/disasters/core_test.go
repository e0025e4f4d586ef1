package disasters_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

func TestCoreRestoredFromHourOldBackup(t *testing.T) {
	claim(t, "used budget is not granted again, and protectors created since the backup are recreated", func(l fixture) {
		l.createCountedProtector(6, 10)
		v := l.startPodWatch(6)
		backup := l.backUpEtcd(l.core())
		late := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "zz-late"}}
		late.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
		late.Spec.MinAvailable = v1alpha1.Pods(2)
		l.Must(l.Core.Create(l.Context(), late))
		l.waitForFinalizer(late.Name)
		v.waitForExhaustedBudget("/web")
		l.WaitForSummary(e2e.AllAvailable(6))

		l.restartComponents(l.core())
		start := l.restoreEtcd(l.core(), backup)
		end := v.startAttack()
		// The webhooks start before the aggregators. They read the state of the backup, in which ten pods were available.
		count := l.freezeComponents(l.aggregators()...)
		start()
		if got := l.getProtector("web").Status.Summary.Available; got != 10 {
			l.Fatalf("the core counts %d pods, want the 10 of its backup: the restore undid nothing", got)
		}
		l.waitForDenials("was restored, or its core cluster was, and not all of its cells have been counted again")
		count()
		l.waitForRecreated(l.withIdentityOnly(late))
		l.WaitForSummary(e2e.AllAvailable(6))
		end()
		l.waitForDenials("/web", "floor 6, available 6")

		again := l.Application(2)
		again.Instance = "again"
		l.Must(again.DeployBare(l.Context(), l.Cells))
		v.waitForAvailable(8)
		v.waitForExhaustedBudget("/web")
	})
}

// withIdentityOnly returns a protector that has only the metadata of p.
func (l fixture) withIdentityOnly(p *v1alpha1.PodProtector) *v1alpha1.PodProtector {
	return &v1alpha1.PodProtector{ObjectMeta: *p.ObjectMeta.DeepCopy()}
}

func TestCoreUnreachable(t *testing.T) {
	claim(t, "removals are denied with a reason, break-glass removals are admitted, and are charged afterwards", func(l fixture) {
		l.createCountedProtector(7, 8)
		// Two pods are removed with break-glass. The floor would allow one of these removals, but the webhook cannot determine that. The
		// other one is below the floor.
		v := l.startPodWatch(6)
		core := l.faults(l.core())
		l.restartComponents(l.core())
		l.Must(core.Kill(federation.APIServer))
		end := v.startAttack()
		l.expectDenialsInAllCells("the removal could not be reserved with PodProtector", "/web", `core cluster "`,
			"try again, or in an emergency force this pod alone, in this cluster: kubectl breakwater force pod/")
		if got := end().Counts(); got.Denied == 0 || got.Admitted > 0 {
			l.Errorf("removals without a core: %+v", got)
		}
		for _, pod := range l.ExistingPods(l.Cells[0])[:2] {
			l.forceRemoval(l.Cells[0], pod.Name)
		}
		v.waitForAvailable(6)
		l.expectDenialsInAllCells("the removal could not be reserved with PodProtector")

		// Break-glass removals are charged before the aggregators count the pods.
		count := l.freezeComponents(l.aggregators()...)
		l.Must(core.Restart(l.Context(), federation.APIServer))
		l.WaitForSummary(v1alpha1.Summary{Total: 8, Scheduled: 8, Running: 8, Ready: 8, Available: 8, Reserved: 2, EstimatedAvailable: 6})
		l.expectDenialsInAllCells("/web", "floor 7, available 8, removals under way 2")
		count()
		l.WaitForSummary(e2e.AllAvailable(6))
		l.waitForDenials("/web", "floor 7, available 6")
		v.stopAndJudge()
		again := l.Application(3)
		again.Instance = "again"
		l.Must(again.DeployBare(l.Context(), l.Cells))
		l.WaitForSummary(e2e.AllAvailable(9))
		l.startPodWatch(7).waitForExhaustedBudget("/web")
	})
}

// forceRemoval sets the break-glass annotation on a pod and deletes the pod.
func (l fixture) forceRemoval(cell storm.Cell, pod string) {
	l.Helper()
	patch := []byte(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationForceDelete + `":"true"}}}`)
	_, err := cell.Client.CoreV1().Pods(l.Namespace).Patch(l.Context(), pod, types.MergePatchType, patch, metav1.PatchOptions{})
	l.Must(err)
	l.Must(l.DeletePod(cell, pod))
}
