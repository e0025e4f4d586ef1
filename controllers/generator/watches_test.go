package generator

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// A core that is restored from a backup assigns an earlier generation to another state.
func TestDifferentSpecWithSameGenerationIsAChange(t *testing.T) {
	now := metav1.Now()
	deployment := func(version string, replicas int32, change func(*appsv1.Deployment)) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1", Generation: 3, ResourceVersion: version}}
		d.Spec.Replicas = &replicas
		change(d)
		return d
	}
	as := func(*appsv1.Deployment) {}
	for claim, tc := range map[string]struct {
		after *appsv1.Deployment
		want  bool
	}{
		"another number of replicas":               {deployment("8", 4, as), true},
		"the start of a deletion":                  {deployment("8", 10, func(d *appsv1.Deployment) { d.DeletionTimestamp = &now }), true},
		"a status write of a rollout is no change": {deployment("8", 10, func(d *appsv1.Deployment) { d.Status.Replicas = 3 }), false},
	} {
		t.Run(claim, func(t *testing.T) {
			e := event.TypedUpdateEvent[client.Object]{ObjectOld: deployment("7", 10, as), ObjectNew: tc.after}
			if got := sourceChangedPredicate().Update(e); got != tc.want {
				t.Errorf("Update() = %v, want %v", got, tc.want)
			}
		})
	}

	again := metav1.NewTime(now.Add(time.Minute))
	deletedAt := func(at *metav1.Time) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.DeletionTimestamp = at }
	}
	restarted := event.TypedUpdateEvent[client.Object]{ObjectOld: deployment("7", 10, deletedAt(&now)), ObjectNew: deployment("8", 10, deletedAt(&again))}
	if !sourceChangedPredicate().Update(restarted) {
		t.Error("a deletion that began again after a restore is no change, want one (simulation, 8004083)")
	}

	protector := func(version string, floor int32) *v1alpha1.PodProtector {
		p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "2", Generation: 3, ResourceVersion: version}}
		p.Spec.MinAvailable = v1alpha1.Pods(floor)
		return p
	}
	e := event.TypedUpdateEvent[*v1alpha1.PodProtector]{ObjectOld: protector("7", 5), ObjectNew: protector("8", 1)}
	if !protectorChangedPredicate(nil).Update(e) {
		t.Error("another floor is no change")
	}
}

// The record of a decrease may reach the cache when its source no longer wants the decrease.
func TestRecordedDecreaseIsAChange(t *testing.T) {
	protector := func(version, status string) *v1alpha1.PodProtector {
		p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "2", ResourceVersion: version}}
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionStatus(status), Reason: "QuietPeriod"}}
		return p
	}
	if e := (event.TypedUpdateEvent[*v1alpha1.PodProtector]{ObjectOld: protector("7", "False"), ObjectNew: protector("8", "True")}); !protectorChangedPredicate(nil).Update(e) {
		t.Error("Update() = false for a decrease that is recorded, want true")
	}
	if e := (event.TypedUpdateEvent[*v1alpha1.PodProtector]{ObjectOld: protector("7", "True"), ObjectNew: protector("8", "True")}); protectorChangedPredicate(nil).Update(e) {
		t.Error("Update() = true for a write of another condition, want false")
	}
}
