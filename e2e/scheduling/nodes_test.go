package scheduling_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const (
	// poolKey is the node label with the name of the pool, and the taint of nodes in dedicated pools, as in Gardener.
	poolKey = "worker.gardener.cloud/pool"
	// remoteKey is the PreferNoSchedule taint of nodes outside zone a.
	remoteKey = "e2e.breakwater.dev/remote"
)

// nodeSpec describes a node that each worker has. The federation itself creates the three nodes with a number in their name.
type nodeSpec struct{ name, zone, pool string }

// nodeSpecs returns the nodes of a worker. The scheduler puts pods without scheduling fields into zone a, and never into a dedicated pool.
func nodeSpecs() []nodeSpec {
	return []nodeSpec{
		{"node-1", "a", "general"}, {"node-2", "b", "general"}, {"node-3", "c", "general"},
		{"fast", "a", "fast"},
		{"main-a", "a", "etcd-main"}, {"main-b", "b", "etcd-main"},
		{"events-a", "a", "etcd-events"}, {"events-b", "b", "etcd-events"},
	}
}

func (s nodeSpec) taints() []corev1.Taint {
	switch {
	case s.pool == "etcd-main" || s.pool == "etcd-events":
		return []corev1.Taint{{Key: poolKey, Value: s.pool, Effect: corev1.TaintEffectNoSchedule}}
	case s.zone != "a":
		return []corev1.Taint{{Key: remoteKey, Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	return nil
}

// createNodes creates the nodes of a worker, and returns when the scheduler can use them.
func createNodes(ctx context.Context, worker federation.Cluster) error {
	cell, err := storm.NewCell(worker.Name(), worker.RESTConfig())
	if err != nil {
		return err
	}
	nodes := cell.Client.CoreV1().Nodes()
	for _, s := range nodeSpecs() {
		name := worker.Name() + "-" + s.name
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			node, err := nodes.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				_, err = nodes.Create(ctx, newNode(name), metav1.CreateOptions{})
				return false, err
			}
			if node.Labels[poolKey] == s.pool {
				return isReady(node), nil
			}
			maps.Copy(node.Labels, map[string]string{corev1.LabelTopologyZone: s.zone, poolKey: s.pool})
			node.Spec.Taints = append(node.Spec.Taints, s.taints()...)
			_, _ = nodes.Update(ctx, node, metav1.UpdateOptions{}) // another client may have updated it before
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("create node %s: %w", name, err)
		}
	}
	return nil
}

func newNode(name string) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("4Ti"), corev1.ResourcePods: resource.MustParse("10000"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

// isReady reports whether a node has only the taints that createNodes adds.
func isReady(node *corev1.Node) bool {
	return !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key != poolKey && t.Key != remoteKey })
}

// zoneOf, poolOf and nameOf return the keys by which countByNode groups pods.
func zoneOf(s nodeSpec) string { return "zone " + s.zone }
func poolOf(s nodeSpec) string { return "pool " + s.pool }
func nameOf(s nodeSpec) string { return s.name }

// countByNode counts pods by a property of their nodes.
func countByNode(cell storm.Cell, pods []corev1.Pod, by func(nodeSpec) string) map[string]int {
	at := map[string]int{}
	for _, pod := range pods {
		place := "nowhere"
		for _, s := range nodeSpecs() {
			if cell.Name+"-"+s.name == pod.Spec.NodeName {
				place = by(s)
			}
		}
		at[place]++
	}
	return at
}

// setTaint adds a NoSchedule taint to a node of the cell here, or removes it.
func setTaint(l *fixture, name, key string, on bool) error {
	nodes := here(l).Client.CoreV1().Nodes()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(l.Context(), here(l).Name+"-"+name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
		if on {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
		_, err = nodes.Update(l.Context(), node, metav1.UpdateOptions{})
		return err
	})
}
