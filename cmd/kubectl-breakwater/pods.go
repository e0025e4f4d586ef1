package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/drain"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain/live"
)

// leftOut is a pod that a drain leaves on its node, as in kubectl drain.
type leftOut struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	Why  string `json:"why"`
}

// podsOn returns the pods of a node that a drain removes.
func podsOn(ctx context.Context, at place, node string) (pods []corev1.Pod, left []leftOut, err error) {
	if _, err := at.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{}); err != nil {
		return nil, nil, failure(at.config, fmt.Errorf("read node %q: %w", node, err))
	}
	list, err := at.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()})
	if err != nil {
		return nil, nil, failure(at.config, fmt.Errorf("list the pods of node %q: %w", node, err))
	}
	for _, pod := range list.Items {
		owner := metav1.GetControllerOf(&pod)
		why := ""
		switch {
		case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
			why = "a mirror pod, which its node makes"
		case owner != nil && owner.Kind == "DaemonSet":
			why = "of DaemonSet " + owner.Name
		}
		if why != "" {
			left = append(left, leftOut{pod.Namespace + "/" + pod.Name, node, why})
			continue
		}
		pods = append(pods, pod)
	}
	return pods, left, nil
}

// removed returns the pods to remove, in order, with the protectors that cover them. after is the time until a replacement is available.
// With 0 it uses the observed time of pods of the same owner.
func removed(ctx context.Context, at place, pods []corev1.Pod, operation v1alpha1.Operation, after time.Duration) (all []drain.Pod, notes []string, err error) {
	var namespaces []string
	for i := range pods {
		if !slices.Contains(namespaces, pods[i].Namespace) {
			namespaces = append(namespaces, pods[i].Namespace)
		}
	}
	if len(pods) == 0 {
		return nil, nil, nil
	}
	cores, err := live.Read(ctx, at.cores, namespaces...)
	if err != nil {
		return nil, nil, err
	}
	nodes, took := map[string]explain.Node{}, map[types.UID]time.Duration{}
	for i := range pods {
		pod := &pods[i]
		if _, read := nodes[pod.Spec.NodeName]; !read && minded(cores, pod.Namespace) {
			nodes[pod.Spec.NodeName] = at.Node(ctx, pod.Spec.NodeName)
		}
		one := drain.Pod{Request: explain.Request(pod, operation), Takes: after}
		one.Covering, one.Belongs = explain.Covering(cores, at.Cell, pod, nodes[pod.Spec.NodeName])
		if owner := metav1.GetControllerOf(pod); owner != nil {
			one.Replaced = true
			if _, known := took[owner.UID]; !known && after == 0 {
				var note string
				if took[owner.UID], note, err = observed(ctx, at, pod.Namespace, *owner); err != nil {
					return nil, nil, err
				}
				notes = append(notes, note)
			}
			one.Takes = cmp.Or(after, took[owner.UID]) + oldEnough(one.Covering)
		}
		all = append(all, one)
	}
	return all, slices.DeleteFunc(notes, func(note string) bool { return note == "" }), nil
}

func minded(cores []explain.Core, namespace string) bool {
	return slices.ContainsFunc(cores, func(c explain.Core) bool {
		return slices.ContainsFunc(c.Protectors, func(p *v1alpha1.PodProtector) bool { return p.Namespace == namespace && removal.Minds(p) != "" })
	})
}

// oldEnough returns how long a Ready pod does not count yet.
func oldEnough(covering []removal.Charge) (longest time.Duration) {
	for _, c := range covering {
		longest = max(longest, time.Duration(c.Protector.Spec.MinReadySeconds)*time.Second)
	}
	return longest
}

// unobserved is the assumed time until a replacement is available if none was observed.
const unobserved = time.Minute

// observed returns the median time from creation to Ready of an owner's pods.
func observed(ctx context.Context, at place, namespace string, owner metav1.OwnerReference) (took time.Duration, note string, err error) {
	list, err := at.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, "", failure(at.config, fmt.Errorf("list pods of namespace %q: %w", namespace, err))
	}
	var all []time.Duration
	for i := range list.Items {
		pod := &list.Items[i]
		if by := metav1.GetControllerOf(pod); by == nil || by.UID != owner.UID {
			continue
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
				all = append(all, max(0, c.LastTransitionTime.Sub(pod.CreationTimestamp.Time)))
			}
		}
	}
	if len(all) == 0 {
		return unobserved, fmt.Sprintf("no pod of %s %s/%s is Ready to tell how long another one takes: %s is assumed", owner.Kind, namespace, owner.Name, unobserved), nil
	}
	slices.Sort(all)
	return max(time.Second, all[len(all)/2]), "", nil
}
