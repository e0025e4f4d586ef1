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
	// writeInterval is the interval at which results of policies are written.
	writeInterval = 10 * time.Second
	// maxWrites is how many policies one round writes; the others wait for the next round.
	maxWrites = 200
	// maxAttempts is how often a write is tried after conflicts.
	maxAttempts = 5
)

// statusWriter writes the results of the policies of a core cluster into their status. Every replica adds its own counts, by
// compare-and-swap. Counts that a replica has not written when it exits are lost.
type statusWriter struct {
	core      string
	client    client.Client
	apiReader client.Reader
	policies  *policies
	counts    *policyCounts
	quiet     *quietTracker
	events    events.EventRecorder
	log       logr.Logger
}

// NeedLeaderElection returns false: all replicas count.
func (c *statusWriter) NeedLeaderElection() bool { return false }

// Start writes until ctx ends.
func (c *statusWriter) Start(ctx context.Context) error {
	ticker := time.NewTicker(writeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if _, lacking := c.policies.currentSnapshot().firstUnsynced([]string{c.core}); lacking {
			continue
		}
		if err := c.writeWithTimeout(ctx); err != nil && ctx.Err() == nil {
			c.log.Error(err, "Could not write status of scheduling policies")
		}
	}
}

// writeWithTimeout writes once. Its timeout is two intervals.
func (c *statusWriter) writeWithTimeout(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*writeInterval)
	defer cancel()
	return c.writeAll(ctx)
}

// writeAll writes each policy that has news.
func (c *statusWriter) writeAll(ctx context.Context) error {
	all, err := c.list(ctx)
	if err != nil {
		return err
	}
	existing, writes, failed := map[scheduling.Ref]bool{}, 0, []error(nil)
	for _, policy := range all {
		ref := scheduling.Ref{Core: c.core, Namespace: policy.GetNamespace(), Name: policy.GetName()}
		existing[ref] = true
		if writes == maxWrites {
			continue
		}
		update := statusUpdate{count: c.counts.pop(ref), quiet: c.quiet.isQuiet(ref, statusOf(policy))}
		if !c.merge(policy.DeepCopyObject(), update) {
			continue
		}
		writes++
		if err := c.write(ctx, policy, update); err != nil {
			c.counts.restore(ref, update.count)
			failed = append(failed, fmt.Errorf("write the status of %s: %w", ref, err))
		}
	}
	c.counts.retain(c.core, existing)
	c.quiet.retain(existing)
	return errors.Join(failed...)
}

// list returns the policies as the watch has shown them.
func (c *statusWriter) list(ctx context.Context) (all []client.Object, err error) {
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
func (c *statusWriter) write(ctx context.Context, cached client.Object, update statusUpdate) error {
	policy, ok := cached.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is not a client.Object", cached)
	}
	uid := policy.GetUID()
	for attempt := 1; ; attempt++ {
		before := slices.Clone(statusOf(policy).Conditions)
		if !c.merge(policy, update) {
			return nil // another replica has written it
		}
		err := c.client.Status().Update(ctx, policy)
		if err == nil {
			recorder := clusters.ConditionRecorder{Events: c.events, Action: "Schedule", IsGood: isGood}
			recorder.RecordChanges(log.IntoContext(ctx, c.log), policy, before, statusOf(policy).Conditions)
			return nil
		}
		if !apierrors.IsConflict(err) || attempt == maxAttempts {
			return client.IgnoreNotFound(err)
		}
		if err := c.apiReader.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return client.IgnoreNotFound(err)
		}
		if policy.GetUID() != uid {
			return nil // the news are about a deleted policy of the same name
		}
	}
}

// merge merges news into the status of a policy, and reports whether the status changed.
func (c *statusWriter) merge(object any, update statusUpdate) bool {
	policy, ok := object.(client.Object)
	if !ok {
		return false
	}
	ref := scheduling.Ref{Core: c.core, Namespace: policy.GetNamespace(), Name: policy.GetName()}
	if ready, found := c.policies.readiness(ref, policy.GetGeneration()); found {
		update.ready = &ready
	}
	return update.applyTo(statusOf(policy), policy.GetGeneration())
}
