package sharder

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// tempo has the intervals and limits of the sharder.
type tempo struct {
	// settle is how long the ring and its shards must be unchanged before a pass begins: shards that start together cause one pass. If
	// changes continue, the pass begins after four times settle.
	settle time.Duration
	// retry is the delay before the pass after one that left something; it doubles with each such pass.
	retry time.Duration
	// kick is the minimum delay after a pass before a requested pass begins.
	kick time.Duration
	// poll is the minimum interval between checks of moving objects.
	poll time.Duration
	// linger is how long a request that is based on an earlier state may take: the API server times it out after that.
	linger time.Duration
	// look is how often a ring is checked without its objects: for another address of the webhook, and for resources that are newly served.
	look time.Duration
	// page is the number of objects per list request, and writers the number of concurrent writes for a ring.
	page    int64
	writers int
}

func usual() tempo {
	return tempo{
		settle: time.Second, retry: time.Second, kick: 10 * time.Second, poll: 250 * time.Millisecond, linger: time.Minute,
		look: 15 * time.Second, page: 500, writers: 32,
	}
}

// maxRetry is the longest delay before the pass after one that left something.
const maxRetry = time.Minute

// schedule determines when the next pass of a ring is due.
type schedule struct {
	tempo
	// of is the basis of the last pass, or of the one that is about to begin. changed is when it last changed, and stirred when it first
	// changed since the last pass.
	of               basis
	changed, stirred time.Time
	// isNew is true if no pass has used the basis yet.
	isNew bool
	// began and ended are of the last pass; unfinished is how many passes in a row have left something.
	began, ended time.Time
	unfinished   int
	isKicked     bool
	// unrest is when a pass last left or changed something or was requested, or when the basis last changed.
	unrest time.Time
	rested repose
}

// repose is the result of the last whole pass that found all objects with their shards.
type repose struct {
	began time.Time
	// problems are why it could not read objects of some resources.
	problems []problem
	census
}

// A whole pass is due wholeResyncs resyncs after the last one, or at the first resync after wholeEvery, whichever comes first.
const (
	wholeResyncs = 12
	wholeEvery   = time.Hour
)

// extent returns how much of its ring the next pass should read. A resync is light if nothing has changed since a whole pass that found
// nothing to do. That pass must have begun when no request based on an earlier state could still be in progress. Otherwise such a request
// could have stored an object after that pass with an outdated assignment. If the ring bounds the load of shards, the pass is whole,
// because it must count the objects.
func (s *schedule) extent(of *v1alpha1.ClusterRing, problems []problem, now time.Time) extent {
	shards := s.of.shards.Shards()
	every := min(wholeResyncs*time.Duration(of.Spec.ResyncPeriodSeconds)*time.Second, wholeEvery)
	switch {
	case s.isNew, s.isKicked, s.unfinished > 0,
		s.rested.began.Sub(s.unrest) < s.linger,
		!slices.Equal(problems, s.rested.problems),
		now.Sub(s.rested.began) >= every,
		of.Spec.MaxLoadPercent != nil,
		len(shards) == 0,
		len(selectors(of.Name, shards)) == 0:
		return whole
	default:
		return light
	}
}

// basis is what a pass is based on.
type basis struct {
	generation int64
	shards     *ring.Shards
}

// observe records the basis that the next pass would have.
func (s *schedule) observe(now basis, at time.Time) {
	if now == s.of {
		return
	}
	if !s.isNew {
		s.stirred = at
	}
	s.of, s.changed, s.isNew, s.unrest = now, at, true, at
}

// due returns how long it is until the next pass is due.
func (s *schedule) due(spec *v1alpha1.ClusterRingSpec, now time.Time) time.Duration {
	if s.isNew {
		return min(s.changed.Add(s.settle).Sub(now), s.stirred.Add(4*s.settle).Sub(now))
	}
	next := s.began.Add(time.Duration(spec.ResyncPeriodSeconds) * time.Second)
	if s.unfinished > 0 {
		wait := maxRetry
		if doublings := s.unfinished - 1; doublings < 6 {
			wait = min(s.retry<<doublings, maxRetry)
		}
		next = earlier(next, s.ended.Add(wait))
	}
	if s.isKicked {
		// Continuous requests must not cause continuous passes.
		next = earlier(next, s.ended.Add(max(s.kick, share*s.ended.Sub(s.began))))
	}
	return next.Sub(now)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// begin records that a pass begins.
func (s *schedule) begin(now time.Time) {
	if s.isKicked {
		s.unrest = now
	}
	s.began, s.isNew, s.isKicked = now, false, false
}

// end records that the pass has ended, and whether it left something.
func (s *schedule) end(isFinished bool, now time.Time) {
	s.ended = now
	if isFinished {
		s.unfinished = 0
		return
	}
	s.unfinished++
	s.unrest = now
}

// rest records that the pass has read all objects, and found them with their shards.
func (s *schedule) rest(problems []problem, of census) { s.rested = repose{s.began, problems, of} }

// again makes the next pass due at once.
func (s *schedule) again(now time.Time) {
	s.ended, s.began, s.unfinished, s.unrest = now, time.Time{}, 0, now
}
