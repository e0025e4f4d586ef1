package quota_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// dropPodTimes reduces a status to what a version before podTimes keeps.
func dropPodTimes(p *v1alpha1.PodProtector) {
	for i := range p.Status.Cells {
		buckets := p.Status.Cells[i].AdmissionHistory.Buckets
		for j := range buckets {
			buckets[j].PodTimes = nil
		}
	}
}

const admissionDeadline = 65 * time.Second

// Ten removals were admitted and abandoned, while clients renew ten others every five seconds, as a drain does that a
// PodDisruptionBudget blocks. The renewals do not extend the abandoned ones.
func TestAbandonedReservationExpiresWhileOthersAreRenewed(t *testing.T) {
	for claim, c := range map[string]struct {
		// older is the time until which webhooks of an older version write every second renewal.
		older time.Duration
		// restart is the time at which the aggregator restarts.
		restart time.Duration
		want    time.Duration
	}{
		"after the admission deadline":                           {0, 0, admissionDeadline},
		"and after that of a new leader":                         {0, 40 * time.Second, 40*time.Second + admissionDeadline},
		"and after that of the last write of an older version":   {30 * time.Second, 0, 30*time.Second + admissionDeadline},
		"in time after any period of writes by an older version": {10 * time.Minute, 0, 10*time.Minute + admissionDeadline},
	} {
		for _, most := range []int32{0, 1, 4, 20} {
			t.Run(fmt.Sprintf("%s, compactThreshold %d", claim, most), func(t *testing.T) {
				p := withThreshold(protector(1, 100), most)
				h := &p.Status.Cells[0].AdmissionHistory
				reserve := func(kind string, at time.Duration, older bool) {
					for i := range 10 {
						r := removal("c0", fmt.Sprint(kind, i))
						r.At = start.Add(at)
						if verdict := quota.Decide(p, []quota.Removal{r})[0]; !verdict.Outcome.Admitted() {
							t.Fatalf("Decide() of %s = %v, want it admitted", r.PodUID, verdict)
						}
						compactAll(p, r.At)
						if older {
							dropPodTimes(p)
						}
					}
				}
				reserve("abandoned", 0, false)
				deadlines := quota.Deadlines{}
				abandoned := map[quota.UIDHash]bool{}
				for i := range 10 {
					abandoned[quota.HashUID(types.UID(fmt.Sprint("abandoned", i)))] = true
				}
				for at := time.Duration(0); at <= c.want; at += time.Second {
					if at%(5*time.Second) == 0 {
						reserve("renewed", at, at <= c.older && at > 0)
					}
					if at == c.restart {
						deadlines = quota.Deadlines{}
					}
					deadlines.Observe(h, start.Add(at))
					for r := range quota.Reservations(h) {
						want := abandoned[r.Hash] && at >= c.want
						if got := deadlines.HasPassed(r, admissionDeadline, start.Add(at)); got != want && (c.older == 0 || at == c.want || !abandoned[r.Hash]) {
							t.Fatalf("after %s: HasPassed() of a reservation = %t, want %t (abandoned %t)", at, got, want, abandoned[r.Hash])
						}
					}
				}
				if got := quota.Open(h); got != 20 {
					t.Errorf("Open() = %d, want 20", got)
				}
			})
		}
	}
}

// observedTimer is a simple model of a timer.
type observedTimer struct {
	unobserved bool
	at         time.Time
}

