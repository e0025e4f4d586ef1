package simulation

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

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"
)

const (
	// webhookTimeout is how long an API server waits for a webhook.
	webhookTimeout = 5 * time.Second
	// requestLimit is how long after its start a request may take effect. admissionDeadline is the deadline that the Cells set.
	requestLimit      = 12 * time.Second
	admissionDeadline = 15 * time.Second
)

// removal is one request to remove a pod, and its progress.
type removal struct {
	id     string
	evict  bool
	pod    types.NamespacedName
	grace  time.Duration
	dryRun bool
	// relabel has the labels that the request changes, if it removes nothing.
	relabel relabel
	// update is the update that the request makes, if it removes nothing.
	update *podUpdate
	// hangs is how long the request hangs in the API server between its review and its effect.
	hangs time.Duration
	// refusedByOther makes another webhook refuse the request after ours.
	refusedByOther bool

	// uid is the UID of the pod. reviewed is the pod in the last review; nil if there was no review.
	uid         types.UID
	reviewed    *corev1.Pod
	requestedAt time.Time
	// restoresBefore is the number of restores of the cell before the request began. A restore of an etcd includes a restart of its API servers, and
	// no request outlives that.
	restoresBefore int
	// seenVersions is for each core the version up to which the last reviewing webhook knew the protectors.
	seenVersions map[string]uint64
	// skips are for each core the changes of protectors that the webhook never received.
	skips map[string][]apiserver.Skip
	// skew is how far its clock is ahead. counted is when the count that each protector had at the review was taken.
	skew      time.Duration
	countedAt map[*watchedProtector]time.Time
	// webhook is the name of that webhook, and witness is its start time.
	webhook      string
	webhookStart time.Time
	// latestReview is the last review of the request. The judge owns it.
	latestReview *review
	// overriddenDenial is the denial that the last answer overrode; empty if it overrode none.
	overriddenDenial removals.VerdictReason
	// stored reports whether the update is stored. The judge owns it.
	stored bool
	// bypass is why no webhook was called; nil if that is not for lack of the label of a namespace.
	bypass *bypass
	// openKeys are the pods whose removal is admitted and not finished. The judge owns it.
	openKeys []openKey
}

// executeRemoval carries out a removal as an API server does, and returns the result that the client sees.
func (c *clusterState) executeRemoval(r *removal) string {
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	key := r.pod
	r.restoresBefore = c.env.judge.restoresOf(c.name)
	for attempt := 1; ; attempt++ {
		object, err := c.store.Get("pods", key)
		if err != nil {
			return "404"
		}
		pod, ok := object.(*corev1.Pod)
		if !ok {
			panic("simulation: not a pod")
		}
		r.uid, r.reviewed, r.bypass = pod.UID, nil, nil
		result := c.admit(ctx, r, pod)
		if result == "" {
			result = c.applyRemoval(ctx, r, pod)
		}
		if r.update == nil || result != "removed" { // otherwise the kubelet finishes it
			c.env.judge.recordFinished(r)
		}
		if result != "conflict" || attempt == 5 {
			return result
		}
	}
}

// admit calls our webhook, unless its matchConditions exclude the pod, and then the other webhooks. It returns "" if the request is
// admitted.
func (c *clusterState) admit(ctx context.Context, r *removal, pod *corev1.Pod) string {
	finished := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	costs := pod.DeletionTimestamp == nil && !finished && pod.Spec.NodeName != ""
	if (r.evict || costs && r.isReviewed(pod)) && c.selectsNamespace(r, pod) {
		// The API server reviews a deletion without a grace period once to begin it and once to end it.
		reviews := 1
		if !r.evict && r.grace == 0 && r.relabel == nil && r.update == nil {
			reviews = 2
		}
		for range reviews {
			if result := c.callWebhook(ctx, r, pod); result != "" {
				return result
			}
		}
	}
	if r.dryRun {
		return "dry run"
	}
	if r.refusedByOther {
		return "refused by another webhook"
	}
	return ""
}

