package quota_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// oracle is a slow, simple model of a protector's status: the holders of reservations, by cell and UID.
type oracle struct {
	floor, lag int
	available  map[string]int
	reserved   map[string]map[types.UID]*oracleReservation
}

// oracleReservation is a reservation. Attempts are numbered.
type oracleReservation struct {
	attempts map[int]bool
	// removal and update are its purposes. down reports that the counts do not include the pod.
	removal, update, unavailable bool
	// deletes reports that one of the removals ends the pod. version is the highest that a relabel was reviewed for.
	deletes bool
	version int64
}

// isRelabel reports whether the pod continues to exist after all of its removals.
func (h *oracleReservation) isRelabel() bool { return !h.deletes && h.version > 0 }

func (b *oracle) open() int {
	open := 0
	for _, pods := range b.reserved {
		for _, h := range pods {
			if !h.unavailable {
				open++
			}
		}
	}
	return open
}

// alreadyCharged reports whether a removal consumes no further budget.
func (b *oracle) alreadyCharged(r quota.Removal) bool {
	h := b.reserved[r.Cell][r.PodUID]
	return h != nil && !h.unavailable
}

func (b *oracle) budget() int {
	left := -b.floor - b.open()
	for _, n := range b.available {
		left += n
	}
	return left
}

// decide answers one removal from first principles.
func (b *oracle) decide(attempt int, r quota.Removal) (outcome, forced quota.Outcome) {
	pods, known := b.reserved[r.Cell]
	if forced = b.denialReason(r); forced != "" && !r.Force {
		return forced, ""
	}
	if !known {
		return quota.Waived, forced
	}
	outcome = quota.Renewed
	if pods[r.PodUID] == nil {
		outcome, pods[r.PodUID] = quota.Reserved, &oracleReservation{attempts: map[int]bool{}}
	}
	h := pods[r.PodUID]
	h.attempts[attempt], h.unavailable = true, false
	h.removal, h.update = h.removal || r.Generation == 0, h.update || r.Generation > 0
	h.deletes = h.deletes || r.Generation == 0 && r.PodVersion == 0
	h.version = max(h.version, r.PodVersion)
	return outcome, forced
}

func (b *oracle) denialReason(r quota.Removal) quota.Outcome {
	_, known := b.reserved[r.Cell]
	switch {
	case !known && b.floor == 0:
		return ""
	case !known:
		return quota.DeniedNeverAggregated
	case b.alreadyCharged(r) && b.floor > 0 && b.budget() < 0:
		return quota.DeniedNoBudget
	case b.alreadyCharged(r):
		return ""
	case b.lag > 0 && b.open() >= b.lag:
		return quota.DeniedFull
	case b.floor > 0 && b.budget() <= 0:
		return quota.DeniedNoBudget
	}
	return ""
}

// releaseClaim reports whether an attempt held the reservation, which ends with its last holder.
func (b *oracle) releaseClaim(attempt int, r quota.Removal) bool {
	h := b.reserved[r.Cell][r.PodUID]
	if h == nil || !h.attempts[attempt] {
		return false
	}
	if delete(h.attempts, attempt); len(h.attempts) == 0 {
		delete(b.reserved[r.Cell], r.PodUID)
	}
	return true
}

var cellIDs = []string{"c0", "c1", "c2"}

func drawProtector(t *rapid.T) (*v1alpha1.PodProtector, *oracle) {
	p := protector(int32(rapid.IntRange(0, 12).Draw(t, "floor")), int32(rapid.IntRange(0, 12).Draw(t, "c0")),
		int32(rapid.IntRange(0, 12).Draw(t, "c1")))
	withMaxConcurrentLag(p, int32(rapid.IntRange(0, 6).Draw(t, "maxConcurrentLag")))
	withThreshold(p, int32(rapid.IntRange(0, 4).Draw(t, "compactThreshold")))
	b := &oracle{
		floor: p.Spec.MinAvailable.IntValue(), lag: int(p.Spec.AdmissionHistory.MaxConcurrentLag),
		available: map[string]int{}, reserved: map[string]map[types.UID]*oracleReservation{},
	}
	for _, cell := range p.Status.Cells {
		b.available[cell.CellID] = int(cell.Aggregation.CountedReplicas)
		b.reserved[cell.CellID] = map[types.UID]*oracleReservation{}
	}
	return p, b
}

