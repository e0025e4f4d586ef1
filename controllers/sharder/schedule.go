package sharder

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// tempo is how fast things go.
type tempo struct {
	// settle is how long nothing has to change before a pass begins: shards that start together make one pass. What changes all the
	// time is not waited for longer than four times that.
	settle time.Duration
	// retry is how long a pass that left something is waited for; each that follows, twice as long.
	retry time.Duration
	// kick is how long after a pass somebody who asks for another one gets it.
	kick time.Duration
	// poll is how often, at most, is looked after objects that are on their way.
	poll time.Duration
	// linger is how long a request may take that goes by what was before: an apiserver ends it then.
	linger time.Duration
	// look is how often a ring is looked at without its objects: whether the webhook is found elsewhere, or resources are served that were not.
	look time.Duration
	// page is how many objects are read at once, and writers, how many of a ring are written.
	page    int64
	writers int
}

func usual() tempo {
	return tempo{
		settle: time.Second, retry: time.Second, kick: 10 * time.Second, poll: 250 * time.Millisecond, linger: time.Minute,
		look: 15 * time.Second, page: 500, writers: 32,
	}
}

// maxRetry is the longest that a pass which left something is waited for.
const maxRetry = time.Minute

// schedule is when the next pass of a ring is due.
type schedule struct {
	tempo
	// of is what the last pass went by, or the one that is about to begin, and changed and stirred since when it is so, and since
	// when it has not been the same for long enough.
	of               basis
	changed, stirred time.Time
	// isNew tells that no pass has gone by it yet.
	isNew bool
	// began and ended are of the last pass; unfinished is how many in a row have left something.
	began, ended time.Time
	unfinished   int
	isKicked     bool
	// unrest is when last a pass has left or changed something, was asked for, or had to go by something else than the one before.
	unrest time.Time
	rested repose
}

// repose is what the last whole look has found that found all objects where they are to be.
type repose struct {
	began time.Time
	// problems are why it could not look at objects of some resources.
	problems []problem
	census
}

// A whole look is made at so many resyncs after one, or at the first that comes so much later, whichever comes first.
const (
	wholeResyncs = 12
	wholeEvery   = time.Hour
)

// extent is how much of its ring the pass is to look at that is about to begin. A resync is light while everything is as it was at a whole
// look that found nothing to be done, and which began when nothing was under way any more that had gone by what was before: else an object
// could have been stored after that look as it was to be before it. Where shards have a bound their objects have to be counted.
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

// basis is what a pass goes by.
type basis struct {
	generation int64
	shards     *ring.Shards
}

// observe takes in what the next pass would go by.
func (s *schedule) observe(now basis, at time.Time) {
	if now == s.of {
		return
	}
	if !s.isNew {
		s.stirred = at
	}
	s.of, s.changed, s.isNew, s.unrest = now, at, true, at
}

// due is for how long the next pass is not yet due.
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
		// Whoever asks all the time must not make passes of all the time.
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

// begin takes in that a pass begins.
func (s *schedule) begin(now time.Time) {
	if s.isKicked {
		s.unrest = now
	}
	s.began, s.isNew, s.isKicked = now, false, false
}

// end takes in that it has ended, and whether it left something.
func (s *schedule) end(isFinished bool, now time.Time) {
	s.ended = now
	if isFinished {
		s.unfinished = 0
		return
	}
	s.unfinished++
	s.unrest = now
}

// rest takes in that it has looked at all objects, and found them where they are to be.
func (s *schedule) rest(problems []problem, of census) { s.rested = repose{s.began, problems, of} }

// again makes the next pass due at once.
func (s *schedule) again(now time.Time) {
	s.ended, s.began, s.unfinished, s.unrest = now, time.Time{}, 0, now
}
