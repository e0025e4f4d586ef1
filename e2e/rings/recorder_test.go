package rings_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"
)

// visitRecorder receives a request from each shard when the shard begins to process an object, and when it ends. The order of the requests is
// the order of the events, because a shard continues only after the recorder has answered.
type visitRecorder struct {
	server *httptest.Server

	mu sync.Mutex
	// openVisits has the visits that have not ended, by object.
	openVisits map[string]visit
	// turns has the newest turn of each object that a shard has finished processing.
	turns map[string]int
	// visits has the number of ended visits, by shard.
	visits map[string]int
	// frozen has the shards that were frozen; the value is true when a shard has resumed. Another shard may take over an object that a frozen
	// shard was processing. A resumed shard may end visits, but must not begin any.
	frozen map[string]bool
	// owners has the shards that objects should stay with, and moved the objects of those that another shard began to process.
	owners     map[string]string
	moved      map[string]bool
	violations []string
}

type visit struct {
	shard string
	began time.Time
}

func newRecorder(t testing.TB) *visitRecorder {
	r := &visitRecorder{openVisits: map[string]visit{}, turns: map[string]int{}, visits: map[string]int{}, frozen: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /begin", func(_ http.ResponseWriter, q *http.Request) {
		r.beginVisit(q.FormValue("object"), q.FormValue("shard"))
	})
	mux.HandleFunc("POST /end", func(w http.ResponseWriter, q *http.Request) {
		turn, err := strconv.Atoi(q.FormValue("turn"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.endVisit(q.FormValue("object"), q.FormValue("shard"), turn)
	})
	r.server = httptest.NewServer(mux)
	t.Cleanup(r.server.Close)
	return r
}

func (r *visitRecorder) beginVisit(object, shard string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen[shard] {
		r.violations = append(r.violations, fmt.Sprintf("%s starts to process %s after it lost its Lease", shard, object))
	}
	if owner, ok := r.owners[object]; ok && owner != shard {
		r.moved[object] = true
	}
	_, asleep := r.frozen[r.openVisits[object].shard]
	if other, busy := r.openVisits[object]; busy && !asleep {
		r.violations = append(r.violations, fmt.Sprintf("%s starts to process %s while %s processes it since %s",
			shard, object, other.shard, other.began.Format(time.StampMilli)))
	}
	r.openVisits[object] = visit{shard: shard, began: time.Now()}
}

func (r *visitRecorder) endVisit(object, shard string, turn int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, woken := r.frozen[shard]; woken && r.openVisits[object].shard != shard {
		return
	}
	if r.openVisits[object].shard != shard {
		r.violations = append(r.violations, fmt.Sprintf("%s ends processing %s, which %q started", shard, object, r.openVisits[object].shard))
		return
	}
	delete(r.openVisits, object)
	r.turns[object] = max(r.turns[object], turn)
	r.visits[shard]++
}

// endVisitsOf ends the open visits of a shard that was killed.
func (r *visitRecorder) endVisitsOf(shard string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for object, v := range r.openVisits {
		if v.shard == shard {
			delete(r.openVisits, object)
		}
	}
}

// recordFrozen records that a shard was frozen or, if continues is true, that it resumed without its Lease.
func (r *visitRecorder) recordFrozen(shard string, continues bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen[shard] = continues
}

// expectOwners sets the shards that objects should stay with. countMoved counts from then on.
func (r *visitRecorder) expectOwners(owners map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owners, r.moved = owners, map[string]bool{}
}

// countMoved returns the number of objects that a shard other than their owner began to process.
func (r *visitRecorder) countMoved() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.moved)
}

// countOutdated returns the number of objects that were not processed in their newest turn, and one of them.
func (r *visitRecorder) countOutdated(turns map[string]int) (n int, one string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for object, turn := range turns {
		if seen, ok := r.turns[object]; !ok || seen < turn {
			n, one = n+1, object
		}
	}
	return n, one
}

// countVisits returns the number of ended visits.
func (r *visitRecorder) countVisits() (all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.visits {
		all += n
	}
	return all
}

func (r *visitRecorder) expectNoViolation(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, v := range r.violations {
		if t.Error(v); i == 9 {
			t.Fatalf("... and %d more", len(r.violations)-10)
		}
	}
}

func TestRecorderDetectsTwoShardsOnOneObject(t *testing.T) {
	r := newRecorder(t)
	r.beginVisit("a", "one")
	r.beginVisit("a", "two")
	r.endVisit("a", "one", 1)
	r.endVisit("a", "two", 1)
	if len(r.violations) != 2 {
		t.Errorf("got violations %q", r.violations)
	}
	r.beginVisit("b", "one")
	r.endVisitsOf("one")
	r.beginVisit("b", "two")
	r.endVisit("b", "two", 3)
	if len(r.violations) != 2 || r.countVisits() != 2 {
		t.Errorf("got violations %q, %d visits", r.violations, r.countVisits())
	}
	r.beginVisit("c", "one")
	r.recordFrozen("one", false)
	r.beginVisit("c", "two")
	r.recordFrozen("one", true)
	r.endVisit("c", "one", 1)
	if len(r.violations) != 2 {
		t.Errorf("got violations %q", r.violations)
	}
	if r.beginVisit("d", "one"); len(r.violations) != 3 {
		t.Errorf("got violations %q", r.violations)
	}
	if n, one := r.countOutdated(map[string]int{"b": 4, "a": 1}); n != 1 || one != "b" {
		t.Errorf("%d objects are outdated, such as %q", n, one)
	}
}
