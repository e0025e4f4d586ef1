package review

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

const region = corev1.LabelTopologyRegion

// nodesOf returns nodes with the given labels. It counts each read. The function in become runs for each read, and can
// delay it or make it fail.
func nodesOf(nodes map[string]map[string]string) (n *nodeLabelCache, reads *atomic.Int32, become *atomic.Value) {
	scheme := metadatafake.NewTestScheme()
	_ = metav1.AddMetaToScheme(scheme)
	var all []runtime.Object
	for name, labels := range nodes {
		all = append(all, &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		})
	}
	reads, become = &atomic.Int32{}, &atomic.Value{}
	become.Store(func() error { return nil })
	objects := metadatafake.NewSimpleMetadataClient(scheme, all...)
	objects.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		reads.Add(1)
		err := become.Load().(func() error)()
		return err != nil, nil, err
	})
	return &nodeLabelCache{clientFor: func(string) (metadata.Interface, error) { return objects, nil }, now: time.Now}, reads, become
}

// zonal is a protector with a floor of 4 that tolerates the loss of a domain: zone a has six pods, b four.
func zonal(name, key string) *v1alpha1.PodProtector {
	p := memoryProtector(name, 4, 10)
	p.Spec.Spread = &v1alpha1.Spread{TopologyKey: key, TolerateDomainLoss: true}
	p.Status.Cells[0].Aggregation.Spread = &v1alpha1.CellDomains{
		TopologyKey: key, Domains: []v1alpha1.DomainCount{{Name: "a", Counted: 6}, {Name: "b", Counted: 4}},
	}
	return p
}

func zoneNodes() map[string]map[string]string {
	return map[string]map[string]string{
		"node-a": {corev1.LabelTopologyZone: "a", region: "a"}, "node-b": {corev1.LabelTopologyZone: "b", region: "a"}, "bare": {},
	}
}

func podOn(node, name string) *corev1.Pod {
	pod := memoryPod(name)
	pod.Spec.NodeName = node
	return pod
}

func TestDomainLossFloor(t *testing.T) {
	for claim, c := range map[string]struct {
		protectors []*v1alpha1.PodProtector
		pod        *corev1.Pod
		want       removal.VerdictReason
		says       []string
	}{
		"pods go where there are most": {[]*v1alpha1.PodProtector{zonal("web", corev1.LabelTopologyZone)}, podOn("node-a", "web-0"), removal.VerdictReserved, nil},
		"and stay elsewhere": {
			[]*v1alpha1.PodProtector{zonal("web", corev1.LabelTopologyZone)}, podOn("node-b", "web-0"), removal.VerdictReason(quota.DeniedDomainLoss),
			[]string{`could be left with only 3 pods if domain "a" of topology.kubernetes.io/zone were lost, which has up to 6`, "floor 4", "tolerateDomainLoss", v1alpha1.AnnotationForceDelete},
		},
		"what the pod says of itself is not believed": {
			[]*v1alpha1.PodProtector{zonal("web", corev1.LabelTopologyZone)}, func() *corev1.Pod {
				pod := podOn("node-b", "web-0")
				pod.Labels[corev1.LabelTopologyZone] = "a"
				return pod
			}(), removal.VerdictReason(quota.DeniedDomainLoss), nil,
		},
		"a pod of a missing node counts as the worst case": {
			[]*v1alpha1.PodProtector{zonal("web", corev1.LabelTopologyZone)}, podOn("node-c", "web-0"), removal.VerdictReason(quota.DeniedDomainLoss),
			[]string{`and the domain of this pod is unknown, since node "node-c" cannot be read`},
		},
		"a pod of a node without the label counts as the worst case": {
			[]*v1alpha1.PodProtector{zonal("web", corev1.LabelTopologyZone)}, podOn("bare", "web-0"), removal.VerdictReason(quota.DeniedDomainLoss),
			[]string{`node "bare" has no label topology.kubernetes.io/zone`},
		},
		"each protector uses its own topology key": {
			[]*v1alpha1.PodProtector{zonal("api", region), zonal("web", corev1.LabelTopologyZone)}, podOn("node-a", "web-0"), removal.VerdictReserved, nil,
		},
		"and one of them refuses": {
			[]*v1alpha1.PodProtector{zonal("api", region), zonal("web", corev1.LabelTopologyZone)}, podOn("node-b", "web-0"), removal.VerdictReason(quota.DeniedDomainLoss),
			[]string{"default/web"},
		},
		"break-glass is admitted anyway": {
			[]*v1alpha1.PodProtector{zonal("web", corev1.LabelTopologyZone)}, forced(podOn("node-b", "web-0")), removal.VerdictForced, nil,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newMemoryFixture(t, c.protectors...)
			d.nodes, _, _ = nodesOf(zoneNodes())
			dry := d.decided(t.Context(), removal.Request{
				Operation: v1alpha1.OperationDelete, Namespace: c.pod.Namespace, PodName: c.pod.Name, Pod: removal.NewPod(c.pod), DryRun: true,
			})
			answer := d.remove(t.Context(), c.pod)
			if answer.Verdict != c.want {
				t.Fatalf("%s %+v, want %s", answer.Verdict, answer.Status, c.want)
			}
			if dry.Allowed != answer.Allowed {
				t.Errorf("dry run: allowed %v (%s), want the same answer", dry.Allowed, dry.Verdict)
			}
			for _, part := range c.says {
				if !strings.Contains(answer.Status.Message, part) {
					t.Errorf("message %q, want it to say %q", answer.Status.Message, part)
				}
			}
			for _, p := range c.protectors {
				if reserved := quota.BudgetOf(d.stored(t, p.Name)).Reserved; reserved > 0 != answer.Allowed {
					t.Errorf("protector %s has %d reservations", p.Name, reserved)
				}
			}
		})
	}
}

