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

// recorder is told by every shard when it begins to work on an object, and when it ends. It judges by the order in which it hears,
// which is that in which things happen: a shard goes on only when it was heard.
type recorder struct {
	server *httptest.Server

	mu sync.Mutex
	// open are the visits that have not ended, by object.
	open map[string]visit
	// turns are the newest of each object that a visit has seen the end of, by object.
	turns map[string]int
	// visits are how many each shard has ended.
	visits map[string]int
	// frozen are the shards that were frozen, with whether they go on: what such a one was in the middle of ends for everybody else
	// when another takes it over, and whatever it does then it may begin nothing.
	frozen     map[string]bool
	violations []string
}

type visit struct {
	shard string
	began time.Time
}

func newRecorder(t testing.TB) *recorder {
	r := &recorder{open: map[string]visit{}, turns: map[string]int{}, visits: map[string]int{}, frozen: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /begin", func(_ http.ResponseWriter, q *http.Request) {
		r.begin(q.FormValue("object"), q.FormValue("shard"))
	})
	mux.HandleFunc("POST /end", func(w http.ResponseWriter, q *http.Request) {
		turn, err := strconv.Atoi(q.FormValue("turn"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.end(q.FormValue("object"), q.FormValue("shard"), turn)
	})
	r.server = httptest.NewServer(mux)
	t.Cleanup(r.server.Close)
	return r
}

func (r *recorder) begin(object, shard string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen[shard] {
		r.violations = append(r.violations, fmt.Sprintf("%s begins to work on %s when it has lost its Lease", shard, object))
	}
	_, asleep := r.frozen[r.open[object].shard]
	if other, busy := r.open[object]; busy && !asleep {
		r.violations = append(r.violations, fmt.Sprintf("%s begins to work on %s while %s does so since %s",
			shard, object, other.shard, other.began.Format(time.StampMilli)))
	}
	r.open[object] = visit{shard: shard, began: time.Now()}
}

func (r *recorder) end(object, shard string, turn int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, woken := r.frozen[shard]; woken && r.open[object].shard != shard {
		return
	}
	if r.open[object].shard != shard {
		r.violations = append(r.violations, fmt.Sprintf("%s ends its work on %s, which is %q's", shard, object, r.open[object].shard))
		return
	}
	delete(r.open, object)
	r.turns[object] = max(r.turns[object], turn)
	r.visits[shard]++
}

// dead ends the visits of a shard that was killed.
func (r *recorder) dead(shard string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for object, v := range r.open {
		if v.shard == shard {
			delete(r.open, object)
		}
	}
}

// freeze takes it that a shard was frozen, or that it was, and goes on without its Lease.
func (r *recorder) freeze(shard string, goesOn bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen[shard] = goesOn
}

// behind is how many objects have not been worked on as they are, by their turns.
func (r *recorder) behind(turns map[string]int) (n int, one string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for object, turn := range turns {
		if seen, ok := r.turns[object]; !ok || seen < turn {
			n, one = n+1, object
		}
	}
	return n, one
}

// ended is how many visits there were.
func (r *recorder) ended() (all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.visits {
		all += n
	}
	return all
}

func (r *recorder) wantNoViolation(t testing.TB) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, v := range r.violations {
		if t.Error(v); i == 9 {
			t.Fatalf("... and %d more", len(r.violations)-10)
		}
	}
}

func TestTheRecorderSeesTwoShardsAtOneObject(t *testing.T) {
	r := newRecorder(t)
	r.begin("a", "one")
	r.begin("a", "two")
	r.end("a", "one", 1)
	r.end("a", "two", 1)
	if len(r.violations) != 2 {
		t.Errorf("seen: %q", r.violations)
	}
	r.begin("b", "one")
	r.dead("one")
	r.begin("b", "two")
	r.end("b", "two", 3)
	if len(r.violations) != 2 || r.ended() != 2 {
		t.Errorf("seen: %q, %d visits", r.violations, r.ended())
	}
	r.begin("c", "one")
	r.freeze("one", false)
	r.begin("c", "two")
	r.freeze("one", true)
	r.end("c", "one", 1)
	if len(r.violations) != 2 {
		t.Errorf("seen: %q", r.violations)
	}
	if r.begin("d", "one"); len(r.violations) != 3 {
		t.Errorf("seen: %q", r.violations)
	}
	if n, one := r.behind(map[string]int{"b": 4, "a": 1}); n != 1 || one != "b" {
		t.Errorf("%d are behind, such as %q", n, one)
	}
}
