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

func guardsUpdates(spec *v1alpha1.PodProtectorSpec) {
	spec.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict, v1alpha1.OperationUpdate}
}

func TestAnUpdateInPlaceCostsBudgetUntilItIsDone(t *testing.T) {
	claim(t, "as many pods are updated in place at once as the floor allows, and the next when one is back", func(l *lab) {
		l.Protect(4, guardsUpdates)
		l.DeployBare(l.App(6))
		cell := l.Cells[0]
		pods := l.Pods(cell)
		for _, pod := range pods[:2] {
			l.HoldUpdates(cell, pod.Name, true)
			l.Must(l.SetImage(cell, pod.Name, "web:2"))
		}
		l.WantRefusal(l.SetImage(cell, pods[2].Name, "web:2"), "refuses to update pod", "floor 4")
		l.WantRefusal(l.Remove(l.Cells[1], l.Pods(l.Cells[1])[0].Name), "refuses to remove pod", "floor 4")

		l.HoldUpdates(cell, pods[0].Name, false)
		l.Eventually(func() string { return e2e.Word(l.SetImage(cell, pods[2].Name, "web:2")) })
		l.HoldUpdates(cell, pods[1].Name, false)
		l.AwaitSummary(e2e.AllAvailable(6))
		for _, pod := range l.Pods(cell) {
			if restarts := pod.Status.ContainerStatuses[0].RestartCount; restarts != 1 {
				l.Errorf("pod %s was restarted %d times, want once", pod.Name, restarts)
			}
		}
	})
}

func TestAnUpdateThatDoesNotComeToAnEndIsGivenUp(t *testing.T) {
	claim(t, "a pod that is not updated in time costs no budget any more, and an event tells", func(l *lab) {
		timeout := int32(10)
		l.Protect(5, guardsUpdates, func(spec *v1alpha1.PodProtectorSpec) { spec.AdmissionHistory.UpdateTimeoutSeconds = &timeout })
		l.DeployBare(l.App(6))
		cell := l.Cells[0]
		pod := l.Pods(cell)[0]
		l.HoldUpdates(cell, pod.Name, true)
		l.Must(l.SetImage(cell, pod.Name, "web:2"))
		l.AwaitSummary(e2e.AllAvailable(6)) // after the admission deadline
		l.Eventually(func() string {
			list := &eventsv1.EventList{}
			l.Must(l.Core.List(l.Context(), list, client.InNamespace(l.Namespace)))
			for i := range list.Items {
				if list.Items[i].Reason == "UpdateOverdue" && list.Items[i].Regarding.Name == "web" {
					return ""
				}
			}
			return fmt.Sprintf("no event says so: %d events", len(list.Items))
		})
	})
}

func TestATargetIsProtectedWhereItIs(t *testing.T) {
	claim(t, "the pods of a Deployment are protected in every cell that has one of its name, and nothing else", func(l *lab) {
		l.Protect(0, func(spec *v1alpha1.PodProtectorSpec) {
			missing := intstr.FromString("25%")
			spec.Selector, spec.MinAvailable, spec.MaxUnavailable = nil, nil, &missing
			spec.TargetRef = &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web-0"}
		})
		app := l.App(8)
		app.GraceSeconds = []int64{0} // one Deployment, web-0, in each cell
		l.Must(app.Deploy(l.Context(), l.Cells))
		l.AwaitSummary(e2e.AllAvailable(8))
		p := l.Protector()
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
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `PodProtector "web" has the targetRef of this one already`) {
				return fmt.Sprintf("a second protector of the same target was not refused: %v", err)
			}
			return ""
		})
		// The Deployments go and leave their pods: the floor stays.
		orphan := metav1.DeletePropagationOrphan
		for _, cell := range l.Cells {
			l.Must(cell.Client.AppsV1().Deployments(l.Namespace).Delete(l.Context(), "web-0", metav1.DeleteOptions{PropagationPolicy: &orphan}))
		}
		l.Eventually(func() string {
			p := l.Protector()
			resolved := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
			if resolved == nil || resolved.Reason != v1alpha1.ReasonTargetGone || p.Status.DesiredAvailable != 6 {
				return fmt.Sprintf("status %+v", p.Status)
			}
			return ""
		})
	})
}
