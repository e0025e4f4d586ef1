package play

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// kubelet acts on the pods of a cluster as kubelets do.
type kubelet struct {
	cluster *clusterState
}

// deleteTerminatedPod removes a pod that has terminated.
func (k kubelet) deleteTerminatedPod(key types.NamespacedName, uid types.UID) {
	if object, err := k.cluster.store.Get("pods", key); err == nil && object.GetUID() == uid && object.GetDeletionTimestamp() != nil {
		_, _ = k.cluster.store.Delete("pods", key, object.GetResourceVersion(), "kubelet")
	}
}

// restartContainer restarts a container after an update was stored. A container that was restarted for a later update may not be restarted again.
func (k kubelet) restartContainer(r *judge.Removal, key types.NamespacedName, uid types.UID, stored *corev1.Pod) {
	wait := func(from, to time.Duration, what string) {
		time.Sleep(k.cluster.env.dice.Between(from, to, r.ID+" "+what))
	}
	write := func(actor string, change func(pod *corev1.Pod)) bool {
		written := false
		_, _ = k.cluster.store.Update("pods", key, "", actor, func(object client.Object) error {
			if pod, ok := object.(*corev1.Pod); ok && pod.UID == uid && pod.Generation >= stored.Generation && pod.DeletionTimestamp == nil {
				change(pod)
				written = true
			}
			return nil
		})
		return written
	}
	before := judge.RestartsOf(stored, r.Update.Container)
	wait(time.Millisecond, time.Second, "seen")
	write("kubelet", func(pod *corev1.Pod) { pod.Status.ObservedGeneration = pod.Generation })
	longest := 2 * time.Second
	if k.cluster.env.dice.Chance(0.1, r.ID+" pulls") {
		longest = 2 * scenario.UpdateTimeout
	}
	wait(time.Millisecond, longest, "restart")
	atOnce, mayMerge, isMerged := k.cluster.env.dice.Chance(0.5, r.ID+" at once"), k.cluster.env.dice.Chance(0.5, r.ID+" merged"), false
	k.cluster.env.judge.RecordEffecting(k.cluster.name, r)
	goes := write(judge.RemovalActor(r), func(pod *corev1.Pod) {
		if isMerged = mayMerge && judge.RestartsOf(pod, r.Update.Container) > before; isMerged {
			return
		}
		scenario.SetReady(pod, false)
		if atOnce {
			countRestart(pod, r.Update.Container)
		}
	})
	k.cluster.env.judge.RecordFinished(r)
	if !goes || isMerged {
		return
	}
	if !atOnce {
		wait(time.Millisecond, time.Second, "counted")
		write("kubelet", func(pod *corev1.Pod) { countRestart(pod, r.Update.Container) })
	}
	if k.cluster.env.dice.Chance(0.1, r.ID+" fails") {
		return
	}
	wait(time.Millisecond, 4*time.Second, "ready")
	write("kubelet", func(pod *corev1.Pod) { scenario.SetReady(pod, true) })
}

func countRestart(pod *corev1.Pod, container string) {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == container {
			s.RestartCount++
		}
	}
}
