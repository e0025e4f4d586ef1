package play

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// executeRemoval carries out a removal as an API server does, and returns the result that the client sees.
func (c *clusterState) executeRemoval(r *judge.Removal) string {
	ctx, cancel := context.WithTimeout(context.Background(), scenario.RequestLimit)
	defer cancel()
	key := r.Pod
	r.RestoresBefore = c.env.judge.RestoresOf(c.name)
	for attempt := 1; ; attempt++ {
		object, err := c.store.Get("pods", key)
		if err != nil {
			return "404"
		}
		pod, ok := object.(*corev1.Pod)
		if !ok {
			panic("simulation: not a pod")
		}
		r.UID, r.Reviewed, r.Bypass = pod.UID, nil, nil
		result := c.admit(ctx, r, pod)
		if result == "" {
			result = c.applyRemoval(ctx, r, pod)
		}
		if r.Update == nil || result != "removed" { // otherwise the kubelet finishes it
			c.env.judge.RecordFinished(r)
		}
		if result != "conflict" || attempt == 5 {
			return result
		}
	}
}

// admit calls our webhook, unless its matchConditions exclude the pod, and then the other webhooks. It returns "" if the request is
// admitted.
func (c *clusterState) admit(ctx context.Context, r *judge.Removal, pod *corev1.Pod) string {
	finished := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	costs := pod.DeletionTimestamp == nil && !finished && pod.Spec.NodeName != ""
	if (r.Evict || costs && r.IsReviewed(pod)) && c.selectsNamespace(r, pod) {
		// The API server reviews a deletion without a grace period once to begin it and once to end it.
		reviews := 1
		if !r.Evict && r.Grace == 0 && r.Relabel == nil && r.Update == nil {
			reviews = 2
		}
		for range reviews {
			if result := c.callWebhook(ctx, r, pod); result != "" {
				return result
			}
		}
	}
	if r.DryRun {
		return "dry run"
	}
	if r.DeniedByOther {
		return "refused by another webhook"
	}
	return ""
}

// callWebhook calls one replica of the webhook.
func (c *clusterState) callWebhook(ctx context.Context, r *judge.Removal, pod *corev1.Pod) string {
	ctx, cancel := context.WithTimeout(ctx, scenario.WebhookTimeout)
	defer cancel()
	what := r.ID + " review"
	replicas := c.processes.webhooksOf(c.name)
	replica := replicas[c.env.dice.Rand(what+" replica").IntN(len(replicas))]
	if !sleepContext(ctx, c.env.dice.Between(100*time.Microsecond, 2*time.Millisecond, what+" there")) {
		return "no time"
	}
	r.RequestedAt, r.Reviewed, r.SeenVersions, r.Skips = time.Now(), pod, replica.seenVersions(), replica.skips()
	r.Webhook, r.WebhookStart = replica.name, replica.startedAt
	c.env.judge.RecordReviewRequest(c.name, r)
	c.env.judge.RecordReviewClock(c.name, r, time.Duration(replica.skew.Load()))
	c.env.trace.Add("%s: review of removal %s reaches %s", c.name, r.ID, replica.name)
	answer, answered := replica.review(ctx, c.name, r, c.reviewOf(r, pod))
	lost := c.env.dice.Chance(c.env.storm.LoseAnswers, what+" lost")
	if !sleepContext(ctx, c.env.dice.Between(100*time.Microsecond, 2*time.Millisecond, what+" back")) || !answered || lost {
		c.unanswered.Store(time.Now().UnixNano())
		return "no answer from " + replica.name
	}
	c.env.trace.Add("%s: removal %s has the answer of %s: %s", c.name, r.ID, replica.name, answer.Verdict)
	c.env.judge.JudgeDenial(c.name, r, answer)
	if !answer.Allowed {
		c.env.trace.Add("%s: removal %s is denied: %s", c.name, r.ID, answer.Status.Message)
		return fmt.Sprintf("%d %s", answer.Status.Code, answer.Verdict)
	}
	r.OverriddenDenial = judge.OverriddenDenial(answer)
	if !r.DryRun {
		c.env.judge.RecordAdmitted(c.name, r)
	}
	return ""
}