func drawRemoval(t *rapid.T) quota.Removal {
	r := removal(rapid.SampledFrom(cellIDs).Draw(t, "cell"), fmt.Sprint(rapid.IntRange(0, 7).Draw(t, "uid")))
	r.At = start.Add(time.Duration(rapid.Int64Range(0, 3e9).Draw(t, "at")))
	if r.Generation = rapid.Int64Range(0, 3).Draw(t, "generation"); r.Generation > 0 {
		r.Operation = v1alpha1.OperationUpdate
		r.Containers = []v1alpha1.ContainerRestarts{{Name: "web", Restarts: 1}}
	} else if r.PodVersion = rapid.Int64Range(0, 3).Draw(t, "version"); r.PodVersion > 0 {
		r.Operation = v1alpha1.OperationRelabel
	}
	return r
}

// roundTrip returns a status after a write and a read.
func roundTrip(t *rapid.T, p *v1alpha1.PodProtector) *v1alpha1.PodProtector {
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	stored := &v1alpha1.PodProtector{}
	if err := json.Unmarshal(raw, stored); err != nil {
		t.Fatal(err)
	}
	return stored
}

// attempts are decided removals and their claims.
type attempts struct {
	removals []quota.Removal
	claims   []quota.Claim
}

// draw returns the next attempts, with different clocks.
func (a *attempts) draw(t *rapid.T) []quota.Removal {
	removals := rapid.SliceOfN(rapid.Custom(drawRemoval), 1, 8).Draw(t, "removals")
	for i := range removals {
		removals[i].Force = rapid.IntRange(0, 9).Draw(t, "force") == 0
		removals[i].Token = fmt.Sprint("attempt-", len(a.removals)+i)
		if rapid.Bool().Draw(t, "revocable") {
			removals[i].RevocableUntil = start.Add(time.Second)
		}
	}
	return removals
}

func (a *attempts) record(removals []quota.Removal, verdicts []quota.Verdict, stored bool) {
	for i, verdict := range verdicts {
		verdict.Claim.Stored = stored
		a.removals, a.claims = append(a.removals, removals[i]), append(a.claims, verdict.Claim)
	}
}

