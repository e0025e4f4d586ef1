package sharder

import (
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

// timing has the intervals and limits of the sharder.
type timing struct {
	// quietPeriod is how long the ring and its shards must be unchanged before a pass begins: shards that start together cause one pass. If
	// changes continue, the pass begins after four times quietPeriod.
	quietPeriod time.Duration
	// retry is the delay before the pass after one that left something; it doubles with each such pass.
	retry time.Duration
	// requestDelay is the minimum delay after a pass before a requested pass begins.
	requestDelay time.Duration
	// poll is the minimum interval between checks of moving objects.
	poll time.Duration
	// requestLifetime is how long a request that is based on an earlier state may take: the API server times it out after that.
	requestLifetime time.Duration
	// checkInterval is how often a ring is checked without its objects: for another address of the webhook, and for resources that are newly served.
	checkInterval time.Duration
	// page is the number of objects per list request, and writers the number of concurrent writes for a ring.
	page    int64
	writers int
}

func defaultTiming() timing {
	return timing{
		quietPeriod: time.Second, retry: time.Second, requestDelay: 10 * time.Second, poll: 250 * time.Millisecond, requestLifetime: time.Minute,
		checkInterval: 15 * time.Second, page: 500, writers: 32,
	}
}

// maxRetry is the longest delay before the pass after one that left something.
const maxRetry = time.Minute

// schedule determines when the next pass of a ring is due, and how much of the ring it reads. A pass has one or more causes:
//
//	cause    holds while     the pass is due                                                         it reads
//	change   isNew           when the basis has been unchanged for quietPeriod, and at the latest    the whole ring
//	                         four of them after the first change; no other cause matters then
//	request  isRequested     requestDelay after the last pass, later if that took long               the whole ring
//	retry    unfinished > 0  retry after the last pass, doubled for each one in a row                the whole ring
//	resync   always          resyncPeriodSeconds after the last pass began                           see nextScope
//
// A request and a retry can hold at once, and with a resync the earliest of them counts. They are no enumeration, because each is set
// and cleared by itself: begin clears change and request, and only end of a finished pass clears retry.
type schedule struct {
	timing
	// basis is the basis of the last pass, or of the one that is about to begin. changed is when it last changed, and
	// firstChanged when it first changed since the last pass.
	basis                 basis
	changed, firstChanged time.Time
	// isNew reports that no pass has used the basis yet.
	isNew bool
	// began and ended are of the last pass; unfinished is how many passes in a row have left something.
	began, ended time.Time
	unfinished   int
	// isRequested reports that a pass was requested since the last one began.
	isRequested bool
	// lastActivity is when a pass last left or changed something or was requested, or when the basis last changed.
	lastActivity time.Time
	lastFull     fullPassResult
}

// fullPassResult is the result of the last whole pass that found all objects with their shards.
type fullPassResult struct {
	began time.Time
	// problems are why it could not read objects of some resources.
	problems []problem
	objectCounts
}

// A whole pass is due fullPassResyncs resyncs after the last one, or at the first resync after fullPassInterval, whichever comes first.
const (
	fullPassResyncs  = 12
	fullPassInterval = time.Hour
)

// nextScope returns how much of its ring the next pass should read. A resync is light if nothing has changed since a whole pass that found
// nothing to do. That pass must have begun when no request based on an earlier state could still be in progress. Otherwise such a request
// could have stored an object after that pass with an outdated assignment. If the ring bounds the load of shards, the pass is whole,
// because it must count the objects.
func (s *schedule) nextScope(clusterRing *v1alpha1.ClusterRing, problems []problem, now time.Time) passScope {
	shards := s.basis.shards.Shards()
	every := min(fullPassResyncs*time.Duration(clusterRing.Spec.ResyncPeriodSeconds)*time.Second, fullPassInterval)
	switch {
	case s.isNew, s.isRequested, s.unfinished > 0,
		s.lastFull.began.Sub(s.lastActivity) < s.requestLifetime,
		!slices.Equal(problems, s.lastFull.problems),
		now.Sub(s.lastFull.began) >= every,
		clusterRing.Spec.MaxLoadPercent != nil,
		len(shards) == 0,
		len(misplacedSelectors(clusterRing.Name, shards)) == 0:
		return fullPass
	default:
		return lightPass
	}
}

// basis is what a pass is based on.
type basis struct {
	generation int64
	shards     *ring.Shards
}

// observe records the basis that the next pass would have.
func (s *schedule) observe(now basis, at time.Time) {
	if now == s.basis {
		return
	}
	if !s.isNew {
		s.firstChanged = at
	}
	s.basis, s.changed, s.isNew, s.lastActivity = now, at, true, at
}

// due returns how long it is until the next pass is due.
func (s *schedule) due(spec *v1alpha1.ClusterRingSpec, now time.Time) time.Duration {
	if s.isNew {
		return min(s.changed.Add(s.quietPeriod).Sub(now), s.firstChanged.Add(4*s.quietPeriod).Sub(now))
	}
	next := s.began.Add(time.Duration(spec.ResyncPeriodSeconds) * time.Second)
	if s.unfinished > 0 {
		wait := maxRetry
		if doublings := s.unfinished - 1; doublings < 6 {
			wait = min(s.retry<<doublings, maxRetry)
		}
		next = earlier(next, s.ended.Add(wait))
	}
	if s.isRequested {
		// Continuous requests must not cause continuous passes.
		next = earlier(next, s.ended.Add(max(s.requestDelay, loadDivisor*s.ended.Sub(s.began))))
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
	if s.isRequested {
		s.lastActivity = now
	}
	s.began, s.isNew, s.isRequested = now, false, false
}

// end records that the pass has ended, and whether it left something.
func (s *schedule) end(isFinished bool, now time.Time) {
	s.ended = now
	if isFinished {
		s.unfinished = 0
		return
	}
	s.unfinished++
	s.lastActivity = now
}

// recordFull records that the pass has read all objects, and found them with their shards.
func (s *schedule) recordFull(problems []problem, counts objectCounts) {
	s.lastFull = fullPassResult{s.began, problems, counts}
}

// restart makes the next pass due at once.
func (s *schedule) restart(now time.Time) {
	s.ended, s.began, s.unfinished, s.lastActivity = now, time.Time{}, 0, now
}
