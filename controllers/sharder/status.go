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

// tell writes the status of a ring if it has changed, and emits an event for each condition that has.
func (r *Reconciler) tell(ctx context.Context, of *v1alpha1.ClusterRing, problems []problem) error {
	after := of.DeepCopy()
	r.fill(after, problems)
	if equality.Semantic.DeepEqual(of.Status, after.Status) {
		return nil
	}
	patch, err := statusPatch(after)
	if err == nil {
		err = r.client.Status().Patch(ctx, after.DeepCopy(), patch, client.FieldOwner(Name))
	}
	if err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	clusters.Teller{Events: r.events, Action: "Shard", IsGood: isGood}.Tell(ctx, of, of.Status.Conditions, after.Status.Conditions)
	return nil
}

// statusPatch returns a patch of the complete status, including zero values that were never written: printer columns would be empty without
// them. It fails with a conflict if the ring has changed since it was read.
func statusPatch(of *v1alpha1.ClusterRing) (client.Patch, error) {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&of.Status)
	if err != nil {
		return nil, err
	}
	for _, field := range []string{"lastCounted", "members"} {
		if _, ok := status[field]; !ok {
			status[field] = nil
		}
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": of.ResourceVersion}, "status": status})
	return client.RawPatch(types.MergePatchType, text), err
}

// fill sets the status from the findings. What is not determined yet stays as a former leader has left it.
func (r *Reconciler) fill(of *v1alpha1.ClusterRing, problems []problem) {
	status, found := &of.Status, r.findings.get(of.Name)
	status.ObservedGeneration = of.Generation
	if len(of.Spec.Resources) == 0 {
		status.Assigned, status.Draining, status.Unassigned, status.LastCounted = 0, 0, 0, nil
		found = finding{balanced: metav1.Condition{
			Type: v1alpha1.ConditionBalanced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonBalanced, Message: "The ring has no resources.",
		}}
	} else if !found.at.IsZero() {
		at := metav1.NewTime(found.at).Rfc3339Copy()
		status.LastCounted = &at
		status.Assigned, status.Draining, status.Unassigned = found.count.assigned, found.count.draining, found.count.unassigned
	}
	all := r.roll.Of(of)
	r.metrics.members(of.Name, all)
	assigned := map[string]int64{}
	for _, member := range status.Members {
		assigned[member.Name] = member.Assigned
	}
	if !found.at.IsZero() || len(of.Spec.Resources) == 0 {
		assigned = found.count.of
	}
	available := int32(0)
	for i := range all {
		all[i].Assigned = assigned[all[i].Name]
		if ring.IsAvailable(all[i].State) {
			available++
		}
	}
	status.Shards, status.AvailableShards, status.Members = int32(len(all)), available, fit(all)
	conditions := []metav1.Condition{readiness(of, problems), shardsAvailable(status)}
	if found.by != nil && found.by != r.roll.Shards(of) && found.balanced.Status == metav1.ConditionTrue {
		found.balanced.Status, found.balanced.Reason = metav1.ConditionFalse, v1alpha1.ReasonMoving
		found.balanced.Message = "The shards have changed, and which objects are to move is being found out."
	}
	if found.balanced.Type != "" {
		conditions = append(conditions, found.balanced)
	}
	for _, c := range conditions {
		c.ObservedGeneration = of.Generation
		meta.SetStatusCondition(&status.Conditions, c)
	}
}

// fit removes shards that do not fit, beginning with those that get no objects.
func fit(all []v1alpha1.RingMember) []v1alpha1.RingMember {
	if len(all) <= maxMembers {
		return all
	}
	isOut := func(m v1alpha1.RingMember) int {
		if ring.IsAvailable(m.State) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b v1alpha1.RingMember) int { return cmp.Compare(isOut(a), isOut(b)) })
	all = all[:maxMembers]
	slices.SortFunc(all, func(a, b v1alpha1.RingMember) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func readiness(of *v1alpha1.ClusterRing, problems []problem) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConfigured,
		Message: "The apiserver asks which shard is to have an object when it stores one of the ring's resources.",
	}
	if len(of.Spec.Resources) == 0 {
		c.Message = "The ring has no resources, so that there is nothing to ask."
	}
	if len(problems) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, problems[0].reason
		texts := make([]string, 0, len(problems))
		for _, p := range problems {
			texts = append(texts, p.message)
		}
		c.Message = clusters.Shorten(strings.Join(texts, " "), maxMessage)
	}
	return c
}

func shardsAvailable(status *v1alpha1.ClusterRingStatus) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionShardsAvailable}
	if status.AvailableShards == 0 {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonNoShards
		c.Message = "No shard is available: nobody works on the ring's objects. Shards have a Lease in spec.shardNamespace with the label " + v1alpha1.LabelRing + "."
		return c
	}
	c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonShardsReady
	c.Message = fmt.Sprintf("%d of %d shards are available.", status.AvailableShards, status.Shards)
	return c
}

// isGood reports whether a condition is no reason for a warning; that includes objects that are moving.
func isGood(c metav1.Condition) bool {
	return c.Status == metav1.ConditionTrue || c.Reason == v1alpha1.ReasonMoving
}
