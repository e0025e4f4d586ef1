package e2e

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// CreateProtector creates a protector of the pods labeled app=web.
func (l *Fixture) CreateProtector(floor int, change ...func(*v1alpha1.PodProtectorSpec)) {
	l.Helper()
	rate := int32(200)
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "web"}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(int32(floor))
	p.Spec.AdmissionHistory.AggregationRateMillis = &rate
	for _, c := range change {
		c(&p.Spec)
	}
	l.Must(l.Core.Create(l.Context(), p))
}

// GetProtector reads the protector that CreateProtector created.
func (l *Fixture) GetProtector() *v1alpha1.PodProtector {
	l.Helper()
	p := &v1alpha1.PodProtector{}
	l.Must(l.Core.Get(l.Context(), client.ObjectKey{Namespace: l.Namespace, Name: "web"}, p))
	return p
}

// WaitForSummary waits until all cells are counted and their summary equals want.
func (l *Fixture) WaitForSummary(want v1alpha1.Summary) *v1alpha1.PodProtector {
	l.Helper()
	var p *v1alpha1.PodProtector
	l.Eventually(func() string {
		p = l.GetProtector()
		if diff := cmp.Diff(want, p.Status.Summary); diff != "" || len(p.Status.Cells) != len(l.Cells) {
			return fmt.Sprintf("summary of %d cells (-want +got):\n%s", len(p.Status.Cells), diff)
		}
		return ""
	})
	return p
}

// AllAvailable returns the summary of n available pods without reservations.
func AllAvailable(n int) v1alpha1.Summary {
	count := int32(n)
	return v1alpha1.Summary{
		Total: count, Available: count, EstimatedAvailable: count, Ready: count, Running: count, Scheduled: count,
	}
}

// waitForAvailableInEachCore waits until every core counts the given number of pods and has no open reservation.
func (l *Fixture) waitForAvailableInEachCore(available int) {
	l.Helper()
	for _, core := range l.ForEachCore() {
		core.WaitForSummary(AllAvailable(available))
	}
}

// WaitForReadyCells waits until the Cells of all workers are ready. If they are not, the failure includes the error that details returns.
func (l *Fixture) WaitForReadyCells(details func() error) {
	l.Helper()
	for _, worker := range l.Federation().Workers() {
		l.Eventually(func() string {
			cell := &v1alpha1.Cell{}
			if err := l.Core.Get(l.Context(), client.ObjectKey{Name: worker.Name()}, cell); err != nil {
				return err.Error()
			}
			for _, kind := range []string{
				v1alpha1.ConditionReady, v1alpha1.ConditionConnected, v1alpha1.ConditionAggregationFresh, v1alpha1.ConditionGuarded,
			} {
				if !meta.IsStatusConditionTrue(cell.Status.Conditions, kind) {
					return fmt.Sprintf("Cell %s is not %s: %+v; %v", cell.Name, kind, cell.Status.Conditions, details())
				}
			}
			return ""
		})
	}
}
