package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
)

func guardUpdates(spec *v1alpha1.PodProtectorSpec) {
	spec.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict, v1alpha1.OperationUpdate}
}

func TestInPlaceUpdateConsumesBudgetUntilDone(t *testing.T) {
	claim(t, "the floor limits how many pods are updated in place at once, and each available pod frees budget for the next", func(l *fixture) {
		l.CreateProtector(4, guardUpdates)
		l.CreateBarePods(l.Application(6))
		cell := l.Cells[0]
		pods := l.ExistingPods(cell)
		for _, pod := range pods[:2] {
			l.SetUpdatesHeld(cell, pod.Name, true)
			l.Must(l.SetImage(cell, pod.Name, "web:2"))
		}
		l.ExpectDenial(l.SetImage(cell, pods[2].Name, "web:2"), "refuses to update pod", "floor 4")
		l.ExpectDenial(l.DeletePod(l.Cells[1], l.ExistingPods(l.Cells[1])[0].Name), "refuses to remove pod", "floor 4")

		l.SetUpdatesHeld(cell, pods[0].Name, false)
		l.Eventually(func() string { return e2e.ErrorText(l.SetImage(cell, pods[2].Name, "web:2")) })
		l.SetUpdatesHeld(cell, pods[1].Name, false)
		l.WaitForSummary(e2e.AllAvailable(6))
		for _, pod := range l.ExistingPods(cell) {
			if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 1 {
				l.Errorf("pod %s was restarted %d times, want once", pod.Name, restarts)
			}
		}
	})
}

func TestOverdueUpdateReleasesReservation(t *testing.T) {
	claim(t, "an overdue update releases its reservation, and an event reports it", func(l *fixture) {
		timeout := int32(10)
		l.CreateProtector(5, guardUpdates, func(spec *v1alpha1.PodProtectorSpec) { spec.AdmissionHistory.UpdateTimeoutSeconds = &timeout })
		l.CreateBarePods(l.Application(6))
		cell := l.Cells[0]
		pod := l.ExistingPods(cell)[0]
		l.SetUpdatesHeld(cell, pod.Name, true)
		l.Must(l.SetImage(cell, pod.Name, "web:2"))
		l.WaitForSummary(e2e.AllAvailable(6)) // after the admission deadline
		l.Eventually(func() string {
			list := &eventsv1.EventList{}
			l.Must(l.Core.List(l.Context(), list, client.InNamespace(l.Namespace)))
			for i := range list.Items {
				if list.Items[i].Reason == "UpdateOverdue" && list.Items[i].Regarding.Name == "web" {
					return ""
				}
			}
			return fmt.Sprintf("no event reports the overdue update among %d events", len(list.Items))
		})
	})
}

func TestTargetRefProtectsPodsInEveryCell(t *testing.T) {
	claim(t, "only the pods of a Deployment of the same name are protected, in every cell", func(l *fixture) {
		l.CreateProtector(0, func(spec *v1alpha1.PodProtectorSpec) {
			missing := intstr.FromString("25%")
			spec.Selector, spec.MinAvailable, spec.MaxUnavailable = nil, nil, &missing
			spec.TargetRef = &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web-0"}
		})
		app := l.Application(8)
		app.GraceSeconds = []int64{0} // one Deployment, web-0, in each cell
		l.Must(app.Deploy(l.Context(), l.Cells))
		l.WaitForSummary(e2e.AllAvailable(8))
		p := l.GetProtector()
		if resolved := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved); resolved == nil || resolved.Status != "True" {
			l.Errorf("TargetResolved is %+v", resolved)
		}
		if p.Status.DesiredAvailable != 6 || p.Status.DisruptionsAllowed != 2 {
			l.Errorf("floor %d and %d disruptions allowed, want 6 and 2", p.Status.DesiredAvailable, p.Status.DisruptionsAllowed)
		}
		second := p.DeepCopy()
		second.ResourceVersion, second.UID, second.Name = "", "", "second"
		l.Eventually(func() string {
			err := l.Core.Create(l.Context(), second.DeepCopy(), client.DryRunAll)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `PodProtector "web" already has the same targetRef`) {
				return fmt.Sprintf("a second protector of the same target was not rejected: %v", err)
			}
			return ""
		})
		// The Deployments are deleted without their pods: the floor stays.
		orphan := metav1.DeletePropagationOrphan
		for _, cell := range l.Cells {
			l.Must(cell.Client.AppsV1().Deployments(l.Namespace).Delete(l.Context(), "web-0", metav1.DeleteOptions{PropagationPolicy: &orphan}))
		}
		l.Eventually(func() string {
			p := l.GetProtector()
			resolved := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
			if resolved == nil || resolved.Reason != v1alpha1.ReasonTargetGone || p.Status.DesiredAvailable != 6 {
				return fmt.Sprintf("status %+v", p.Status)
			}
			return ""
		})
	})
}
