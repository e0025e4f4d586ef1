package scheduling

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// rebuildDelay is how long changes of policies are collected before they take effect together.
const rebuildDelay = 100 * time.Millisecond

// policies holds the policies of all core clusters, as the watches have shown them.
type policies struct {
	log logr.Logger

	mu sync.Mutex
	// compiled holds the policies that can be applied.
	compiled map[scheduling.Ref]*scheduling.Policy
	// malformed holds, for the other policies, the generation and what is wrong with it.
	malformed map[scheduling.Ref]malformedPolicy
	// synced holds the core clusters whose policies have all been seen.
	synced map[string]bool

	changed chan struct{}
	current atomic.Pointer[snapshot]
}

// malformedPolicy is what is wrong with a generation of a policy.
type malformedPolicy struct {
	generation int64
	err        error
}

// snapshot is the policies at one time. It is immutable.
type snapshot struct {
	set *scheduling.Set
	// synced holds the core clusters whose policies are all in it.
	synced map[string]bool
	// clusterwide reports whether some of its policies select by labels of namespaces.
	clusterwide bool
}

func newPolicies(log logr.Logger) *policies {
	p := &policies{
		log: log, compiled: map[scheduling.Ref]*scheduling.Policy{}, malformed: map[scheduling.Ref]malformedPolicy{}, synced: map[string]bool{},
		changed: make(chan struct{}, 1),
	}
	p.rebuild()
	return p
}

func (p *policies) currentSnapshot() *snapshot { return p.current.Load() }

// firstUnsynced returns a core cluster whose policies have not all been read, if there is one.
func (s *snapshot) firstUnsynced(cores []string) (core string, found bool) {
	if at := slices.IndexFunc(cores, func(core string) bool { return !s.synced[core] }); at >= 0 {
		return cores[at], true
	}
	return "", false
}

// put adds or replaces a policy. A malformed policy selects nothing.
func (p *policies) put(core string, object metav1.Object) {
	ref := scheduling.Ref{Core: core, Namespace: object.GetNamespace(), Name: object.GetName()}
	policy, err := scheduling.Compile(core, object)
	p.mu.Lock()
	if err == nil {
		p.compiled[ref] = policy
		delete(p.malformed, ref)
	} else {
		p.malformed[ref] = malformedPolicy{object.GetGeneration(), err}
		delete(p.compiled, ref)
	}
	p.mu.Unlock()
	if err != nil {
		p.log.Info("Rejected malformed scheduling policy", "core", core, "namespace", ref.Namespace, "name", ref.Name, "why", err.Error())
	}
	p.notify()
}

// readiness returns the condition Ready of a generation of a policy; known is false when this replica has another
// generation.
func (p *policies) readiness(ref scheduling.Ref, generation int64) (ready metav1.Condition, known bool) {
	ready = metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonApplied, ObservedGeneration: generation,
		Message: "webhooks apply the policy",
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if policy := p.compiled[ref]; policy != nil {
		return ready, policy.Generation == generation
	}
	problem, malformed := p.malformed[ref]
	if !malformed || problem.generation != generation {
		return ready, false
	}
	ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonInvalidSelector, problem.err.Error()
	return ready, true
}

func (p *policies) drop(core, namespace, name string) {
	ref := scheduling.Ref{Core: core, Namespace: namespace, Name: name}
	p.mu.Lock()
	delete(p.compiled, ref)
	delete(p.malformed, ref)
	p.mu.Unlock()
	p.notify()
}

// markSynced records that all policies of a core cluster have been put.
func (p *policies) markSynced(core string) {
	p.mu.Lock()
	p.synced[core] = true
	p.mu.Unlock()
	p.notify()
}

func (p *policies) notify() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// NeedLeaderElection returns false: all replicas answer.
func (p *policies) NeedLeaderElection() bool { return false }

// Start keeps the snapshot up to date until ctx ends.
func (p *policies) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.changed:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(rebuildDelay):
		}
		p.rebuild()
	}
}

func (p *policies) rebuild() {
	p.mu.Lock()
	all, read := slices.Collect(maps.Values(p.compiled)), maps.Clone(p.synced)
	p.mu.Unlock()
	p.current.Store(&snapshot{
		set: scheduling.NewSet(all), synced: read,
		clusterwide: slices.ContainsFunc(all, func(policy *scheduling.Policy) bool { return policy.Namespace == "" }),
	})
}
