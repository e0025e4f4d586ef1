package quota_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func update(uid string, generation int64, containers ...v1alpha1.ContainerRestarts) quota.Removal {
	r := removal("c0", uid)
	r.Operation, r.Generation, r.Containers = v1alpha1.OperationUpdate, generation, containers
	return r
}

func container(name string, restarts int32) v1alpha1.ContainerRestarts {
	return v1alpha1.ContainerRestarts{Name: name, Restarts: restarts}
}

// onlyReservation returns the only reservation of the first cell.
func onlyReservation(t *testing.T, p *v1alpha1.PodProtector) (quota.Reservation, *v1alpha1.Bucket) {
	t.Helper()
	h := &p.Status.Cells[0].AdmissionHistory
	if len(h.Buckets) != 1 {
		t.Fatalf("%d buckets, want 1: %+v", len(h.Buckets), h.Buckets)
	}
	for r := range quota.Reservations(h) {
		return r, &h.Buckets[0]
	}
	t.Fatal("no reservation")
	return quota.Reservation{}, nil
}

func TestOperationsOnOnePodCombine(t *testing.T) {
	for claim, c := range map[string]struct {
		asked []quota.Removal
		want  quota.Update
		as    v1alpha1.Operation
	}{
		"an update": {
			[]quota.Removal{update("a", 2, container("web", 1))},
			quota.Update{Generation: 2, Containers: []v1alpha1.ContainerRestarts{container("web", 1)}}, v1alpha1.OperationUpdate,
		},
		"the same update, repeated": {
			[]quota.Removal{update("a", 2, container("web", 1)), update("a", 2, container("web", 1))},
			quota.Update{Generation: 2, Containers: []v1alpha1.ContainerRestarts{container("web", 1)}}, v1alpha1.OperationUpdate,
		},
		"a later update of a container that was not restarted yet": {
			[]quota.Removal{update("a", 2, container("web", 1)), update("a", 3, container("web", 1))},
			quota.Update{Generation: 2, Containers: []v1alpha1.ContainerRestarts{container("web", 2)}}, v1alpha1.OperationUpdate,
		},
		"a later update, repeated": {
			[]quota.Removal{update("a", 2, container("web", 1)), update("a", 3, container("web", 1)), update("a", 3, container("web", 1))},
			quota.Update{Generation: 2, Containers: []v1alpha1.ContainerRestarts{container("web", 2)}}, v1alpha1.OperationUpdate,
		},
		"a later update of a restarted container": {
			[]quota.Removal{update("a", 2, container("web", 1)), update("a", 3, container("web", 2))},
			quota.Update{Generation: 2, Containers: []v1alpha1.ContainerRestarts{container("web", 2)}}, v1alpha1.OperationUpdate,
		},
		"updates of two containers": {
			[]quota.Removal{update("a", 2, container("web", 1)), update("a", 3, container("log", 5))},
			quota.Update{Generation: 2, Containers: []v1alpha1.ContainerRestarts{container("log", 5), container("web", 1)}}, v1alpha1.OperationUpdate,
		},
		"a removal of a pod under update": {
			[]quota.Removal{update("a", 2, container("web", 1)), removal("c0", "a")},
			quota.Update{Generation: 2, Containers: []v1alpha1.ContainerRestarts{container("web", 1)}, Removal: true}, v1alpha1.OperationDelete,
		},
		"an update of a pod to be removed": {
			[]quota.Removal{removal("c0", "a"), update("a", 2, container("web", 1))},
			quota.Update{Generation: 2, Containers: []v1alpha1.ContainerRestarts{container("web", 1)}, Removal: true}, v1alpha1.OperationDelete,
		},
		"a removal": {[]quota.Removal{removal("c0", "a")}, quota.Update{}, v1alpha1.OperationDelete},
	} {
		t.Run(claim, func(t *testing.T) {
			p := protector(1, 9)
			quota.Decide(p, c.asked)
			got, bucket := onlyReservation(t, p)
			if diff := cmp.Diff(c.want, got.Update); diff != "" || bucket.Operation != c.as {
				t.Errorf("operation %s, want %s; update (-want +got):\n%s", bucket.Operation, c.as, diff)
			}
			if reserved := quota.BudgetOf(p).Reserved; reserved != 1 {
				t.Errorf("%d reserved, want 1", reserved)
			}
		})
	}
}

func TestUpdateOfAMergedReservationBecomesSingle(t *testing.T) {
	p := withThreshold(protector(1, 9), 0)
	quota.Decide(p, []quota.Removal{removal("c0", "a"), removal("c0", "b")})
	compactAll(p, start)
	quota.Decide(p, []quota.Removal{update("a", 2, container("web", 1))})
	compactAll(p, start)
	buckets := p.Status.Cells[0].AdmissionHistory.Buckets
	if len(buckets) != 2 || buckets[1].PodUID != "a" || buckets[1].Operation != v1alpha1.OperationDelete || buckets[1].Generation != 2 {
		t.Errorf("buckets %+v, want one of b and one of a, which may still be removed", buckets)
	}
	if b := quota.BudgetOf(p); b.Reserved != 2 {
		t.Errorf("%d reserved, want 2", b.Reserved)
	}
}

