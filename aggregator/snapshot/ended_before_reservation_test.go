package snapshot

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/aggregator/stream"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

// A pod that ended long before its reservation was made is alive again, and one that had a later version has the reviewed one again: its
// cell was restored, and the snapshot has not noticed (rule 4(a)).
func TestPodEndLongBeforeReservationSettlesNothing(t *testing.T) {
	key, hash := types.NamespacedName{Namespace: "default", Name: "web"}, quota.HashUID("web-1")
	terminating := func() *corev1.Pod {
		p := samplePod("web-1", "web-1", "12", nil)
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		return p
	}
	web, err := selectors.Parse("app=web")
	if err != nil {
		t.Fatal(err)
	}
	labeled := func(app string) func(*Snapshot) error {
		return func(s *Snapshot) error {
			return s.Update(samplePod("web-1", "web-1", "12", map[string]string{"app": app}))
		}
	}
	for claim, c := range map[string]struct {
		end    func(s *Snapshot) error
		before time.Duration // how long the end was known before the reservation was observed
		want   quota.Observation
	}{
		"a pod that was changed shortly before its relabel":         {labeled("web"), stream.ContinueWithin, quota.Relabeled},
		"a pod that was changed long before its relabel":            {labeled("web"), stream.ContinueWithin + time.Second, quota.Alive},
		"a pod that left coverage shortly before its relabel":       {labeled(""), stream.ContinueWithin, quota.Relabeled},
		"a pod that left coverage long before its relabel":          {labeled(""), stream.ContinueWithin + time.Second, quota.Alive},
		"a pod that goes after its reservation":                     {func(s *Snapshot) error { return s.Delete(terminating()) }, -time.Second, quota.Absent},
		"a pod that went shortly before its reservation":            {func(s *Snapshot) error { return s.Delete(terminating()) }, stream.ContinueWithin, quota.Absent},
		"a pod that went long before its reservation":               {func(s *Snapshot) error { return s.Delete(terminating()) }, stream.ContinueWithin + 1, quota.Unobserved},
		"a pod that began to terminate shortly before":              {func(s *Snapshot) error { return s.Update(terminating()) }, stream.ContinueWithin, quota.Absent},
		"a pod that began to terminate long before its reservation": {func(s *Snapshot) error { return s.Update(terminating()) }, stream.ContinueWithin + 1, quota.Unobserved},
		"a pod that a live list does not have long before": {func(s *Snapshot) error {
			s.RecordUnlisted([]quota.UIDHash{hash}, 11)
			return s.Delete(terminating())
		}, stream.ContinueWithin + 1, quota.Unobserved},
		"a pod that is alive": {func(*Snapshot) error { return nil }, time.Hour, quota.Alive},
	} {
		t.Run(claim, func(t *testing.T) {
			clock := time.Unix(1000, 0)
			s := New(func(types.NamespacedName, time.Duration) {}, func(error) {}, time.Now, func() time.Time { return clock })
			s.Cover(key, selectors.Coverage{Selector: web}, 0)
			if err := s.Replace(listOf(samplePod("web-1", "web-1", "10", map[string]string{"app": "web"})), "10"); err != nil {
				t.Fatal(err)
			}
			clock = clock.Add(time.Minute)
			if err := c.end(s); err != nil {
				t.Fatal(err)
			}
			reservations := func(yield func(quota.Reservation) bool) { yield(quota.Reservation{Hash: hash, Relabel: 10}) }
			counted, _ := s.Count(key, &v1alpha1.PodProtectorSpec{}, reservations, nil, nil)
			counted.MarkUnseen(reservations, func(quota.Reservation) (time.Time, bool) { return clock.Add(c.before), true })
			if got := counted.PodStates[hash]; got != c.want {
				t.Errorf("sighting %v, want %v", got, c.want)
			}
		})
	}
}

// A pod that a later list shows for the first time has its version since then.
func TestVersionOfNewPodIsSeenWithItsList(t *testing.T) {
	key, hash := types.NamespacedName{Namespace: "default", Name: "web"}, quota.HashUID("web-1")
	web, err := selectors.Parse("app=web")
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Unix(1000, 0)
	s := New(func(types.NamespacedName, time.Duration) {}, func(error) {}, time.Now, func() time.Time { return clock })
	s.Cover(key, selectors.Coverage{Selector: web}, 0)
	if err := s.Replace(nil, "5"); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(time.Minute)
	if err := s.Replace(listOf(samplePod("web-1", "web-1", "12", nil)), "12"); err != nil {
		t.Fatal(err)
	}
	reservations := func(yield func(quota.Reservation) bool) { yield(quota.Reservation{Hash: hash, Relabel: 10}) }
	for after, want := range map[time.Duration]quota.Observation{stream.ContinueWithin: quota.Relabeled, stream.ContinueWithin + time.Second: quota.Alive} {
		counted, _ := s.Count(key, &v1alpha1.PodProtectorSpec{}, reservations, nil, nil)
		counted.MarkUnseen(reservations, func(quota.Reservation) (time.Time, bool) { return clock.Add(after), true })
		if got := counted.PodStates[hash]; got != want {
			t.Errorf("a relabel that was reserved %s later is observed as %v, want %v", after, got, want)
		}
	}
}