// A timer starts when the aggregator first sees the last attempt for the pod, however reservations are merged, settled, given back or
// repeated with different clocks. With webhooks of an older version it may run longer, but never shorter.
func TestTimerStartsWithTheLastAttempt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := protector(1, 100)
		h := &p.Status.Cells[0].AdmissionHistory
		older := rapid.Bool().Draw(t, "with webhooks of an older version")
		now, deadlines, timers, attempts := start, quota.Deadlines{}, map[types.UID]*observedTimer{}, time.Duration(0)
		pods := func(t *rapid.T) types.UID {
			if len(timers) == 0 {
				t.Skip("no reservation")
			}
			return rapid.SampledFrom(slices.Sorted(maps.Keys(timers))).Draw(t, "pod")
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve or renew": func(t *rapid.T) {
				var removals []quota.Removal
				for range rapid.IntRange(1, 4).Draw(t, "removals") {
					r := removal("c0", fmt.Sprint(rapid.IntRange(0, 11).Draw(t, "uid")))
					attempts += time.Millisecond // a later attempt for a pod whose reservation has ended has another time
					r.At = now.Add(time.Duration(rapid.IntRange(-120, 120).Draw(t, "skew"))*time.Second + attempts)
					removals = append(removals, r)
					timers[r.PodUID] = &observedTimer{unobserved: true}
				}
				quota.Decide(p, removals)
				if rapid.Bool().Draw(t, "compact") {
					compactAll(withThreshold(p, int32(rapid.IntRange(0, 4).Draw(t, "compactThreshold"))), now)
				}
				if older && rapid.Bool().Draw(t, "older") {
					dropPodTimes(p)
				}
			},
			"settle": func(t *rapid.T) {
				gone := pods(t)
				delete(timers, gone)
				quota.Settle(h, func(r quota.Reservation) quota.Observation {
					if r.Hash == quota.HashUID(gone) {
						return quota.Absent
					}
					return quota.Alive
				})
				deadlines.Prune(h)
			},
			"observe": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 70).Draw(t, "seconds")) * time.Second)
				deadlines.Observe(h, now)
				for _, timer := range timers {
					if timer.unobserved {
						*timer = observedTimer{at: now}
					}
				}
			},
			"write and read": func(t *rapid.T) {
				raw, err := json.Marshal(p)
				if err != nil {
					t.Fatal(err)
				}
				*p = v1alpha1.PodProtector{}
				if err := json.Unmarshal(raw, p); err != nil {
					t.Fatal(err)
				}
				h = &p.Status.Cells[0].AdmissionHistory
			},
			"": func(t *rapid.T) {
				if got := quota.Open(h); got != len(timers) {
					t.Fatalf("Open() = %d, want %d", got, len(timers))
				}
				for r := range quota.Reservations(h) {
					for uid, timer := range timers {
						if r.Hash != quota.HashUID(uid) {
							continue
						}
						got := deadlines.HasPassed(r, admissionDeadline, now)
						want := !timer.unobserved && !now.Before(timer.at.Add(admissionDeadline))
						if got != want && (!older || got) {
							t.Fatalf("HasPassed() of %s = %t, want %t; buckets %+v", uid, got, want, h.Buckets)
						}
					}
				}
			},
		})
	})
}

// The size of a merged bucket's times is bounded: at most five bytes for each reservation, and next to nothing for those of one
// write.
func TestPodTimesAreSmall(t *testing.T) {
	for claim, c := range map[string]struct {
		batch, most int
		every       time.Duration
	}{
		"one write a second of one removal":       {1, 5, time.Second},
		"a write every 50 ms of fifty removals":   {50, 1, 50 * time.Millisecond},
		"one write every 10 ms of one removal":    {1, 4, 10 * time.Millisecond},
		"one write in two minutes of one removal": {1, 5, 2 * time.Minute},
	} {
		t.Run(claim, func(t *testing.T) {
			p := withThreshold(protector(1, 20000), 0)
			const number = 2000
			for i := 0; i < number; i += c.batch {
				var removals []quota.Removal
				for j := range c.batch {
					r := removal("c0", fmt.Sprint(i+j))
					r.At = start.Add(time.Duration(i/c.batch)*c.every + time.Duration(j)*time.Microsecond)
					removals = append(removals, r)
				}
				quota.Decide(p, removals)
				compactAll(p, start)
			}
			bucket := p.Status.Cells[0].AdmissionHistory.Buckets[0]
			if len(bucket.PodUIDHashes) != 8*number || len(bucket.PodTimes) > c.most*number {
				t.Errorf("times of %d reservations take %d bytes, want at most %d each", len(bucket.PodUIDHashes)/8, len(bucket.PodTimes), c.most)
			}
			t.Logf("%d bytes for each reservation", len(bucket.PodTimes)/number)
		})
	}
}

