package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const (
	application = "web"
	// clientPause is the average pause of a client.
	clientPause = 20 * time.Millisecond
	// waitTimeout bounds each wait for an event that takes seconds.
	waitTimeout = time.Minute
)

// Plan configures a run.
type Plan struct {
	Seed uint64
	// Scale makes storms larger and longer; at least 1.
	Scale int
	// Outage is how long the core is unreachable in the scenarios that outlive it; 0 means five minutes for the rollout, and less for storms.
	Outage time.Duration
	// Traces is the folder for the evidence of each scenario.
	Traces string
}

// size is the size of a storm.
type size struct {
	// pods is the number of pods over all cells, of which floor must stay.
	pods, floor int
	// surplus is how many pods are created when the fault has ended, so that there is budget to use.
	surplus int
	// growth is how many pods are deployed in a worker after its backup, so that its restore removes some.
	growth int
	// clients is the number of clients.
	clients int
	// Before the fault the storm runs alone until that many answers, and after it for that long.
	before int
	after  time.Duration
}

func (p Plan) size() size {
	return size{
		pods: 40 * p.Scale, floor: 30 * p.Scale, surplus: 6 * p.Scale, growth: 6 * p.Scale, clients: 10 * p.Scale,
		// Scale times as many answers arrive in the same time.
		before: 60 * p.Scale * p.Scale, after: time.Duration(p.Scale) * 3 * time.Second,
	}
}

// play is one run of a scenario.
type play struct {
	stage    *Stage
	plan     Plan
	scenario Scenario
	app      storm.Application
	floor    int
	random   *rand.Rand

	start           time.Time
	journal         *Journal
	recorder        *storm.Recorder
	attacks         *attacks
	histories       []*cellHistory
	outages         []Outage
	pauseLock       sync.RWMutex  // locked to make the storm pause
	extraPods       int           // pods that are deployed after the fault, in addition to the surplus
	coreBackup      string        // taken by beforeStorm, if the scenario needs one
	supplies        int           // how many times supply deployed pods
	outageResult    *OutageResult // nil unless the cells have shares
	faultBegan      time.Duration
	faultEnded      time.Duration
	statusRecovered time.Duration
}

// Play runs a scenario and judges it. An error means that the scenario could not run to its end, or that Breakwater did not recover. The
// result then still has all results so far.
func (s *Stage) Play(ctx context.Context, scenario Scenario, plan Plan) (Result, error) {
	p := &play{
		stage: s, plan: plan, scenario: scenario,
		random: rand.New(rand.NewPCG(plan.Seed, scenario.hash())),
		app:    storm.Application{Namespace: scenario.namespace(plan.Seed), Name: application},
	}
	p.app.Pods, p.floor = scenario.size(plan)
	p.attacks = &attacks{scope: p.app.Scope(s.Cells), pauseLock: &p.pauseLock}
	result := Result{Name: scenario.Name, Seed: plan.Seed, Floor: p.floor}
	if scenario.shares {
		p.outageResult = newOutageResult(scenario)
		result.CoreOutage = p.outageResult
	}
	if err := p.prepare(ctx); err != nil {
		return result, fmt.Errorf("prepare: %w", err)
	}
	run := p.runStorm
	if scenario.rollout {
		run = p.rollOutWithoutCore
	}
	err := run(ctx)
	if err == nil {
		err = p.recover(ctx)
	}
	err = errors.Join(err, p.judge(ctx, &result), s.deaths())
	cleanupCtx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if cleanupErr := s.clear(cleanupCtx, p.app.Namespace, application, probe); cleanupErr != nil {
		err = errors.Join(err, fmt.Errorf("clean up: %w", cleanupErr))
	}
	return result, err
}

// prepare deploys the application, waits until the status is true, and starts to record.
func (p *play) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*waitTimeout)
	defer cancel()
	if err := p.stage.protect(ctx, p.app.Namespace, application, p.floor, p.scenario.configure); err != nil {
		return err
	}
	if err := p.stage.awaitWebhookCaches(ctx, p.app.Namespace); err != nil {
		return err
	}
	if err := p.deploy(ctx); err != nil {
		return err
	}
	var err error
	if p.recorder, err = storm.StartRecorder(ctx, p.app.Scope(p.stage.Cells), storm.RecorderOptions{}); err != nil {
		return err
	}
	all := fmt.Sprintf("%d available pods", p.app.Pods)
	if err := p.recorder.Wait(ctx, all, func(now storm.Point) bool { return now.Total == p.app.Pods }); err != nil {
		return err
	}
	if err := poll(ctx, p.checkStatus); err != nil {
		return err
	}
	if p.scenario.shares {
		if err := poll(ctx, p.checkShares); err != nil {
			return err
		}
	}
	p.start = time.Now()
	p.journal = NewJournal(p.start)
	if err := p.beginHistories(ctx); err != nil || p.scenario.beforeStorm == nil {
		return err
	}
	return p.scenario.beforeStorm(ctx, p)
}

// deploy creates the pods of the application.
func (p *play) deploy(ctx context.Context) error {
	if p.scenario.rollout {
		p.app.GraceSeconds = []int64{1} // one Deployment in each cell
	} else if p.scenario.shares {
		return p.app.DeployBare(ctx, p.stage.Cells) // a cell has to use up its budget, see stormWithoutCore
	}
	return p.app.Deploy(ctx, p.stage.Cells)
}

// judge fills the result with the conclusions from the evidence.
func (p *play) judge(ctx context.Context, result *Result) error {
	p.recorder.Stop()
	evidence, err := p.evidence(ctx)
	if err != nil {
		return err
	}
	judgement := Validate(evidence)
	result.setJudgement(judgement)
	result.Attempted = len(evidence.Requests) + p.attacks.tally.Counts().Attempted
	result.RecoverySeconds = p.recovered(evidence.Truths)
	for _, r := range evidence.Requests {
		if r.Outcome == storm.Admitted {
			result.removals = append(result.removals, r.Answered-r.Sent)
		}
	}
	if p.scenario.reviewed && result.Unreviewed > 0 {
		result.Illegal = append(result.Illegal, fmt.Sprintf("%d requests were refused because the API server could not call a webhook", result.Unreviewed))
	}
	result.Trace = fmt.Sprintf("%s-%d.txt", slug(p.scenario.Name), p.plan.Seed)
	return evidence.write(p.plan.Traces, result.Trace)
}

// recovered returns the seconds from the end of the fault until recovery. Recovery is a removal that was both requested and stored after
// the fault, and a true status, whichever is later. It is less than 0 if one of them never happened.
func (p *play) recovered(truths []Truth) float64 {
	usable := time.Duration(-1)
	for _, truth := range truths {
		for _, fact := range truth.Facts {
			if fact.Change == storm.Removed && fact.Earliest >= p.faultEnded && (usable < 0 || fact.Latest < usable) {
				usable = fact.Latest
			}
		}
	}
	if usable < 0 || p.statusRecovered == 0 {
		return -1
	}
	return (max(usable, p.statusRecovered) - p.faultEnded).Seconds()
}
