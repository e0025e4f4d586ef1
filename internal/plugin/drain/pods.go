package drain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain/live"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/drain/waves"
)

// leftOut is a pod that a drain leaves on its node, as in kubectl drain.
type leftOut struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	Why  string `json:"why"`
}

// podsToRemove returns the pods to remove, in order, with the protectors that cover them. after is the time until a replacement is available.
// With 0 it uses the observed time of pods of the same owner.
func podsToRemove(
	ctx context.Context, at plugin.CellAccess, pods []corev1.Pod, operation v1alpha1.Operation, after time.Duration,
) (all []waves.Pod, notes []string, err error) {
	var namespaces []string
	for i := range pods {
		if !slices.Contains(namespaces, pods[i].Namespace) {
			namespaces = append(namespaces, pods[i].Namespace)
		}
	}
	if len(pods) == 0 {
		return nil, nil, nil
	}
	found, err := at.Cores()
	if err != nil {
		return nil, nil, err
	}
	cores, notes, err := live.Read(ctx, found, at.Cluster, namespaces...)
	if err != nil {
		return nil, nil, err
	}
	nodes, took := map[string]explain.Node{}, map[types.UID]time.Duration{}
	for i := range pods {
		pod := &pods[i]
		if _, read := nodes[pod.Spec.NodeName]; !read && needsNodeDomain(cores, pod.Namespace) {
			nodes[pod.Spec.NodeName] = at.Node(ctx, pod.Spec.NodeName)
		}
		planned := waves.Pod{Request: explain.Request(pod, operation), ReplacementTime: after}
		planned.Covering, planned.Belongs, err = explain.Covering(cores, at.Cell, pod, nodes[pod.Spec.NodeName])
		if err != nil {
			return nil, nil, fmt.Errorf("find the protectors of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if owner := metav1.GetControllerOf(pod); owner != nil {
			planned.HasReplacement = true
			if _, known := took[owner.UID]; !known && after == 0 {
				var note string
				if took[owner.UID], note, err = replacementTime(ctx, at, pod.Namespace, *owner); err != nil {
					return nil, nil, err
				}
				notes = append(notes, note)
			}
			planned.ReplacementTime = cmp.Or(after, took[owner.UID]) + minReadyDelay(planned.Covering)
		}
		all = append(all, planned)
	}
	return all, slices.DeleteFunc(notes, func(note string) bool { return note == "" }), nil
}

func needsNodeDomain(cores []explain.Core, namespace string) bool {
	return slices.ContainsFunc(cores, func(c explain.Core) bool {
		return slices.ContainsFunc(c.Protectors, func(p *v1alpha1.PodProtector) bool {
			return p.Namespace == namespace && removal.DomainLossTopologyKey(p) != ""
		})
	})
}

// minReadyDelay returns how long a Ready pod does not count yet.
func minReadyDelay(covering []removal.Charge) (longest time.Duration) {
	for _, c := range covering {
		longest = max(longest, time.Duration(c.Protector.Spec.MinReadySeconds)*time.Second)
	}
	return longest
}

// defaultReplacementTime is the assumed time until a replacement is available if none was observed.
const defaultReplacementTime = time.Minute

// replacementTime returns the median time from creation to Ready of an owner's pods.
func replacementTime(ctx context.Context, at plugin.CellAccess, namespace string, owner metav1.OwnerReference) (took time.Duration, note string, err error) {
	list, err := at.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, "", plugin.WithRemedy(at.Config, fmt.Errorf("list pods of namespace %q: %w", namespace, err))
	}
	var all []time.Duration
	for i := range list.Items {
		pod := &list.Items[i]
		if controller := metav1.GetControllerOf(pod); controller == nil || controller.UID != owner.UID {
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
				all = append(all, max(0, c.LastTransitionTime.Sub(pod.CreationTimestamp.Time)))
			}
		}
	}
	if len(all) == 0 {
		return defaultReplacementTime, fmt.Sprintf("no pod of %s %s/%s is Ready, so that no duration was observed: %s is assumed", owner.Kind, namespace, owner.Name, defaultReplacementTime), nil
	}
	slices.Sort(all)
	return max(time.Second, all[len(all)/2]), "", nil
}