// A reservation that expired is followed by another for the same pod before the next pass of the aggregator. A webhook with a fast
// clock wrote the time of the first. By chance, the second has the same stamp, but must have a timer of its own.
func TestReservationDoesNotInheritTheTimerOfASettledOne(t *testing.T) {
	p := withThreshold(protector(1, 20), 0)
	h := &p.Status.Cells[0].AdmissionHistory
	ahead, a := removal("c0", "ahead"), removal("c0", "a")
	ahead.At = start.Add(time.Hour)
	decide := func(r quota.Removal, compact bool) {
		quota.Decide(p, []quota.Removal{r})
		if compact {
			compactAll(p, start)
		}
	}
	decide(ahead, true)
	decide(a, true)
	decide(a, false) // renewed with the smallest possible step
	before := stampsOf(h)
	deadlines := quota.Deadlines{}
	deadlines.Observe(h, start)
	quota.Settle(h, func(r quota.Reservation) quota.Observation {
		if r.Hash == quota.HashUID("a") {
			return quota.Expired
		}
		return quota.Alive
	})
	deadlines.Prune(h)
	decide(a, true)
	decide(a, false)
	if after := stampsOf(h); !slices.Equal(before, after) {
		t.Fatalf("stamps %v, want %v: the test has no effect", after, before)
	}
	now := start.Add(time.Hour)
	deadlines.Observe(h, now)
	for r := range quota.Reservations(h) {
		if got, want := deadlines.HasPassed(r, admissionDeadline, now), r.Hash == quota.HashUID("ahead"); got != want {
			t.Errorf("HasPassed() of %+v = %t, want %t", r, got, want)
		}
	}
}

// A malformed encoding stands for the latest time, which is stricter.
func TestMalformedPodTimesMeanTheLatestTime(t *testing.T) {
	for _, raw := range [][]byte{nil, {0x80}, {1}, {3, 0}, {1, 5}, {0, 5, 2, 5}, {255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 5}, {2, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}} {
		p := protector(1, 20)
		first, second := removal("c0", "a"), removal("c0", "b")
		second.At = start.Add(time.Minute)
		quota.Decide(p, []quota.Removal{first})
		quota.Decide(p, []quota.Removal{second})
		compactAll(withThreshold(p, 0), start)
		h := &p.Status.Cells[0].AdmissionHistory
		if stamps := stampsOf(h); !slices.Equal(stamps, []time.Time{start, second.At}) {
			t.Fatalf("stamps %v, want those of both attempts", stamps)
		}
		h.Buckets[0].PodTimes = raw
		if stamps := stampsOf(h); !slices.Equal(stamps, []time.Time{second.At, second.At}) {
			t.Errorf("stamps with podTimes %v = %v, want the latest for both", raw, stamps)
		}
	}
}

func stampsOf(h *v1alpha1.AdmissionHistory) (stamps []time.Time) {
	for r := range quota.Reservations(h) {
		stamps = append(stamps, r.Stamp)
	}
	return stamps
}

// The API server stores what is no base64. It must not keep clients from decoding the list that has it.
func TestBytesThatAreNotBase64(t *testing.T) {
	for text, want := range map[string]string{`"d2Vi"`: "web", `"*"`: "", `null`: "", `7`: "", `"d2V"`: ""} {
		bucket := v1alpha1.Bucket{PodTimes: []byte("earlier")}
		if err := json.Unmarshal([]byte(`{"counter": 3, "podTimes": `+text+`}`), &bucket); err != nil || string(bucket.PodTimes) != want || bucket.Counter != 3 {
			t.Errorf("podTimes %s decode to %q (%v), want %q", text, bucket.PodTimes, err, want)
		}
	}
	encoded, err := json.Marshal(v1alpha1.Bucket{PodTimes: []byte("web")})
	if err != nil || !strings.Contains(string(encoded), `"podTimes":"d2Vi"`) || strings.Contains(string(encoded), "podUIDHashes") {
		t.Errorf("the bucket encodes to %s (%v), want standard base64, and no empty field", encoded, err)
	}
}
