package realworkloads_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const (
	// setReplicas is the number of pods of each StatefulSet that is deleted and applied again.
	setReplicas = 3
	// recoveryTimeout bounds the wait for StatefulSets that were applied again.
	recoveryTimeout = 90 * time.Second
)

// A StatefulSet that was deleted and applied again can neither adopt the pods of its predecessor nor create pods with their names.
func TestRealWorkloadsRecoverStatefulSets(t *testing.T) {
	t.Parallel()
	l := suite.NewFixture(t, nil)
	worker := newOperator(l, l.Federation().Workers()[0])
	names := []string{"a", "b", "c", "d"}
	var recorders []*storm.Recorder
	for _, name := range names {
		l.Must(worker.Create(l.Context(), newStatefulSet(l, name)))
		l.Must(l.Core.Create(l.Context(), newSetProtector(l, name)))
		worker.waitForPods("app="+name, setReplicas)
	}
	for _, name := range names {
		waitForSetFloor(l, name)
		r, err := storm.StartRecorder(l.Context(), storm.Scope{Cells: l.Cells[:1], Namespace: l.Namespace, Selector: "app=" + name}, storm.RecorderOptions{})
		l.Must(err)
		l.Cleanup(func() { r.Stop() })
		recorders = append(recorders, r)
	}
	l.WaitForWebhooks(l.Cells[0], worker.pods("app=d")[0])
	for _, name := range names {
		background := metav1.DeletePropagationBackground
		l.Must(worker.Delete(l.Context(), newStatefulSet(l, name), &client.DeleteOptions{PropagationPolicy: &background}))
	}
	successors := map[string]types.UID{}
	for _, name := range names {
		waitForDenial(l, worker, name)
		successor := newStatefulSet(l, name)
		l.Must(worker.Create(l.Context(), successor))
		successors[name] = successor.UID
	}
	left := waitForWholeSets(l, worker, successors)
	percent := 100 * float64(len(names)-len(left)) / float64(len(names))
	results.recoveredPercent = &percent
	for _, name := range left {
		t.Errorf("StatefulSet %s is not whole again after %s: %s", name, recoveryTimeout, setProblem(worker, name, successors[name]))
	}
	for i, r := range recorders {
		if verdict := storm.Judge(r.Stop(), setReplicas-1); verdict.OverAdmissions > 0 {
			t.Errorf("StatefulSet %s: %d removals were admitted below the floor of %d, which left %d pods",
				names[i], verdict.OverAdmissions, setReplicas-1, verdict.MinAvailable)
		}
	}
	t.Logf("%.0f%% of the StatefulSets are whole again", percent)
}

func newStatefulSet(l *e2e.Fixture, name string) *appsv1.StatefulSet {
	replicas, pods := int32(setReplicas), map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: pods},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pods}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: storm.Image}}},
			},
		},
	}
}

func newSetProtector(l *e2e.Fixture, name string) *v1alpha1.PodProtector {
	rate := int32(200)
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: name}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": name}}
	p.Spec.MaxUnavailable, p.Spec.AdmissionHistory.AggregationRateMillis = v1alpha1.Pods(1), &rate
	return p
}

func waitForSetFloor(l *e2e.Fixture, name string) {
	l.Helper()
	l.Eventually(func() string {
		p := newSetProtector(l, name)
		if err := l.Core.Get(l.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			return err.Error()
		}
		if p.Status.DesiredAvailable != setReplicas-1 || p.Status.Summary.Available != setReplicas {
			return fmt.Sprintf("PodProtector %s has status %+v", name, p.Status)
		}
		return ""
	})
}

// waitForDenial waits until a StatefulSet does not exist and the garbage collector has deleted pods down to the floor, so that the rest
// still names it.
func waitForDenial(l *e2e.Fixture, worker operator, name string) {
	l.Helper()
	l.Eventually(func() string {
		set := newStatefulSet(l, name)
		if err := worker.Get(l.Context(), client.ObjectKeyFromObject(set), set); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("StatefulSet %s still exists: %v", name, err)
		}
		if pods := worker.pods("app=" + name); len(pods) != setReplicas-1 {
			return fmt.Sprintf("%d pods of StatefulSet %s exist, want %d", len(pods), name, setReplicas-1)
		}
		return ""
	})
}

// waitForWholeSets waits until all StatefulSets are whole, at most for recoveryTimeout. It returns those that are not.
func waitForWholeSets(l *e2e.Fixture, worker operator, successors map[string]types.UID) []string {
	l.Helper()
	deadline := time.Now().Add(recoveryTimeout)
	for {
		var left []string
		for name, uid := range successors {
			if setProblem(worker, name, uid) != "" {
				left = append(left, name)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		<-time.After(100 * time.Millisecond)
	}
}

// setProblem returns why a StatefulSet is not whole, or "" if all its pods belong to it and are ready.
func setProblem(worker operator, name string, uid types.UID) string {
	worker.Helper()
	pods := worker.pods("app=" + name)
	own := 0
	for i := range pods {
		if ref := metav1.GetControllerOf(&pods[i]); ref != nil && ref.UID == uid && isReady(&pods[i]) {
			own++
		}
	}
	if own != setReplicas || len(pods) != setReplicas {
		return fmt.Sprintf("%d of %d pods belong to it and are ready, want %d", own, len(pods), setReplicas)
	}
	return ""
}
