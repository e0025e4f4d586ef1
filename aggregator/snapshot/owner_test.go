package snapshot

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// A terminating pod says nothing about the replicas that its workload requests (rule 13).
func TestPodsWithExpectedOwners(t *testing.T) {
	set := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "s-db", Controller: new(true)}
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	percent := intstr.FromString("50%")
	for claim, c := range map[string]struct {
		change func(p *corev1.Pod)
		want   map[Owner]int32
	}{
		"one that runs": {func(*corev1.Pod) {}, map[Owner]int32{{"apps/v1", "StatefulSet", "db", "s-db"}: 1}},
		"one that terminates": {
			func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, map[Owner]int32{{"apps/v1", "StatefulSet", "db", "s-db"}: 1},
		},
		"none that has finished": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, map[Owner]int32{}},
		"one without an owner":   {func(p *corev1.Pod) { p.OwnerReferences = nil }, map[Owner]int32{NoOwner(): 1}},
		"none without an owner that terminates": {
			func(p *corev1.Pod) { p.OwnerReferences, p.DeletionTimestamp = nil, new(metav1.Now()) }, map[Owner]int32{},
		},
	} {
		s := New(func(types.NamespacedName, time.Duration) {}, func(err error) { t.Fatal(err) }, time.Now, time.Now)
		s.Cover(key, selectors.Coverage{Selector: selectors.Everything()}, time.Second)
		if err := s.Replace(nil, "1"); err != nil {
			t.Fatal(err)
		}
		p := samplePod("db-0", "db-0", "2", nil)
		p.OwnerReferences = []metav1.OwnerReference{set}
		c.change(p)
		if err := s.Update(p); err != nil {
			t.Fatal(err)
		}
		got, ok := s.Count(key, &v1alpha1.PodProtectorSpec{MaxUnavailable: &percent}, func(func(quota.Reservation) bool) {}, nil, nil)
		if !ok || !maps.Equal(got.Owners, c.want) {
			t.Errorf("%s: Count() has the owners %v, want %v", claim, got.Owners, c.want)
		}
	}
}

// A first count uses a live list that the stream has not reached. A pod that terminates in that list does not count, but still names its
// owner.
func TestPodsWithExpectedOwnersInInitialCount(t *testing.T) {
	key, percent := types.NamespacedName{Namespace: "default", Name: "web"}, intstr.FromString("50%")
	set := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "s-db", Controller: new(true)}
	db := Owner{"apps/v1", "StatefulSet", "db", "s-db"}
	for claim, c := range map[string]struct {
		owners  []metav1.OwnerReference
		live    map[quota.UIDHash]LivePod
		want    map[Owner]int32
		counted int32
	}{
		"alive":                             {[]metav1.OwnerReference{set}, map[quota.UIDHash]LivePod{quota.HashUID("db-0"): {Version: 2}}, map[Owner]int32{db: 1}, 1},
		"changed since the snapshot":        {[]metav1.OwnerReference{set}, map[quota.UIDHash]LivePod{quota.HashUID("db-0"): {Version: 3}}, map[Owner]int32{db: 1}, 0},
		"terminating":                       {[]metav1.OwnerReference{set}, map[quota.UIDHash]LivePod{quota.HashUID("db-0"): {Terminating: true}}, map[Owner]int32{db: 1}, 0},
		"terminating, and without an owner": {nil, map[quota.UIDHash]LivePod{quota.HashUID("db-0"): {Terminating: true}}, map[Owner]int32{}, 0},
		"gone":                              {[]metav1.OwnerReference{set}, nil, map[Owner]int32{}, 0},
	} {
		s := New(func(types.NamespacedName, time.Duration) {}, func(err error) { t.Fatal(err) }, time.Now, time.Now)
		s.Cover(key, selectors.Coverage{Selector: selectors.Everything()}, time.Second)
		p := samplePod("db-0", "db-0", "2", nil)
		p.OwnerReferences = c.owners
		if err := s.Replace(listOf(p), "2"); err != nil {
			t.Fatal(err)
		}
		got, ok := s.Count(key, &v1alpha1.PodProtectorSpec{MaxUnavailable: &percent}, none, &LiveRead{Version: 3, Pods: c.live}, nil)
		if !ok || !maps.Equal(got.Owners, c.want) || got.Aggregation.CountedReplicas != c.counted {
			t.Errorf("%s: Count() has the owners %v and counts %d, want %v and %d", claim, got.Owners, got.Aggregation.CountedReplicas, c.want, c.counted)
		}
	}
}
