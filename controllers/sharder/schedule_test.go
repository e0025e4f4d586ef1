package sharder

import (
	"fmt"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/ring"
)

func TestWhenAPassIsDue(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	spec := &v1alpha1.ClusterRingSpec{ResyncPeriodSeconds: 300}
	some, other := ring.NewShards(nil, 1), ring.NewShards(nil, 1)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	for claim, test := range map[string]struct {
		then func(*schedule)
		now  float64
		due  float64
	}{
		"a second after it was seen first": {func(*schedule) {}, 0, 1},
		"a second after it has changed": {func(s *schedule) {
			s.observe(basis{1, other}, at(0.5))
		}, 0.5, 1},
		"after four when it changes all the time": {func(s *schedule) {
			for i := range 7 {
				s.observe(basis{int64(i), some}, at(float64(i)*0.6))
			}
		}, 3.6, 0.4},
		"when the period is over": {func(s *schedule) { s.begin(at(10)); s.end(true, at(20)) }, 30, 280},
		"soon when something was left": {func(s *schedule) {
			s.begin(at(10))
			s.end(false, at(20))
		}, 20, 1},
		"later when something is left again and again": {func(s *schedule) {
			for i := range 4 {
				s.begin(at(float64(i)))
				s.end(false, at(float64(i)))
			}
		}, 3, 8},
		"within a minute when something is always left": {func(s *schedule) {
			for i := range 100 {
				s.begin(at(float64(i)))
				s.end(false, at(float64(i)))
			}
		}, 99, 60},
		"soon again when all was well in between": {func(s *schedule) {
			for i := range 9 {
				s.begin(at(float64(i)))
				s.end(i == 7, at(float64(i)))
			}
		}, 8, 1},
		"soon after somebody has asked":            {func(s *schedule) { s.begin(at(0)); s.end(true, at(1)); s.isKicked = true }, 3, 8},
		"at once when somebody asks after a while": {func(s *schedule) { s.begin(at(0)); s.end(true, at(1)); s.isKicked = true }, 30, -19},
		"much later when passes take long":         {func(s *schedule) { s.begin(at(0)); s.end(true, at(10)); s.isKicked = true }, 10, 40},
		"at once when it was given up":             {func(s *schedule) { s.begin(at(0)); s.again(at(5)) }, 5, -1e6 + 295},
		"a second after a change when it was given up": {func(s *schedule) {
			s.begin(at(10))
			s.again(at(15))
			s.observe(basis{2, some}, at(15))
		}, 15, 1},
	} {
		t.Run(claim, func(t *testing.T) {
			s := &schedule{tempo: usual()}
			s.observe(basis{1, some}, at(0))
			test.then(s)
			due := s.due(spec, at(test.now))
			if test.due <= 0 && due <= 0 {
				return
			}
			if got := due.Seconds(); fmt.Sprintf("%.3f", got) != fmt.Sprintf("%.3f", test.due) {
				t.Errorf("due after %.3f s, want %.3f", got, test.due)
			}
		})
	}
}

func TestAStrayIsAlwaysKnown(t *testing.T) {
	s := newStrays()
	of := func(kind string, n int) id { return id{configMaps, kind, fmt.Sprint("c-", n)} }
	const strays = 100_000
	for n := range strays {
		s.add(of("stray", n))
	}
	wrong := 0
	for n := range strays {
		if !s.may(of("stray", n)) {
			t.Fatalf("stray %d is not known", n)
		}
		if s.may(of("other", n)) {
			wrong++
		}
	}
	if wrong > strays/100 {
		t.Errorf("%d of %d others seem to be strays", wrong, strays)
	}
}
