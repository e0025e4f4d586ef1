package sharder

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// maxMembers is how many shards fit into a status.
const maxMembers = 1000

// updateStatus writes the status of a ring if it has changed, and emits an event for each condition that has.
func (r *Reconciler) updateStatus(ctx context.Context, clusterRing *v1alpha1.ClusterRing, problems []problem) error {
	after := clusterRing.DeepCopy()
	r.setStatus(after, problems)
	if equality.Semantic.DeepEqual(clusterRing.Status, after.Status) {
		return nil
	}
	patch, err := statusPatch(after)
	if err == nil {
		err = r.client.Status().Patch(ctx, after.DeepCopy(), patch, client.FieldOwner(Name))
	}
	if err != nil {
		return fmt.Errorf("update the status: %w", err)
	}
	recorder := clusters.ConditionRecorder{Events: r.events, Action: "Shard", IsGood: isHealthy}
	recorder.RecordChanges(ctx, clusterRing, clusterRing.Status.Conditions, after.Status.Conditions)
	return nil
}

// statusPatch returns a patch of the complete status, including zero values that were never written: printer columns would be empty without
// them. It fails with a conflict if the ring has changed since it was read.
func statusPatch(clusterRing *v1alpha1.ClusterRing) (client.Patch, error) {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&clusterRing.Status)
	if err != nil {
		return nil, err
	}
	for _, field := range []string{"lastCounted", "members"} {
		if _, ok := status[field]; !ok {
			status[field] = nil
		}
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": clusterRing.ResourceVersion}, "status": status})
	return client.RawPatch(types.MergePatchType, data), err
}

// setStatus sets the status from the findings. What is not determined yet stays as a former leader has left it.
func (r *Reconciler) setStatus(clusterRing *v1alpha1.ClusterRing, problems []problem) {
	status, result := &clusterRing.Status, r.results.get(clusterRing.Name)
	status.ObservedGeneration = clusterRing.Generation
	if len(clusterRing.Spec.Resources) == 0 {
		status.Assigned, status.Draining, status.Unassigned, status.LastCounted = 0, 0, 0, nil
		result = passResult{balanced: metav1.Condition{
			Type: v1alpha1.ConditionBalanced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonBalanced, Message: "The ring has no resources.",
		}}
	} else if !result.at.IsZero() {
		at := metav1.NewTime(result.at).Rfc3339Copy()
		status.LastCounted = &at
		status.Assigned, status.Draining, status.Unassigned = result.count.assigned, result.count.draining, result.count.unassigned
	}
	all := r.registry.Of(clusterRing)
	r.metrics.setMembers(clusterRing.Name, all)
	assigned := map[string]int64{}
	for _, member := range status.Members {
		assigned[member.Name] = member.Assigned
	}
	if !result.at.IsZero() || len(clusterRing.Spec.Resources) == 0 {
		assigned = result.count.byShard
	}
	available := int32(0)
	for i := range all {
		all[i].Assigned = assigned[all[i].Name]
		if ring.IsAvailable(all[i].State) {
			available++
		}
	}
	status.Shards, status.AvailableShards, status.Members = int32(len(all)), available, truncateMembers(all)
	conditions := []metav1.Condition{readyCondition(clusterRing, problems), shardsAvailableCondition(status)}
	if result.shards != nil && result.shards != r.registry.Shards(clusterRing) && result.balanced.Status == metav1.ConditionTrue {
		result.balanced.Status, result.balanced.Reason = metav1.ConditionFalse, v1alpha1.ReasonMoving
		result.balanced.Message = "The shards have changed, and the sharder determines which objects must move."
	}
	if result.balanced.Type != "" {
		conditions = append(conditions, result.balanced)
	}
	for _, c := range conditions {
		c.ObservedGeneration = clusterRing.Generation
		meta.SetStatusCondition(&status.Conditions, c)
	}
}

// truncateMembers removes shards that do not fit, beginning with those that get no objects.
func truncateMembers(all []v1alpha1.RingMember) []v1alpha1.RingMember {
	if len(all) <= maxMembers {
		return all
	}
	order := func(m v1alpha1.RingMember) int {
		if ring.IsAvailable(m.State) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b v1alpha1.RingMember) int { return cmp.Compare(order(a), order(b)) })
	all = all[:maxMembers]
	slices.SortFunc(all, func(a, b v1alpha1.RingMember) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func readyCondition(clusterRing *v1alpha1.ClusterRing, problems []problem) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConfigured,
		Message: "The API server calls the webhook to assign a shard when it stores an object of the ring's resources.",
	}
	if len(clusterRing.Spec.Resources) == 0 {
		c.Message = "The ring has no resources, so the API server does not call the webhook."
	}
	if len(problems) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, problems[0].reason
		texts := make([]string, 0, len(problems))
		for _, p := range problems {
			texts = append(texts, p.message)
		}
		c.Message = clusters.Truncate(strings.Join(texts, " "), maxMessage)
	}
	return c
}

func shardsAvailableCondition(status *v1alpha1.ClusterRingStatus) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionShardsAvailable}
	if status.AvailableShards == 0 {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonNoShards
		c.Message = "No shard is available, so no controller works on the ring's objects. " +
			"Shards need a Lease in spec.shardNamespace with the label " + v1alpha1.LabelRing + "."
		return c
	}
	c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonShardsReady
	c.Message = fmt.Sprintf("%d of %d shards are available.", status.AvailableShards, status.Shards)
	return c
}

// isHealthy reports whether a condition is no reason for a warning; that includes objects that are moving.
func isHealthy(c metav1.Condition) bool {
	return c.Status == metav1.ConditionTrue || c.Reason == v1alpha1.ReasonMoving
}
