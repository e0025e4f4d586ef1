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

	removals "github.com/breakwater-k8s/breakwater/internal/core/removal"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

const (
	// reviewPatience is how long an API server waits for a webhook.
	reviewPatience = 5 * time.Second
	// requestLimit is how long after its start a request may take effect. admissionDeadline is the deadline that the Cells set.
	requestLimit      = 12 * time.Second
	admissionDeadline = 15 * time.Second
)

// clusterState is one cluster: its store, and the actions of the world in it.
type clusterState struct {
	name  string
	world *world
	store *apiserver.Store
	// begin is its version when all protectors had been counted for the first time.
	begin uint64
	// restored is the version at which it continued after its last restore; 0 if it was never restored.
	restored uint64
}

// removal is one request to remove a pod, and its progress.
type removal struct {
	id     string
	evict  bool
	pod    types.NamespacedName
	grace  time.Duration
	dryRun bool
	// relabel has the labels that the request changes, if it removes nothing.
	relabel relabel
	// change is the update that the request makes, if it removes nothing.
	change *change
	// stuck is how long the request hangs in the API server between its review and its effect.
	stuck time.Duration
	// refusedLater makes another webhook refuse the request after ours.
	refusedLater bool

	// uid is the UID of the pod. reviewed is the pod in the last review; nil if there was no review.
	uid      types.UID
	reviewed *corev1.Pod
	asked    time.Time
	// era is the number of restores of the cell before the request began. A restore of an etcd includes a restart of its API servers, and
	// no request outlives that.
	era int
	// knew is for each core the version up to which the last reviewing webhook knew the protectors.
	knew map[string]uint64
	// skew is how far its clock is ahead. counted is when the count that each protector had at the review was taken.
	skew    time.Duration
	counted map[*watched]time.Time
	// webhook is the name of that webhook, and witness is its start time.
	webhook string
	witness time.Time
	// latest is the last review of the request. The judge owns it.
	latest *reviewed
	// overrode is the denial that the last answer overrode; empty if it overrode none.
	overrode removals.VerdictReason
	// stored reports whether the update is stored. The judge owns it.
	stored bool
	// openIn are the pods whose removal is admitted and not finished. The judge owns it.
	openIn []openKey
}

// remove carries out a removal as an API server does, and returns the result that the client sees.
func (c *clusterState) remove(r *removal) string {
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	key := r.pod
	r.era = c.world.judge.era(c.name)
	for attempt := 1; ; attempt++ {
		object, err := c.store.Get("pods", key)
		if err != nil {
			return "404"
		}
		pod, ok := object.(*corev1.Pod)
		if !ok {
			panic("simulation: not a pod")
		}
		r.uid, r.reviewed = pod.UID, nil
		word := c.admit(ctx, r, pod)
		if word == "" {
			word = c.effect(ctx, r, pod)
		}
		if r.change == nil || word != "removed" { // otherwise the kubelet finishes it
			c.world.judge.finished(r)
		}
		if word != "conflict" || attempt == 5 {
			return word
		}
	}
}

// admit calls our webhook, unless its matchConditions exclude the pod, and then the other webhooks. It returns "" if the request is
// admitted.
func (c *clusterState) admit(ctx context.Context, r *removal, pod *corev1.Pod) string {
	finished := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	costs := pod.DeletionTimestamp == nil && !finished && pod.Spec.NodeName != ""
	if r.evict || costs && r.changes(pod) {
		// The API server reviews a deletion without a grace period once to begin it and once to end it.
		reviews := 1
		if !r.evict && r.grace == 0 && r.relabel == nil && r.change == nil {
			reviews = 2
		}
		for range reviews {
			if word := c.ask(ctx, r, pod); word != "" {
				return word
			}
		}
	}
	if r.dryRun {
		return "dry run"
	}
	if r.refusedLater {
		return "refused by another webhook"
	}
	return ""
}

