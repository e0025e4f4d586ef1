package disasters_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const setReplicas = 3

// applySet applies the StatefulSet web of a cell, as a field manager.
func (l fixture) applySet(cell storm.Cell, manager string) {
	l.Helper()
	labels := map[string]string{"app": "web"}
	pod := applycorev1.PodSpec().WithTerminationGracePeriodSeconds(1).WithAutomountServiceAccountToken(false).
		WithContainers(applycorev1.Container().WithName("app").WithImage(storm.Image))
	set := applyappsv1.StatefulSet("web", l.Namespace).WithSpec(applyappsv1.StatefulSetSpec().WithReplicas(setReplicas).WithServiceName("web").
		WithPodManagementPolicy(appsv1.ParallelPodManagement).WithSelector(applymetav1.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(applycorev1.PodTemplateSpec().WithLabels(labels).WithSpec(pod)))
	_, err := cell.Client.AppsV1().StatefulSets(l.Namespace).Apply(l.Context(), set, metav1.ApplyOptions{FieldManager: manager, Force: true})
	l.Must(err)
}

// waitForWholeSets waits until the StatefulSets of all cells have all of their pods, ready and owned by the living object.
func (l fixture) waitForWholeSets() {
	l.Helper()
	l.Eventually(func() string {
		for _, cell := range l.Cells {
			set, err := cell.Client.AppsV1().StatefulSets(l.Namespace).Get(l.Context(), "web", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			owned := 0
			pods := l.ExistingPods(cell)
			for i := range pods {
				if metav1.IsControlledBy(&pods[i], set) {
					owned++
				}
			}
			if owned != setReplicas || len(pods) != setReplicas || set.Status.ReadyReplicas != setReplicas {
				return fmt.Sprintf("the StatefulSet of cell %s owns %d of %d pods, and %d are ready, want %d: %s", cell.Name, owned, len(pods), set.Status.ReadyReplicas, setReplicas, describeOwners(pods))
			}
		}
		return ""
	})
	l.WaitForSummary(e2e.AllAvailable(setReplicas * len(l.Cells)))
}

func describeOwners(pods []corev1.Pod) (all []string) {
	for i := range pods {
		text := pods[i].Name
		for _, owner := range pods[i].OwnerReferences {
			text += " of " + string(owner.UID)
		}
		all = append(all, text)
	}
	return all
}

// A StatefulSet cannot adopt the pods of a deleted one of its name, and cannot create pods of their names (docs/how-to/clients.md, "A workload
// that was deleted by accident").
func TestRecreatedStatefulSetsBecomeWholeAgain(t *testing.T) {
	claim(t, "a StatefulSet that is deleted in all cells and applied again gets all of its pods, above a floor over two cells", func(l fixture) {
		floor := setReplicas*len(l.Cells) - 1
		l.CreateProtector(floor)
		for _, cell := range l.Cells {
			l.applySet(cell, "kubectl")
		}
		l.waitForWholeSets()
		l.waitForWebhooks()
		l.startPodWatch(floor)
		for _, accident := range []struct {
			name    string
			how     metav1.DeletionPropagation
			manager string
		}{
			{"background", metav1.DeletePropagationBackground, "kubectl"},
			{"foreground", metav1.DeletePropagationForeground, "kubectl"},
			{"orphan", metav1.DeletePropagationOrphan, "kubectl"},
			{"prune and restore", metav1.DeletePropagationBackground, "gitops"},
		} {
			l.Logf("accident: %s", accident.name)
			for _, cell := range l.Cells {
				sets := cell.Client.AppsV1().StatefulSets(l.Namespace)
				l.Must(sets.Delete(l.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &accident.how}))
				if accident.how != metav1.DeletePropagationOrphan {
					l.waitForCollectorDenied(cell)
				}
				l.removeFinalizers(cell, accident.how)
			}
			for _, cell := range l.Cells {
				l.applySet(cell, accident.manager)
			}
			l.waitForWholeSets()
		}
	})
}

// waitForCollectorDenied waits until pods of the deleted StatefulSet of a cell remain, and the floor keeps them.
func (l fixture) waitForCollectorDenied(cell storm.Cell) {
	l.Helper()
	l.Eventually(func() string {
		pods := l.ExistingPods(cell)
		if len(pods) == 0 {
			return "no pod is left in cell " + cell.Name
		}
		return denialProblem(l.dryRunRemoval(cell), "/web")
	})
}

// removeFinalizers waits until the StatefulSet of a cell does not exist. After foreground deletion it removes the finalizers, as the runbook says.
func (l fixture) removeFinalizers(cell storm.Cell, how metav1.DeletionPropagation) {
	l.Helper()
	sets := cell.Client.AppsV1().StatefulSets(l.Namespace)
	l.Eventually(func() string {
		set, err := sets.Get(l.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return ""
		}
		if how == metav1.DeletePropagationForeground {
			_, err = sets.Patch(l.Context(), "web", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			if err != nil {
				return err.Error()
			}
		}
		return fmt.Sprintf("the StatefulSet of cell %s still exists: %+v", cell.Name, set.ObjectMeta)
	})
}
