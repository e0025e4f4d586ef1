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

func TestTheCoreIsRestoredToAnHourAgo(t *testing.T) {
	claim(t, "budget that was used is not given out again, and protectors that came since are made anew", func(l lab) {
		l.protect(6, 10)
		v := l.watch(6)
		backup := l.backUp(l.core())
		late := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "zz-late"}}
		late.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
		late.Spec.MinAvailable = v1alpha1.Pods(2)
		l.Must(l.Core.Create(l.Context(), late))
		l.awaitHold(late.Name)
		v.wantExhausted("/web")
		l.AwaitSummary(e2e.AllAvailable(6))

		l.bringBack(l.core())
		start := l.restore(l.core(), backup)
		end := v.siege()
		// The webhooks come before the aggregators: what they read is of an hour ago, when ten pods were available.
		count := l.freeze(l.aggregators()...)
		start()
		if got := l.protector("web").Status.Summary.Available; got != 10 {
			l.Fatalf("the core counts %d pods, want the 10 of its backup: nothing was undone", got)
		}
		l.awaitRefusals("was restored, or its core cluster was, and not all of its cells are counted anew")
		count()
		l.protectorAnew(l.asRead(late))
		l.AwaitSummary(e2e.AllAvailable(6))
		end()
		l.awaitRefusals("/web", "floor 6, available 6")

		again := l.App(2)
		again.Instance = "again"
		l.Must(again.DeployBare(l.Context(), l.Cells))
		v.awaitAvailable(8)
		v.wantExhausted("/web")
	})
}

// asRead gives a protector of which nothing but the identity is known.
func (l lab) asRead(p *v1alpha1.PodProtector) *v1alpha1.PodProtector {
	return &v1alpha1.PodProtector{ObjectMeta: *p.ObjectMeta.DeepCopy()}
}

func TestTheCoreIsAway(t *testing.T) {
	claim(t, "removals are refused and say why, the glass can be broken, and what went through it is counted after", func(l lab) {
		l.protect(7, 8)
		// Two pods are removed by force: one of them within the floor, which is not known to allow it, and one below.
		v := l.watch(6)
		core := l.faults(l.core())
		l.bringBack(l.core())
		l.Must(core.Kill(federation.APIServer))
		end := v.siege()
		l.wantRefusalsEverywhere("that could not be reserved with PodProtector", "/web in core cluster",
			"try again, or in an emergency label the namespace "+v1alpha1.LabelExempt+"=true")
		if got := end().Counts(); got.Refused == 0 || got.Admitted > 0 {
			l.Errorf("the siege without a core: %+v", got)
		}
		for _, pod := range l.Pods(l.Cells[0])[:2] {
			l.force(l.Cells[0], pod.Name)
		}
		v.awaitAvailable(6)
		l.wantRefusalsEverywhere("that could not be reserved with PodProtector")

		// What went by force is charged before anybody counts.
		count := l.freeze(l.aggregators()...)
		l.Must(core.Restart(l.Context(), federation.APIServer))
		l.AwaitSummary(v1alpha1.Summary{Total: 8, Scheduled: 8, Running: 8, Ready: 8, Available: 8, Reserved: 2, EstimatedAvailable: 6})
		l.wantRefusalsEverywhere("/web", "floor 7, available 8, removals under way 2")
		count()
		l.AwaitSummary(e2e.AllAvailable(6))
		l.awaitRefusals("/web", "floor 7, available 6")
		v.conclude()
		again := l.App(3)
		again.Instance = "again"
		l.Must(again.DeployBare(l.Context(), l.Cells))
		l.AwaitSummary(e2e.AllAvailable(9))
		l.watch(7).wantExhausted("/web")
	})
}

// force breaks the glass for a pod and removes it.
func (l lab) force(cell storm.Cell, pod string) {
	l.Helper()
	patch := []byte(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationForceDelete + `":"true"}}}`)
	_, err := cell.Client.CoreV1().Pods(l.Namespace).Patch(l.Context(), pod, types.MergePatchType, patch, metav1.PatchOptions{})
	l.Must(err)
	l.Must(l.Remove(cell, pod))
}