// The history agrees with the books through any mixture of decisions, give-backs, compaction and settlement, even if writes are lost
// or their outcome is unknown. They agree on the total, the reserved pods and every verdict. No attempt gives back a reservation that
// it does not hold, or that other attempts hold.
func TestHistoryAgreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, b := drawProtector(t)
		made := &attempts{}
		t.Repeat(map[string]func(*rapid.T){
			"decide": func(t *rapid.T) {
				removals := made.draw(t)
				verdicts := quota.Decide(p, removals)
				for i, r := range removals {
					want, forced := b.decide(len(made.removals)+i, r)
					if got := verdicts[i]; got.Outcome != want || got.Forced != forced {
						t.Fatalf("Decide() of removal %d %+v = %v (forced %q), want %v (forced %q)", i, r, got.Outcome, got.Forced, want, forced)
					}
				}
				made.record(removals, verdicts, rapid.Bool().Draw(t, "known to be stored"))
			},
			"decide, and the write fails": func(t *rapid.T) {
				removals := made.draw(t)
				made.record(removals, quota.Decide(p.DeepCopy(), removals), false)
			},
			"give back": func(t *rapid.T) {
				if len(made.claims) == 0 {
					t.Skip("no removal was decided")
				}
				i := rapid.IntRange(0, len(made.claims)-1).Draw(t, "attempt")
				r := made.removals[i]
				if quota.ReleaseClaim(p, r.Cell, r.PodUID, made.claims[i]) && !b.releaseClaim(i, r) {
					t.Fatalf("attempt %d gave back the reservation of %+v without holding it", i, r)
				}
				made.claims[i] = quota.Claim{} // once
			},
			"compact": func(t *rapid.T) {
				withThreshold(p, int32(rapid.IntRange(0, 4).Draw(t, "compactThreshold")))
				now := start.Add(time.Duration(rapid.IntRange(0, 1).Draw(t, "seconds")) * time.Second)
				compactAll(p, now)
				for i := range p.Status.Cells {
					if now.Equal(start) {
						break // revocable reservations come on top
					}
					most := quota.CompactThreshold(&p.Spec) + 2 // one merged bucket of removals, and one of relabels
					for _, h := range b.reserved[cellIDs[i]] {
						if h.update {
							most++
						}
					}
					if got := len(p.Status.Cells[i].AdmissionHistory.Buckets); got > most {
						t.Fatalf("%d buckets after Compact, want at most %d", got, most)
					}
				}
			},
			"settle": func(t *rapid.T) {
				i := rapid.IntRange(0, 1).Draw(t, "cell")
				observed := map[quota.UIDHash]quota.Observation{}
				ended := map[quota.Observation]int{}
				for _, uid := range slices.Sorted(maps.Keys(b.reserved[cellIDs[i]])) {
					h := b.reserved[cellIDs[i]][uid]
					observations := []quota.Observation{quota.Unobserved, quota.Alive, quota.Unavailable, quota.Absent}
					if h.update {
						observations = append(observations, quota.Updated, quota.Overdue)
					}
					if h.update && h.removal {
						observations = append(observations, quota.RemovalExpired)
					}
					if h.isRelabel() {
						observations = append(observations, quota.Relabeled)
					}
					observation := rapid.SampledFrom(observations).Draw(t, "sighting of "+string(uid))
					observed[quota.HashUID(uid)] = observation
					h.unavailable = h.update && observation == quota.Unavailable
					switch observation {
					case quota.Absent, quota.Relabeled, quota.Updated, quota.Overdue:
						ended[observation]++
						delete(b.reserved[cellIDs[i]], uid)
					case quota.RemovalExpired:
						h.removal, h.deletes, h.version = false, false, 0
					}
				}
				done := quota.Settle(&p.Status.Cells[i].AdmissionHistory, func(r quota.Reservation) quota.Observation { return observed[r.Hash] })
				if done.Absent != ended[quota.Absent] || done.Updated != ended[quota.Updated] || done.Relabeled != ended[quota.Relabeled] || len(done.Overdue) != ended[quota.Overdue] || done.Expired != 0 {
					t.Fatalf("Settle() = %+v, want %v", done, ended)
				}
			},
			"write and read": func(t *rapid.T) { p = roundTrip(t, p) },
			"": func(t *rapid.T) {
				if got := quota.BudgetOf(p).Left(); got != b.budget() {
					t.Fatalf("Left() = %d, want %d\n%+v", got, b.budget(), p.Status)
				}
				for i, cell := range p.Status.Cells {
					type purpose struct{ Update, Removal, Relabel bool }
					got, want, versions := map[quota.UIDHash]purpose{}, map[quota.UIDHash]purpose{}, map[quota.UIDHash]int64{}
					for r := range quota.Reservations(&p.Status.Cells[i].AdmissionHistory) {
						got[r.Hash] = purpose{!r.Update.IsEmpty(), r.Update.IsEmpty() || r.Update.Removal, r.Relabel > 0}
						versions[r.Hash] = r.Relabel
					}
					for uid, h := range b.reserved[cell.CellID] {
						want[quota.HashUID(uid)] = purpose{h.update, h.removal, h.isRelabel()}
						if hash := quota.HashUID(uid); h.isRelabel() && versions[hash] < h.version {
							t.Fatalf("relabel of %s kept for version %d, want %d or a later one", uid, versions[hash], h.version)
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("reservations of %s (-want +got):\n%s", cell.CellID, diff)
					}
				}
				quota.Summarize(p)
				if got, want := int(p.Status.Summary.Reserved), b.open(); got != want {
					t.Fatalf("status.summary.reserved = %d, want %d", got, want)
				}
			},
		})
	})
}