// callWebhook calls one replica of the webhook.
func (c *clusterState) callWebhook(ctx context.Context, r *removal, pod *corev1.Pod) string {
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	what := r.id + " review"
	replicas := c.processes.webhooksOf(c.name)
	replica := replicas[c.env.dice.Rand(what+" replica").IntN(len(replicas))]
	if !sleepContext(ctx, c.env.dice.Between(100*time.Microsecond, 2*time.Millisecond, what+" there")) {
		return "no time"
	}
	r.requestedAt, r.reviewed, r.seenVersions, r.skips = time.Now(), pod, replica.seenVersions(), replica.skips()
	r.webhook, r.webhookStart = replica.name, replica.startedAt
	c.env.judge.recordReviewRequest(c.name, r)
	c.env.judge.recordReviewClock(c.name, r, time.Duration(replica.skew.Load()))
	c.env.trace.add("%s: review of removal %s reaches %s", c.name, r.id, replica.name)
	answer, answered := replica.review(ctx, c.name, r, c.reviewOf(r, pod))
	lost := c.env.dice.Chance(c.env.storm.LoseAnswers, what+" lost")
	if !sleepContext(ctx, c.env.dice.Between(100*time.Microsecond, 2*time.Millisecond, what+" back")) || !answered || lost {
		return "no answer from " + replica.name
	}
	c.env.trace.add("%s: removal %s has the answer of %s: %s", c.name, r.id, replica.name, answer.Verdict)
	c.env.judge.judgeDenial(c.name, r, answer)
	if !answer.Allowed {
		c.env.trace.add("%s: removal %s is denied: %s", c.name, r.id, answer.Status.Message)
		return fmt.Sprintf("%d %s", answer.Status.Code, answer.Verdict)
	}
	r.overriddenDenial = overriddenDenial(answer)
	if !r.dryRun {
		c.env.judge.recordAdmitted(c.name, r)
	}
	return ""
}

func (c *clusterState) reviewOf(r *removal, pod *corev1.Pod) *admissionv1.AdmissionRequest {
	review := &admissionv1.AdmissionRequest{
		UID: types.UID(r.id), Namespace: r.pod.Namespace, Name: r.pod.Name, DryRun: &r.dryRun,
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
	}
	var object any = pod
	switch {
	case r.update != nil:
		review.Operation = admissionv1.Update
		review.Object = runtime.RawExtension{Raw: mustMarshal(r.update.applied(pod))}
		if r.update.isResize {
			review.SubResource = "resize"
		}
	case r.relabel != nil:
		review.Operation = admissionv1.Update
		review.Object = runtime.RawExtension{Raw: mustMarshal(r.relabel.applied(pod))}
	case r.evict:
		review.SubResource, review.Operation = "eviction", admissionv1.Create
		object = &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: r.pod.Namespace, Name: r.pod.Name}}
	default:
		review.Operation = admissionv1.Delete
	}
	raw := mustMarshal(object)
	if r.evict {
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
func (c *clusterState) applyRemoval(ctx context.Context, r *removal, pod *corev1.Pod) string {
	if !sleepContext(ctx, r.hangs+c.env.dice.Between(50*time.Microsecond, time.Millisecond, r.id+" effect")) {
		return "504"
	}
	key, version := client.ObjectKeyFromObject(pod), pod.ResourceVersion
	if r.evict {
		if c.env.dice.Chance(c.env.storm.RefuseEvictions, r.id+" budget") {
			return "429 by a PodDisruptionBudget"
		}
		// The eviction deletes the pod with this UID, at any version.
		if live, err := c.store.Get("pods", key); err != nil || live.GetUID() != pod.UID {
			return "404"
		}
		version = ""
	}
	if c.env.judge.restoresOf(c.name) != r.restoresBefore {
		return "no answer: the apiserver was restarted"
	}
	actor := removalActor(r)
	c.env.judge.recordEffecting(c.name, r)
	var err error
	switch {
	case r.update != nil:
		var stored client.Object
		if stored, err = c.store.Update("pods", key, version, "update "+r.id, r.update.apply); err == nil {
			c.env.judge.recordStoredUpdate(r)
			c.env.runAfter(0, func() { kubelet{c}.restartContainer(r, key, pod.UID, stored.(*corev1.Pod)) }) //nolint:forcetypeassert // it is a pod
		}
	case r.relabel != nil:
		_, err = c.store.Update("pods", key, version, actor, r.relabel.apply)
	case r.grace > 0:
		_, err = c.store.Update("pods", key, version, actor, func(object client.Object) error {
			if object.GetDeletionTimestamp() == nil {
				now := metav1.NewTime(time.Now().Truncate(time.Second))
				object.SetDeletionTimestamp(&now)
			}
			return nil
		})
		if err == nil {
			c.env.runAfter(r.grace, func() { kubelet{c}.deleteTerminatedPod(key, pod.UID) })
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

func removalActor(r *removal) string { return "removal " + r.id }

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