// ask calls one replica of the webhook.
func (c *clusterState) ask(ctx context.Context, r *removal, pod *corev1.Pod) string {
	ctx, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	what := r.id + " review"
	replicas := c.world.webhooks()
	replica := replicas[c.world.dice.For(what+" replica").IntN(len(replicas))]
	if !linger(ctx, c.world.dice.Between(100*time.Microsecond, 2*time.Millisecond, what+" there")) {
		return "no time"
	}
	r.asked, r.reviewed, r.knew = time.Now(), pod, replica.knowledge()
	r.webhook, r.witness = replica.name, replica.began
	c.world.judge.asks(c.name, r)
	c.world.judge.notesClock(c.name, r, replica)
	c.world.trace.add("%s: review of removal %s reaches %s", c.name, r.id, replica.name)
	answer, answered := replica.review(ctx, c.name, r, c.reviewOf(r, pod))
	lost := c.world.dice.Chance(c.world.storm.LoseAnswers, what+" lost")
	if !linger(ctx, c.world.dice.Between(100*time.Microsecond, 2*time.Millisecond, what+" back")) || !answered || lost {
		return "no answer from " + replica.name
	}
	c.world.trace.add("%s: removal %s has the answer of %s: %s", c.name, r.id, replica.name, answer.Verdict)
	c.world.judge.judgeAnswer(c.name, r, answer)
	if !answer.Allowed {
		c.world.trace.add("%s: removal %s is denied: %s", c.name, r.id, answer.Status.Message)
		return fmt.Sprintf("%d %s", answer.Status.Code, answer.Verdict)
	}
	r.overrode = overrode(answer)
	if !r.dryRun {
		c.world.judge.admitted(c.name, r)
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
	case r.change != nil:
		review.Operation = admissionv1.Update
		review.Object = runtime.RawExtension{Raw: encode(r.change.of(pod))}
		if r.change.resize {
			review.SubResource = "resize"
		}
	case r.relabel != nil:
		review.Operation = admissionv1.Update
		review.Object = runtime.RawExtension{Raw: encode(r.relabel.of(pod))}
	case r.evict:
		review.SubResource, review.Operation = "eviction", admissionv1.Create
		object = &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: r.pod.Namespace, Name: r.pod.Name}}
	default:
		review.Operation = admissionv1.Delete
	}
	raw := encode(object)
	if r.evict {
		review.Object = runtime.RawExtension{Raw: raw}
	} else {
		review.OldObject = runtime.RawExtension{Raw: raw}
	}
	return review
}

func encode(object any) []byte {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return raw
}

// effect carries out an admitted request, if the object has not changed since and there is time left.
func (c *clusterState) effect(ctx context.Context, r *removal, pod *corev1.Pod) string {
	if !linger(ctx, r.stuck+c.world.dice.Between(50*time.Microsecond, time.Millisecond, r.id+" effect")) {
		return "504"
	}
	key, version := client.ObjectKeyFromObject(pod), pod.ResourceVersion
	if r.evict {
		if c.world.dice.Chance(c.world.storm.RefuseEvictions, r.id+" budget") {
			return "429 by a PodDisruptionBudget"
		}
		// The eviction deletes the pod with this UID, at any version.
		if live, err := c.store.Get("pods", key); err != nil || live.GetUID() != pod.UID {
			return "404"
		}
		version = ""
	}
	if c.world.judge.era(c.name) != r.era {
		return "no answer: the apiserver was restarted"
	}
	actor := removalActor(r)
	c.world.judge.about(c.name, r)
	var err error
	switch {
	case r.change != nil:
		var stored client.Object
		if stored, err = c.store.Update("pods", key, version, "update "+r.id, r.change.apply); err == nil {
			c.world.judge.stores(r)
			c.world.later(0, func() { c.restart(r, key, pod.UID, stored.(*corev1.Pod)) }) //nolint:forcetypeassert // it is a pod
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
			c.world.later(r.grace, func() { c.finalize(key, pod.UID) })
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

// finalize is the kubelet: it removes a pod that has terminated.
func (c *clusterState) finalize(key types.NamespacedName, uid types.UID) {
	if object, err := c.store.Get("pods", key); err == nil && object.GetUID() == uid && object.GetDeletionTimestamp() != nil {
		_, _ = c.store.Delete("pods", key, object.GetResourceVersion(), "kubelet")
	}
}

// linger waits for d, and reports whether that passed before ctx ended.
func linger(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