// The counts exclude a pod that is down because of its update, so its reservation must not consume budget a second time. Once the pod
// is available and is to be removed again, it consumes budget again.
func TestUpdateConsumesBudgetOnce(t *testing.T) {
	p := protector(8, 10)
	see := func(observation quota.Observation, available int32) quota.Settled {
		done := quota.Settle(&p.Status.Cells[0].AdmissionHistory, func(quota.Reservation) quota.Observation { return observation })
		p.Status.Cells[0].Aggregation.CountedReplicas = available
		return done
	}
	left := func(want int, when string) {
		t.Helper()
		if got := quota.BudgetOf(p).Left(); got != want {
			t.Errorf("Left() %[2]s = %[1]d, want %[3]d", got, when, want)
		}
	}
	quota.Decide(p, []quota.Removal{update("a", 2, container("web", 1))})
	left(1, "with an update in progress")
	see(quota.Unavailable, 9)
	left(1, "while the pod is unavailable")
	see(quota.Alive, 10)
	left(1, "while the pod is available and not updated yet")
	see(quota.Unavailable, 9)
	if got := quota.Decide(p, []quota.Removal{removal("c0", "b"), removal("c0", "a")}); got[0].Outcome != quota.Reserved || got[1].Outcome != quota.DeniedNoBudget {
		t.Errorf("Decide() = %v, want the last removal of the budget reserved and the next one denied", outcomes(got))
	}
	if done := see(quota.Updated, 10); done.Updated != 2 {
		t.Errorf("Settle() = %+v, want 2 updated pods", done)
	}
	left(2, "after settlement")
}

func TestSettleReportsOverdueUpdates(t *testing.T) {
	p := protector(8, 10)
	quota.Decide(p, []quota.Removal{update("a", 2)})
	done := quota.Settle(&p.Status.Cells[0].AdmissionHistory, func(quota.Reservation) quota.Observation { return quota.Overdue })
	if len(done.Overdue) != 1 || done.Overdue[0].PodName != "pod-a" || !done.HasAny() || quota.BudgetOf(p).Reserved != 0 {
		t.Errorf("settled %+v, %d reserved", done, quota.BudgetOf(p).Reserved)
	}
}

// The removal of a pod under update was rejected by another admission check: the update continues.
func TestSettleKeepsTheUpdateOfAFailedRemoval(t *testing.T) {
	p := protector(8, 10)
	quota.Decide(p, []quota.Removal{update("a", 2, container("web", 1)), removal("c0", "a")})
	quota.Settle(&p.Status.Cells[0].AdmissionHistory, func(quota.Reservation) quota.Observation { return quota.RemovalExpired })
	if r, bucket := onlyReservation(t, p); r.Update.Removal || r.Update.Generation != 2 || bucket.Operation != v1alpha1.OperationUpdate {
		t.Errorf("reservation %+v, bucket %+v", r, bucket)
	}
}

func TestUpdatesPerCellAreLimited(t *testing.T) {
	p := protector(1, 5000)
	for i := range 1000 {
		if got := quota.Decide(p, []quota.Removal{update(fmt.Sprint(i), 2)})[0].Outcome; got != quota.Reserved {
			t.Fatalf("update %d: %s", i, got)
		}
	}
	compactAll(p, start.Add(time.Hour))
	got := quota.Decide(p, []quota.Removal{update("one more", 2), update("7", 3), removal("c0", "one more")})
	if want := []quota.Outcome{quota.DeniedUpdates, quota.Renewed, quota.Reserved}; !cmp.Equal(want, outcomes(got)) {
		t.Errorf("%v, want %v", outcomes(got), want)
	}
}

func TestUpdateThatTookEffectHasALongerDeadline(t *testing.T) {
	p := protector(1, 9)
	quota.Decide(p, []quota.Removal{update("a", 2)})
	r, _ := onlyReservation(t, p)
	var d quota.Deadlines
	passed := func(after time.Duration) bool { return d.HasPassed(r, time.Minute, start.Add(after)) }
	if d.RecordEffect(r, time.Hour) || passed(24*time.Hour) {
		t.Error("unobserved reservation has a timer")
	}
	d.Observe(&p.Status.Cells[0].AdmissionHistory, start)
	if !passed(time.Minute) {
		t.Error("the admission deadline does not pass")
	}
	if d.RecordEffect(r, time.Hour) || !d.RecordEffect(r, time.Hour) {
		t.Error("want RecordEffect() to report the effect as new once")
	}
	if passed(time.Minute) || !passed(time.Hour) {
		t.Error("want the timeout of updates to start at the same time")
	}
	if next, ok := d.Next(time.Minute); !ok || !next.Equal(start.Add(time.Hour)) {
		t.Errorf("next deadline %v", next)
	}
}
