package storm_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// waitTimeout bounds a wait that is expected to be short.
const waitTimeout = 30 * time.Second

// bareApplication creates bare pods in their own namespace. There are no controllers and no kubelets: only the test changes pods.
func bareApplication(t *testing.T, pods int) (context.Context, storm.Application, []storm.Cell) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	cell, err := storm.NewCell("one", testplane.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	app := storm.Application{Namespace: testplane.Namespace(t), Name: "web", Pods: pods, GraceSeconds: []int64{0}}
	cells := []storm.Cell{cell}
	if err := app.DeployBare(ctx, cells); err != nil {
		t.Fatal(err)
	}
	return ctx, app, cells
}

func setReady(ctx context.Context, t *testing.T, cell storm.Cell, namespace, name string, ready bool) {
	t.Helper()
	pods := cell.Client.CoreV1().Pods(namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.NodeName == "" {
		err := pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "node"},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()}}
	if _, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func available(n int) func(storm.Point) bool {
	return func(p storm.Point) bool { return p.Total == n }
}

func waitFor(ctx context.Context, t *testing.T, r *storm.Recorder, n int) {
	t.Helper()
	if err := r.Wait(ctx, fmt.Sprintf("%d available pods", n), available(n)); err != nil {
		t.Fatal(err)
	}
}

func record(ctx context.Context, t *testing.T, scope storm.Scope, options storm.RecorderOptions) *storm.Recorder {
	t.Helper()
	recorder, err := storm.StartRecorder(ctx, scope, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { recorder.Stop() })
	return recorder
}

func TestRecorderDistinguishesGainsDropsAndRemovals(t *testing.T) {
	ctx, app, cells := bareApplication(t, 3)
	setReady(ctx, t, cells[0], app.Namespace, "web-0", true)
	recorder := record(ctx, t, app.Scope(cells), storm.RecorderOptions{})
	waitFor(ctx, t, recorder, 1)
	setReady(ctx, t, cells[0], app.Namespace, "web-1", true)
	waitFor(ctx, t, recorder, 2)
	setReady(ctx, t, cells[0], app.Namespace, "web-1", false)
	waitFor(ctx, t, recorder, 1)
	for _, name := range []string{"web-2", "web-1", "web-0"} { // only the last one is available
		if err := cells[0].Client.CoreV1().Pods(app.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(ctx, t, recorder, 0)

	want := []storm.Stream{{Cell: "one", Baseline: 1, Events: []storm.Event{
		{Change: storm.Gained, Pod: "web-1"}, {Change: storm.Dropped, Pod: "web-1"}, {Change: storm.Removed, Pod: "web-0"},
	}}}
	ignoreTimes := cmpopts.IgnoreFields(storm.Event{}, "Earliest", "Seen")
	if diff := cmp.Diff(want, recorder.Stop().Streams, ignoreTimes); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestPodBecomesAvailableAfterMinReadySeconds(t *testing.T) {
	ctx, app, cells := bareApplication(t, 1)
	recorder := record(ctx, t, app.Scope(cells), storm.RecorderOptions{MinReadySeconds: 2})
	setReady(ctx, t, cells[0], app.Namespace, "web-0", true)
	waitFor(ctx, t, recorder, 1)
	// Ready's time has a resolution of one second, so a pod can count up to one second early and never two.
	if seen := recorder.Record().Streams[0].Events[0].Seen; seen < time.Second {
		t.Errorf("available %s after the record began, want about 2 s", seen)
	}
}

func TestRandomDeletesRemoveAllUnprotectedPods(t *testing.T) {
	ctx, app, cells := bareApplication(t, 12)
	for i := range app.Pods {
		setReady(ctx, t, cells[0], app.Namespace, fmt.Sprintf("web-%d", i), true)
	}
	recorder := record(ctx, t, app.Scope(cells), storm.RecorderOptions{})
	waitFor(ctx, t, recorder, 12)
	attack := storm.New(storm.Wave{
		Attack: storm.RandomDeletes{Recorder: recorder, Clients: 4, Each: 100, Seed: 1},
		For:    time.Second,
	})
	if err := attack.Run(ctx); err != nil {
		t.Fatal(err)
	}
	waitFor(ctx, t, recorder, 0)
	counts := attack.Counts()
	// Two deletes of one pod can both succeed: admitted requests are not removals.
	if counts.Admitted < 12 || counts.Attempted != counts.Admitted+counts.Missed {
		t.Errorf("at least 12 deletes are admitted and the others come too late, got %+v", counts)
	}
	verdict := storm.Judge(recorder.Stop(), 8)
	if verdict.Removals != 12 || verdict.OverAdmissions != 8 || verdict.MinAvailable != 0 {
		t.Errorf("want 12 removals, 8 of them below the floor of 8, got %+v", verdict)
	}
	if progress := attack.Progress()[0]; progress.Began.IsZero() || progress.Ended.Before(progress.Began) {
		t.Errorf("the attack has no begin or end: %+v", progress)
	}
}

func TestAnEvictionWaveEvictsEachPodOnce(t *testing.T) {
	ctx, app, cells := bareApplication(t, 5)
	recorder := record(ctx, t, app.Scope(cells), storm.RecorderOptions{})
	attack := storm.New(storm.Wave{Attack: storm.EvictionWave{Recorder: recorder, Clients: 3, Seed: 1}, For: waitTimeout})
	if err := attack.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if want := (storm.Counts{Attempted: 5, Admitted: 5}); attack.Counts() != want {
		t.Errorf("want %+v, got %+v", want, attack.Counts())
	}
}

func TestDeleteCollectionAndCascadeCountTheirOwnRequests(t *testing.T) {
	ctx, app, cells := bareApplication(t, 3)
	app.Instance, app.GraceSeconds = "again", []int64{0, 1, 2}
	if err := app.Deploy(ctx, cells); err != nil {
		t.Fatal(err)
	}
	deployments, err := cells[0].Client.AppsV1().Deployments(app.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
	if err != nil || len(deployments.Items) != 3 {
		t.Fatalf("want a Deployment for each grace period, got %d and %v", len(deployments.Items), err)
	}
	attack := storm.New(
		storm.Wave{Attack: storm.DeleteCollection{Scope: app.Scope(cells), Times: 2}, For: waitTimeout},
		storm.Wave{Attack: storm.Cascade{Scope: app.Scope(cells)}, For: waitTimeout},
	)
	if err := attack.Run(ctx); err != nil {
		t.Fatal(err)
	}
	var got []storm.Counts
	for _, progress := range attack.Progress() {
		got = append(got, progress.Counts)
	}
	want := []storm.Counts{{Attempted: 2, Admitted: 2}, {Attempted: 3, Admitted: 3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestOutcomeOf(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for claim, c := range map[string]struct {
		err  error
		want storm.Outcome
	}{
		"no error means admitted":       {nil, storm.Admitted},
		"a webhook's 429 means refused": {apierrors.NewTooManyRequestsError(`admission webhook "pods.breakwater.dev" denied the request: no`), storm.Denied},
		"a PDB's 429 means failed":      {apierrors.NewTooManyRequestsError("Cannot evict pod as it would violate the pod's disruption budget."), storm.Failed},
		"a deleted pod means missed":    {apierrors.NewNotFound(pods, "web-0"), storm.Missed},
		"any other error means failed":  {errors.New("connection refused"), storm.Failed},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := storm.OutcomeOf(c.err); got != c.want {
				t.Errorf("want %s, got %s", c.want, got)
			}
		})
	}
}
