package scheduling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

const (
	// writeEvery is the interval at which results of policies are written.
	writeEvery = 10 * time.Second
	// maxWrites is how many policies one round writes; the others wait for the next round.
	maxWrites = 200
	// maxTries is how often a write is tried after conflicts.
	maxTries = 5
)

// clerk writes the results of the policies of a core cluster into their status. Every replica adds its own counts, by
// compare-and-swap. Counts that a replica has not written when it exits are lost.
type clerk struct {
	core     string
	client   client.Client
	live     client.Reader
	policies *policies
	tally    *tally
	silences *silences
	events   events.EventRecorder
	log      logr.Logger
}

// NeedLeaderElection returns false: all replicas count.
func (c *clerk) NeedLeaderElection() bool { return false }

// Start writes until ctx ends.
func (c *clerk) Start(ctx context.Context) error {
	every := time.NewTicker(writeEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		if _, lacking := c.policies.known().lacks([]string{c.core}); lacking {
			continue
		}
		if err := c.round(ctx); err != nil && ctx.Err() == nil {
			c.log.Error(err, "What came of scheduling policies is not written yet")
		}
	}
}

// round writes once. Its timeout is two intervals.
func (c *clerk) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*writeEvery)
	defer cancel()
	return c.writeAll(ctx)
}

// writeAll writes each policy that has news.
func (c *clerk) writeAll(ctx context.Context) error {
	all, err := c.list(ctx)
	if err != nil {
		return err
	}
	there, writes, failed := map[scheduling.Ref]bool{}, 0, []error(nil)
	for _, policy := range all {
		ref := scheduling.Ref{Core: c.core, Namespace: policy.GetNamespace(), Name: policy.GetName()}
		there[ref] = true
		if writes == maxWrites {
			continue
		}
		n := news{count: c.tally.take(ref), quiet: c.silences.isQuiet(ref, statusOf(policy))}
		if !c.tell(policy.DeepCopyObject(), n) {
			continue
		}
		writes++
		if err := c.write(ctx, policy, n); err != nil {
			c.tally.putBack(ref, n.count)
			failed = append(failed, fmt.Errorf("write the status of %s: %w", ref, err))
		}
	}
	c.tally.keep(c.core, there)
	c.silences.keep(there)
	return errors.Join(failed...)
}

// list returns the policies as the watch has shown them.
func (c *clerk) list(ctx context.Context) (all []client.Object, err error) {
	namespaced, cluster := &v1alpha1.PodSchedulingPolicyList{}, &v1alpha1.ClusterPodSchedulingPolicyList{}
	for _, list := range []client.ObjectList{namespaced, cluster} {
		if err := c.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list scheduling policies: %w", err)
		}
	}
	for i := range namespaced.Items {
		all = append(all, &namespaced.Items[i])
	}
	for i := range cluster.Items {
		all = append(all, &cluster.Items[i])
	}
	return all, nil
}

// write adds news to the status of a policy. A deleted policy is not an error.
func (c *clerk) write(ctx context.Context, shown client.Object, n news) error {
	policy, ok := shown.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("a %T is no object", shown)
	}
	uid := policy.GetUID()
	for try := 1; ; try++ {
		before := slices.Clone(statusOf(policy).Conditions)
		if !c.tell(policy, n) {
			return nil // another replica has written it
		}
		err := c.client.Status().Update(ctx, policy)
		if err == nil {
			teller := clusters.Teller{Events: c.events, Action: "Schedule", IsGood: isGood}
			teller.Tell(log.IntoContext(ctx, c.log), policy, before, statusOf(policy).Conditions)
			return nil
		}
		if !apierrors.IsConflict(err) || try == maxTries {
			return client.IgnoreNotFound(err)
		}
		if err := c.live.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return client.IgnoreNotFound(err)
		}
		if policy.GetUID() != uid {
			return nil // the news are about a deleted policy of the same name
		}
	}
}

// tell merges news into the status of a policy, and reports whether the status changed.
func (c *clerk) tell(object any, n news) bool {
	policy, ok := object.(client.Object)
	if !ok {
		return false
	}
	ref := scheduling.Ref{Core: c.core, Namespace: policy.GetNamespace(), Name: policy.GetName()}
	if ready, known := c.policies.readiness(ref, policy.GetGeneration()); known {
		n.ready = &ready
	}
	return n.tell(statusOf(policy), policy.GetGeneration())
}