func (c *clusterState) reviewOf(r *judge.Removal, pod *corev1.Pod) *admissionv1.AdmissionRequest {
	review := &admissionv1.AdmissionRequest{
		UID: types.UID(r.ID), Namespace: r.Pod.Namespace, Name: r.Pod.Name, DryRun: &r.DryRun,
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
	}
	var object any = pod
	switch {
	case r.Update != nil:
		review.Operation = admissionv1.Update
		review.Object = runtime.RawExtension{Raw: mustMarshal(r.Update.Applied(pod))}
		if r.Update.IsResize {
			review.SubResource = "resize"
		}
	case r.Relabel != nil:
		review.Operation = admissionv1.Update
		review.Object = runtime.RawExtension{Raw: mustMarshal(r.Relabel.Applied(pod))}
	case r.Evict:
		review.SubResource, review.Operation = "eviction", admissionv1.Create
		object = &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: r.Pod.Namespace, Name: r.Pod.Name}}
	default:
		review.Operation = admissionv1.Delete
	}
	raw := mustMarshal(object)
	if r.Evict {
		review.Object = runtime.RawExtension{Raw: raw}
	} else {
		review.OldObject = runtime.RawExtension{Raw: raw}
	}
	return review
}

func mustMarshal(object any) []byte {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return raw
}

// applyRemoval carries out an admitted request, if the object has not changed since and there is time left.
func (c *clusterState) applyRemoval(ctx context.Context, r *judge.Removal, pod *corev1.Pod) string {
	if !sleepContext(ctx, r.Hangs+c.env.dice.Between(50*time.Microsecond, time.Millisecond, r.ID+" effect")) {
		return "504"
	}
	key, version := client.ObjectKeyFromObject(pod), pod.ResourceVersion
	if r.Evict {
		if c.env.dice.Chance(c.env.storm.DenyEvictions, r.ID+" budget") {
			return "429 by a PodDisruptionBudget"
		}
		// The eviction deletes the pod with this UID, at any version.
		if live, err := c.store.Get("pods", key); err != nil || live.GetUID() != pod.UID {
			return "404"
		}
		version = ""
	}
	if c.env.judge.RestoresOf(c.name) != r.RestoresBefore {
		return "no answer: the apiserver was restarted"
	}
	actor := judge.RemovalActor(r)
	c.env.judge.RecordEffecting(c.name, r)
	var err error
	switch {
	case r.Update != nil:
		var stored client.Object
		if stored, err = c.store.Update("pods", key, version, "update "+r.ID, r.Update.Apply); err == nil {
			c.env.judge.RecordStoredUpdate(r)
			c.env.runAfter(0, func() { kubelet{c}.restartContainer(r, key, pod.UID, stored.(*corev1.Pod)) }) //nolint:forcetypeassert // it is a pod
		}
	case r.Relabel != nil:
		_, err = c.store.Update("pods", key, version, actor, r.Relabel.Apply)
	case r.Grace > 0:
		_, err = c.store.Update("pods", key, version, actor, func(object client.Object) error {
			if object.GetDeletionTimestamp() == nil {
				now := metav1.NewTime(time.Now().Truncate(time.Second))
				object.SetDeletionTimestamp(&now)
			}
			return nil
		})
		if err == nil {
			c.env.runAfter(r.Grace, func() { kubelet{c}.deleteTerminatedPod(key, pod.UID) })
		}
	default:
		_, err = c.store.Delete("pods", key, version, actor)
	}
	switch {
	case apierrors.IsConflict(err):
		return "conflict"
	case err != nil:
		return "404"
	}
	return "removed"
}

// sleepContext waits for d, and reports whether that passed before ctx ended.
func sleepContext(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