func TestNodesAreReadOnlyForDomainLoss(t *testing.T) {
	audit, free, cells := zonal("web", corev1.LabelTopologyZone), zonal("web", corev1.LabelTopologyZone), zonal("web", v1alpha1.TopologyKeyCell)
	audit.Spec.Spread.TolerateDomainLoss, free.Spec.MinAvailable = false, v1alpha1.Pods(0)
	for claim, p := range map[string]*v1alpha1.PodProtector{
		"without a spread": memoryProtector("web", 4, 10), "with audit alone": audit, "with a floor of 0": free, "by cells": cells,
	} {
		t.Run(claim, func(t *testing.T) {
			d := newMemoryFixture(t, p)
			nodes, reads, _ := nodesOf(zoneNodes())
			d.nodes = nodes
			if d.remove(t.Context(), podOn("node-a", "web-0")); reads.Load() != 0 {
				t.Errorf("%d node reads", reads.Load())
			}
		})
	}
}

func TestNodeLabelsAreCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, reads, become := nodesOf(zoneNodes())
		become.Store(func() error { <-time.After(10 * time.Millisecond); return nil })
		want := func(zone string, total int32, when string) {
			t.Helper()
			got, err := n.label(t.Context(), nodeKey{"cell", "node-a"}, corev1.LabelTopologyZone)
			if got != zone || err != nil || reads.Load() != total {
				t.Errorf("%s: %q, error %v, %d reads, want %q and %d", when, got, err, reads.Load(), zone, total)
			}
		}
		var storm sync.WaitGroup
		for range 64 {
			storm.Go(func() { want("a", 1, "of a storm") })
		}
		storm.Wait()
		<-time.After(labelTTL - time.Second)
		want("a", 1, "within the minute")
		<-time.After(time.Second)
		want("a", 2, "after it")
		if _, err := n.label(t.Context(), nodeKey{"cell", "node-a"}, "rack"); err == nil || reads.Load() != 2 {
			t.Errorf("missing label: error %v, %d reads", err, reads.Load())
		}
		<-time.After(missingLabelTTL)
		if _, err := n.label(t.Context(), nodeKey{"cell", "node-a"}, "rack"); err == nil || reads.Load() != 3 {
			t.Errorf("missing label after its TTL: error %v, %d reads, want another read", err, reads.Load())
		}
	})
}

func TestSlowNodeReadCountsAsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, reads, become := nodesOf(zoneNodes())
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		become.Store(func() error { <-time.After(time.Minute); return errors.New("no route to host") })
		began := time.Now()
		if _, err := n.label(ctx, nodeKey{"cell", "node-a"}, corev1.LabelTopologyZone); err == nil || time.Since(began) != 500*time.Millisecond {
			t.Errorf("error %v after %s, want one after a quarter of the time", err, time.Since(began))
		}
		<-time.After(time.Minute)
		become.Store(func() error { return nil })
		if _, err := n.label(t.Context(), nodeKey{"cell", "node-a"}, corev1.LabelTopologyZone); err == nil || reads.Load() != 1 {
			t.Errorf("right after a failure: error %v, %d reads, want the failure cached", err, reads.Load())
		}
		<-time.After(missingLabelTTL)
		if zone, err := n.label(t.Context(), nodeKey{"cell", "node-a"}, corev1.LabelTopologyZone); zone != "a" || err != nil {
			t.Errorf("when the node is readable again: %q, error %v", zone, err)
		}
	})
}

func TestNodeCacheIsBounded(t *testing.T) {
	n := &nodeLabelCache{now: time.Now}
	for i := range maxCachedNodes + 10 {
		n.store(nodeKey{"big", fmt.Sprint(i)}, nodeEntry{at: time.Now()})
	}
	n.store(nodeKey{"small", "0"}, nodeEntry{at: time.Now()})
	if got := len(n.entries["big"]); got == 0 || got > maxCachedNodes {
		t.Errorf("%d cached nodes of one cell, want at most %d", got, maxCachedNodes)
	}
	if len(n.entries["small"]) != 1 {
		t.Error("a large cell evicted the nodes of a small one from the cache")
	}
}
