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

// deploy makes an application whose pods are replaced, and returns when every core counts them and a record of them runs.
func (s *site) deploy(pods, floor int) (storm.Application, *storm.Recorder) {
	s.Helper()
	for _, lab := range s.InEachCore() {
		lab.Protect(floor)
	}
	app := s.App(pods)
	s.Must(app.Deploy(s.Context(), s.Cells))
	for _, lab := range s.InEachCore() {
		lab.AwaitSummary(e2e.AllAvailable(pods))
	}
	recorder, err := storm.StartRecorder(s.Context(), app.Scope(s.Cells), storm.RecorderOptions{})
	s.Must(err)
	return app, recorder
}

// judge fails the test if the floor was ever broken.
func (s *site) judge(recorder *storm.Recorder, floor int) {
	s.Helper()
	verdict := storm.Judge(recorder.Stop(), floor)
	s.Logf("FIGURE floor %d: %d removals, %d over-admissions, fewest available %d, at last %d, relaxed %v",
		floor, verdict.Removals, verdict.OverAdmissions, verdict.MinAvailable, verdict.FinalAvailable, verdict.Relaxed)
	if verdict.OverAdmissions != 0 || verdict.Removals == 0 {
		s.Fatalf("%d over-admissions in %d removals: %d were available at least, the floor is %d",
			verdict.OverAdmissions, verdict.Removals, verdict.MinAvailable, floor)
	}
}

// churn plays a storm on Deployments, which make new pods as fast as they lose old ones, for as long as the fault takes and
// some removals longer. Then all pods come back.
func (s *site) churn(fault func(gale *storm.Storm)) {
	const pods, floor = 24, 16
	_, recorder := s.deploy(pods, floor)
	defer recorder.Stop()
	gale := storm.New(storm.Wave{Attack: steady{recorder}, For: time.Hour})
	ctx, end := context.WithCancel(s.Context())
	defer end()
	raging := make(chan error, 1)
	go func() { raging <- gale.Run(ctx) }()
	s.AwaitRequests(gale, 50)
	fault(gale)
	s.AwaitRequests(gale, 50)
	end()
	if err := <-raging; !errors.Is(err, context.Canceled) {
		s.Must(err)
	}
	s.Logf("FIGURE the storm: %+v", gale.Counts())
	if example, ok := gale.Example(storm.Failed); ok {
		s.Logf("an answer that is no verdict: %s", example)
	}
	if gale.Counts().Refused == 0 {
		s.Error("the storm proved nothing: nobody was refused")
	}
	back, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	s.Must(recorder.Wait(back, "all pods to be back", func(now storm.Point) bool { return now.Total == pods }))
	s.judge(recorder, floor)
}

// rollingUpdate changes all Deployments in the midst of a storm, and wants them rolled out when it is over.
func rollingUpdate(s *site) {
	var began time.Time
	s.churn(func(gale *storm.Storm) {
		began = time.Now()
		for _, worker := range s.kind.Workers() {
			call(s.Context(), s, "kubectl", worker, "-n", s.Namespace, "rollout", "restart", "deployment")
		}
		s.AwaitRequests(gale, 200)
	})
	for _, worker := range s.kind.Workers() {
		call(s.Context(), s, "kubectl", worker, "-n", s.Namespace, "rollout", "status", "deployment", timeout)
	}
	s.Logf("FIGURE all Deployments were rolled out within %s", since(began))
}

// drained drains all nodes of a cluster, with less budget than it has pods. Replacements have nowhere to go, so that the drain
// stands still at the floor. Then it gives budget, and wants the drain to end well.
func drained(s *site, relief func(*site, storm.Application)) {
	const pods, floor = 16, 12
	app, recorder := s.deploy(pods, floor)
	worker := s.cluster(s.Cells[0].Name)
	defer func() { // whatever happens: the next claim needs the nodes
		s.Must(launch(context.WithoutCancel(s.Context()), s, "kubectl", worker, append([]string{"uncordon"}, worker.Nodes()...)...).Wait())
	}()
	began := time.Now()
	// Only the pods of this claim: the components of Breakwater would have nowhere to go either, and nobody would answer.
	drain := launch(s.Context(), s, "kubectl", worker, append([]string{"drain", "--pod-selector=app=web", "--ignore-daemonsets",
		"--delete-emptydir-data", timeout}, worker.Nodes()...)...)
	s.Eventually(func() string {
		if drain.HasEnded() {
			s.Fatalf("the drain did not wait for budget: %v\n%s", drain.Wait(), drain)
		}
		if now := recorder.Now().Total; now != floor || refusals(drain) < pods-floor {
			return fmt.Sprintf("%d pods are available, the floor is %d; the drain says:\n%s", now, floor, drain.String())
		}
		return ""
	})
	s.Logf("FIGURE the drain stood at the floor of %d after %s, with %d refusals", floor, since(began), refusals(drain))
	relief(s, app)
	if err := drain.Wait(); err != nil {
		s.Fatalf("the drain failed: %v\n%s", err, drain)
	}
	s.Logf("FIGURE the drain ended well after %s, with %d refusals", since(began), refusals(drain))
	s.judge(recorder, floor)
}

// refusals are how often kubectl says that it has to try again.
func refusals(c *e2e.Command) int { return strings.Count(c.String(), "will retry after 5s") }

// growElsewhere gives budget by pods in another cell.
func growElsewhere(s *site, app storm.Application) {
	other := s.kind.Workers()[1]
	call(s.Context(), s, "kubectl", other, "-n", app.Namespace, "scale", "deployment", "--all", "--replicas=8")
}

// uncordon gives budget by pods that take the places of those that were evicted.
func uncordon(s *site, _ storm.Application) {
	worker := s.kind.Workers()[0]
	call(s.Context(), s, "kubectl", worker, append([]string{"uncordon"}, s.cluster(worker.Name()).Nodes()...)...)
}
