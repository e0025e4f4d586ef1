package kind_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// deployWorkloads deploys an application whose pods are replaced. It returns when every core counts the pods and a recorder is running.
func (s *kindFixture) deployWorkloads(pods, floor int) (storm.Application, *storm.Recorder) {
	s.Helper()
	for _, lab := range s.ForEachCore() {
		lab.CreateProtector(floor)
	}
	app := s.Application(pods)
	s.Must(app.Deploy(s.Context(), s.Cells))
	for _, lab := range s.ForEachCore() {
		lab.WaitForSummary(e2e.AllAvailable(pods))
	}
	recorder, err := storm.StartRecorder(s.Context(), app.Scope(s.Cells), storm.RecorderOptions{})
	s.Must(err)
	return app, recorder
}

// expectFloorHeld fails the test if the number of available pods was ever below the floor, or if no pod was removed.
func (s *kindFixture) expectFloorHeld(recorder *storm.Recorder, floor int) {
	s.Helper()
	verdict := storm.Judge(recorder.Stop(), floor)
	s.Logf("FIGURE floor %d: %d removals, %d over-admissions, fewest available %d, at last %d, relaxed %v",
		floor, verdict.Removals, verdict.OverAdmissions, verdict.MinAvailable, verdict.FinalAvailable, verdict.Relaxed)
	if verdict.OverAdmissions != 0 || verdict.Removals == 0 {
		s.Fatalf("%d over-admissions in %d removals, lowest available %d, want 0 over-admissions and a floor of %d",
			verdict.OverAdmissions, verdict.Removals, verdict.MinAvailable, floor)
	}
}

// runReplacementStorm runs a storm on Deployments, which replace the removed pods. It runs while the fault lasts and for some further
// requests. Then it waits until all pods are available again.
func (s *kindFixture) runReplacementStorm(fault func(load *storm.Storm)) {
	const pods, floor = 24, 16
	_, recorder := s.deployWorkloads(pods, floor)
	defer recorder.Stop()
	load := storm.New(storm.Wave{Attack: steadyAttack{recorder}, For: time.Hour})
	ctx, end := context.WithCancel(s.Context())
	defer end()
	raging := make(chan error, 1)
	go func() { raging <- load.Run(ctx) }()
	s.WaitForRequests(load, 50)
	fault(load)
	s.WaitForRequests(load, 50)
	end()
	if err := <-raging; !errors.Is(err, context.Canceled) {
		s.Must(err)
	}
	s.Logf("FIGURE the storm: %+v", load.Counts())
	if example, ok := load.Example(storm.Failed); ok {
		s.Logf("got an error that is not a verdict: %s", example)
	}
	if load.Counts().Denied == 0 {
		s.Error("got no denials in the storm")
	}
	back, cancel := context.WithTimeout(s.Context(), waitTimeout)
	defer cancel()
	s.Must(recorder.Wait(back, "all pods to be available again", func(now storm.Point) bool { return now.Total == pods }))
	s.expectFloorHeld(recorder, floor)
}

// rollingUpdate restarts all Deployments during a storm, and waits until they are rolled out after the storm.
func rollingUpdate(s *kindFixture) {
	var began time.Time
	s.runReplacementStorm(func(load *storm.Storm) {
		began = time.Now()
		for _, worker := range s.kind.Workers() {
			e2e.RunTool(s.Context(), s, "kubectl", worker.Kubeconfig(), "-n", s.Namespace, "rollout", "restart", "deployment")
		}
		s.WaitForRequests(load, 200)
	})
	for _, worker := range s.kind.Workers() {
		e2e.RunTool(s.Context(), s, "kubectl", worker.Kubeconfig(), "-n", s.Namespace, "rollout", "status", "deployment", timeout)
	}
	s.Logf("FIGURE all Deployments were rolled out within %s", roundedSince(began))
}

// drainAllNodes drains all nodes of a cluster, with less budget than pods. The replacements cannot be scheduled, so the drain stops at the
// floor. Then addBudget adds budget, and the drain must complete.
func drainAllNodes(s *kindFixture, addBudget func(*kindFixture, storm.Application)) {
	const pods, floor = 16, 12
	app, recorder := s.deployWorkloads(pods, floor)
	worker := s.cluster(s.Cells[0].Name)
	defer func() { // always, because the next claim needs the nodes
		s.Must(e2e.StartTool(context.WithoutCancel(s.Context()), s, "kubectl", worker.Kubeconfig(), append([]string{"uncordon"}, worker.Nodes()...)...).Wait())
	}()
	began := time.Now()
	// Drain only the pods of this claim. Breakwater's components could not be scheduled elsewhere, and no webhook would answer.
	drain := e2e.StartTool(s.Context(), s, "kubectl", worker.Kubeconfig(), append([]string{"drain", "--pod-selector=app=web", "--ignore-daemonsets",
		"--delete-emptydir-data", timeout}, worker.Nodes()...)...)
	s.Eventually(func() string {
		if drain.HasEnded() {
			s.Fatalf("the drain did not wait for budget: %v\n%s", drain.Wait(), drain)
		}
		if now := recorder.Now().Total; now != floor || countDenials(drain) < pods-floor {
			return fmt.Sprintf("%d pods are available, want a floor of %d; output of the drain:\n%s", now, floor, drain.String())
		}
		return ""
	})
	s.Logf("FIGURE the drain stood at the floor of %d after %s, with %d refusals", floor, roundedSince(began), countDenials(drain))
	addBudget(s, app)
	if err := drain.Wait(); err != nil {
		s.Fatalf("the drain failed: %v\n%s", err, drain)
	}
	s.Logf("FIGURE the drain ended well after %s, with %d refusals", roundedSince(began), countDenials(drain))
	s.expectFloorHeld(recorder, floor)
}

// countDenials returns how often kubectl announces a retry.
func countDenials(c *e2e.Command) int { return strings.Count(c.String(), "will retry after 5s") }

// addPodsElsewhere adds budget with pods in another cell.
func addPodsElsewhere(s *kindFixture, app storm.Application) {
	other := s.kind.Workers()[1]
	e2e.RunTool(s.Context(), s, "kubectl", other.Kubeconfig(), "-n", app.Namespace, "scale", "deployment", "--all", "--replicas=8")
}

// uncordonNodes adds budget with pods that replace the evicted ones.
func uncordonNodes(s *kindFixture, _ storm.Application) {
	worker := s.kind.Workers()[0]
	e2e.RunTool(s.Context(), s, "kubectl", worker.Kubeconfig(), append([]string{"uncordon"}, s.cluster(worker.Name()).Nodes()...)...)
}