// A batch decides as if its removals came one by one, even with compaction in between.
func TestBatchDecidesLikeSingleDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batched, _ := drawProtector(t)
		single := batched.DeepCopy()
		removals := rapid.SliceOfN(rapid.Custom(drawRemoval), 0, 20).Draw(t, "removals")
		got := outcomes(quota.Decide(batched, removals))
		var want []quota.Outcome
		for _, r := range removals {
			want = append(want, quota.Decide(single, []quota.Removal{r})[0].Outcome)
			compactAll(single, start)
			single = roundTrip(t, single)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("outcomes (-single decisions +batch):\n%s", diff)
		}
		if quota.BudgetOf(batched) != quota.BudgetOf(single) {
			t.Fatalf("budget after the batch = %+v, want %+v as for single decisions", quota.BudgetOf(batched), quota.BudgetOf(single))
		}
	})
}

// The summary promises exactly the removals that Decide admits.
func TestDisruptionsAllowedMatchesDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, b := drawProtector(t)
		quota.Decide(p, rapid.SliceOfN(rapid.Custom(drawRemoval), 0, 8).Draw(t, "earlier"))
		quota.Summarize(p)
		if b.floor == 0 {
			return // a floor of zero denies nothing, so there is no such number
		}
		admitted := 0
		for i := range 40 {
			if quota.Decide(p, []quota.Removal{removal("c0", fmt.Sprint("fresh", i))})[0].Outcome.Admitted() {
				admitted++
			}
		}
		if got := int(p.Status.DisruptionsAllowed); got != admitted {
			t.Fatalf("disruptionsAllowed = %d, want %d, the number of admitted removals", got, admitted)
		}
	})
}

func TestDeadlinesRestartWithEachStamp(t *testing.T) {
	p := protector(1, 9)
	h := &p.Status.Cells[0].AdmissionHistory
	only := func() quota.Reservation {
		for r := range quota.Reservations(h) {
			return r
		}
		t.Fatal("no reservation")
		return quota.Reservation{}
	}
	var d quota.Deadlines
	passed := func(after time.Duration) bool { return d.HasPassed(only(), time.Minute, start.Add(after)) }

	quota.Decide(p, []quota.Removal{removal("c0", "a")})
	if passed(time.Hour) {
		t.Error("deadline passed before the reservation was observed")
	}
	d.Observe(h, start)
	if passed(59*time.Second) || !passed(60*time.Second) {
		t.Error("want the deadline to pass 60 s after the first observation")
	}
	d.Observe(h, start.Add(30*time.Second))
	if next, ok := d.Next(time.Minute); !ok || !next.Equal(start.Add(time.Minute)) {
		t.Errorf("Next() = %v, %v, want the deadline of the first observation", next, ok)
	}

	quota.Decide(p, []quota.Removal{removal("c0", "a")}) // renewed
	if passed(time.Hour) {
		t.Error("deadline of a renewed reservation passed by the timer of the previous attempt")
	}
	d.Observe(h, start.Add(40*time.Second))
	if passed(60*time.Second) || !passed(100*time.Second) {
		t.Error("want the timer of a renewed reservation to start when the renewal is observed")
	}

	compactAll(withThreshold(p, 0), start)
	d.Observe(h, start.Add(50*time.Second))
	if !passed(100 * time.Second) {
		t.Error("merging restarted the timer of a single reservation")
	}
	quota.Settle(h, func(quota.Reservation) quota.Observation { return quota.Absent })
	d.Observe(h, start.Add(51*time.Second))
	if _, ok := d.Next(time.Minute); ok {
		t.Error("settled reservation still has a timer")
	}
}

func reserved10000() *v1alpha1.PodProtector {
	p := protector(1, 20000)
	for i := range 10000 {
		r := removal("c0", fmt.Sprintf("%08d-9d7b-4b6a-8f0a-%012d", i, i))
		r.PodName = fmt.Sprintf("deployment-with-a-name-5d4f8c7b9d-%05d", i)
		quota.Decide(p, []quota.Removal{r})
	}
	compactAll(p, start)
	quota.Summarize(p)
	return p
}

func TestStatusHolds10000Reservations(t *testing.T) {
	p := reserved10000()
	raw, err := json.Marshal(p.Status)
	if err != nil {
		t.Fatal(err)
	}
	if most := 150 << 10; len(raw) > most {
		t.Errorf("status has %d bytes, want at most %d", len(raw), most)
	}
	t.Logf("status has %d bytes", len(raw))
}
