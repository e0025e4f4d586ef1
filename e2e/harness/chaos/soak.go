package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const (
	// SoakName is the name of the soak among the scenarios.
	SoakName = "soak"
	// soakLanes is the number of storms at a time. One of them is in full swing while the other one begins or is judged.
	soakLanes = 2
	// churnTime is how long rollouts and churn last in each storm, and churnPause is the time from one to the next.
	churnTime  = 25 * time.Second
	churnPause = 3 * time.Second
	churnPods  = 4
	// soakSamples is the number of samples in a soak, at least minSamplePause apart.
	soakSamples    = 60
	minSamplePause = 3 * time.Second
)

// soak is a run of storms for a given time, while samples of processes and etcds are taken.
type soak struct {
	stage *Stage
	plan  Plan

	mu      sync.Mutex // guards the following fields
	result  Result
	failure error
	samples *samples
	// needed are the revisions of each worker's etcd that each lane still reads.
	needed [soakLanes][]int64
}

// Soak plays storms with rollouts and churn for at least that long: pods come and go, and protectors are created and released. It judges
// every storm, and measures growth. The error is as for Play.
func (s *Stage) Soak(ctx context.Context, long time.Duration, plan Plan) (Result, *Growth, error) {
	run := &soak{stage: s, plan: plan, samples: newSamples()}
	run.result = Result{Name: SoakName, Seed: plan.Seed, Floor: plan.size().floor, MinAvailable: plan.size().pods}
	if err := run.startSampling(ctx); err != nil {
		return run.result, nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var storms, sampling sync.WaitGroup
	end := time.Now().Add(long)
	for lane := range soakLanes {
		storms.Go(func() {
			for round := uint64(0); time.Now().Before(end) && ctx.Err() == nil && run.err() == nil; round++ {
				run.play(ctx, lane, plan.Seed*1_000_000+round*soakLanes+uint64(lane))
			}
		})
	}
	sampling.Go(func() { run.sampleUntil(ctx, max(minSamplePause, long/soakSamples)) })
	storms.Wait()
	stop()
	sampling.Wait()
	return run.result, run.samples.growth(long), run.failure
}

func (s *soak) err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// play plays one storm of a lane, and adds its result.
func (s *soak) play(ctx context.Context, lane int, seed uint64) {
	if err := s.keepFrom(ctx, lane); err != nil {
		s.add(Result{}, err)
		return
	}
	scenario := Scenario{Name: SoakName, fault: churn, reviewed: true, lateCascade: true}
	plan := s.plan
	plan.Seed = seed
	result, err := s.stage.Play(ctx, scenario, plan)
	if ctx.Err() != nil {
		return
	}
	if err == nil && result.Err() == nil {
		err = os.Remove(filepath.Join(plan.Traces, result.Trace)) // there would be hundreds
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: scenario.namespace(seed)}}
		err = errors.Join(err, client.IgnoreNotFound(s.stage.protectors.Delete(ctx, namespace)))
	}
	s.add(result, err)
}

// add adds the result of a storm to that of the soak.
func (s *soak) add(one Result, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = errors.Join(s.failure, err)
	all := &s.result
	all.Attempted, all.Admitted, all.Legal = all.Attempted+one.Attempted, all.Admitted+one.Admitted, all.Legal+one.Legal
	all.OverAdmissions, all.Dropped, all.Unreviewed = all.OverAdmissions+one.OverAdmissions, all.Dropped+one.Dropped, all.Unreviewed+one.Unreviewed
	all.Illegal = append(all.Illegal, one.Illegal...)
	if err == nil {
		all.MinAvailable = min(all.MinAvailable, one.MinAvailable)
		if all.RecoverySeconds >= 0 { // less means never
			all.RecoverySeconds = max(all.RecoverySeconds, one.RecoverySeconds)
		}
		if one.RecoverySeconds < 0 {
			all.RecoverySeconds = -1
		}
		s.samples.addRemovals(one.removals)
	}
}

// churn is the fault of each storm of a soak, which is none. Until it ends, a rollout of the application begins again and again, pods without
// a controller come, and a protector with pods of its own comes and is released.
func churn(ctx context.Context, p *play) error {
	end := time.Now().Add(churnTime)
	for turn := 0; time.Now().Before(end); turn++ {
		bare, other := p.app, p.app
		bare.Instance, bare.Pods = fmt.Sprintf("bare-%d", turn), churnPods
		other.Name, other.Pods = fmt.Sprintf("other-%d", turn), churnPods
		err := errors.Join(
			p.rollOut(ctx, turn),
			bare.DeployBare(ctx, p.stage.Cells),
			p.stage.createProtector(ctx, p.app.Namespace, other.Name, churnPods/2, p.scenario.configure),
			other.DeployBare(ctx, p.stage.Cells),
		)
		if err != nil {
			return err
		}
		if err := errors.Join(p.waitBetween(ctx, churnPause/2, churnPause), p.stage.release(ctx, p.app.Namespace, other.Name)); err != nil {
			return err
		}
		_ = storm.DeleteCollection{Scope: other.Scope(p.stage.Cells), Times: 1}.Run(ctx, &storm.Tally{}) // it never returns an error
	}
	return nil
}

// rollOut changes the pod template of all Deployments of the application.
func (p *play) rollOut(ctx context.Context, turn int) error {
	return p.patchDeployments(ctx, fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"turn":"%d"}}}}}`, turn))
}

// patchDeployments patches all Deployments of the application.
func (p *play) patchDeployments(ctx context.Context, patch []byte) error {
	for _, cell := range p.stage.Cells {
		deployments := cell.Client.AppsV1().Deployments(p.app.Namespace)
		list, err := deployments.List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list the Deployments of cell %s: %w", cell.Name, err)
		}
		for _, d := range list.Items {
			if _, err := deployments.Patch(ctx, d.Name, "application/strategic-merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
				return fmt.Errorf("patch Deployment %s in cell %s: %w", d.Name, cell.Name, err)
			}
		}
	}
	return nil
}

// keepFrom keeps the history of the workers' etcds from now on, until the next call for the lane.
func (s *soak) keepFrom(ctx context.Context, lane int) error {
	var heads []int64
	for _, etcd := range s.stage.etcds {
		head, err := revisionOf(ctx, etcd)
		if err != nil {
			return err
		}
		heads = append(heads, head)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.needed[lane] = heads
	return nil
}

// unneeded returns the newest revision of a worker's etcd that no lane reads any more.
func (s *soak) unneeded(worker int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var from []int64
	for _, heads := range s.needed {
		from = append(from, heads[worker])
	}
	return slices.Min(from)
}
