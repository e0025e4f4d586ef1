package sharder

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
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

func TestHowMuchAPassLooksAt(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	shards := func(names ...string) *ring.Shards {
		states := map[string]v1alpha1.ShardState{}
		for _, name := range names {
			states[name] = v1alpha1.ShardReady
		}
		return ring.NewShards(states, 1)
	}
	some, missing := shards("a", "b"), []problem{{"ResourceNotServed", "x"}}
	// look is a pass that succeeds.
	look := func(s *schedule, is extent, began float64) {
		s.begin(at(began))
		s.end(true, at(began+1))
		if is == whole {
			s.rest(nil, census{})
		}
	}
	for claim, test := range map[string]struct {
		then   func(*schedule, *v1alpha1.ClusterRing)
		found  []problem
		now    float64
		extent extent
	}{
		"all at first": {func(*schedule, *v1alpha1.ClusterRing) {}, nil, 1, whole},
		"all once more, when what was under way is done": {func(s *schedule, _ *v1alpha1.ClusterRing) { look(s, whole, 1) }, nil, 301, whole},
		"little after that": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, whole, 1)
			look(s, whole, 301)
		}, nil, 601, light},
		"little after a minute, where looks are frequent": {func(s *schedule, of *v1alpha1.ClusterRing) {
			of.Spec.ResyncPeriodSeconds = 10
			for began := 10.0; began <= 60; began += 10 {
				look(s, whole, began)
			}
		}, nil, 70, light},
		"all before that": {func(s *schedule, of *v1alpha1.ClusterRing) {
			of.Spec.ResyncPeriodSeconds = 10
			for began := 10.0; began <= 50; began += 10 {
				look(s, whole, began)
			}
		}, nil, 60, whole},
		"little until the hour is over": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			for began := 300.0; began < 3900; began += 300 {
				look(s, map[bool]extent{true: whole, false: light}[began == 300], began)
			}
		}, nil, 3899, light},
		"all when the hour is over": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			for began := 300.0; began < 3900; began += 300 {
				look(s, map[bool]extent{true: whole, false: light}[began == 300], began)
			}
		}, nil, 3900, whole},
		"all at every twelfth resync, where they are frequent": {func(s *schedule, of *v1alpha1.ClusterRing) {
			of.Spec.ResyncPeriodSeconds = 10
			look(s, whole, 100)
		}, nil, 220, whole},
		"all when it is an hour from one resync to the next": {func(s *schedule, of *v1alpha1.ClusterRing) {
			of.Spec.ResyncPeriodSeconds = 3600
			look(s, whole, 3600)
		}, nil, 7200, whole},
		"all when the ring has changed": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, whole, 301)
			s.observe(basis{2, some}, at(400))
		}, nil, 401, whole},
		"all when its shards have": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, whole, 301)
			s.observe(basis{1, shards("a")}, at(400))
		}, nil, 401, whole},
		"all at the first resync after that": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, whole, 301)
			s.observe(basis{1, shards("a")}, at(400))
			look(s, whole, 401)
		}, nil, 701, whole},
		"all when somebody asks": {func(s *schedule, _ *v1alpha1.ClusterRing) { look(s, whole, 301); s.isKicked = true }, nil, 401, whole},
		"all at the first resync after somebody asked": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, whole, 301)
			s.isKicked = true
			look(s, whole, 401)
		}, nil, 701, whole},
		"all when a pass has left something": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, whole, 301)
			s.begin(at(601))
			s.end(false, at(602))
		}, nil, 603, whole},
		"all at the first resync after that is done": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, whole, 301)
			s.begin(at(601))
			s.end(false, at(602))
			look(s, whole, 603)
		}, nil, 903, whole},
		"all when a pass was given up": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, whole, 301)
			s.begin(at(601))
			s.again(at(602))
		}, nil, 602, whole},
		"all when a resource is not served any more": {func(s *schedule, _ *v1alpha1.ClusterRing) { look(s, whole, 301) }, missing, 601, whole},
		"little when one has not been served before": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, whole, 301)
			s.rest(missing, census{})
		}, missing, 601, light},
		"all when shards have a bound": {func(s *schedule, of *v1alpha1.ClusterRing) {
			of.Spec.MaxLoadPercent = ptr.To[int32](110)
			look(s, whole, 301)
		}, nil, 601, whole},
		"all while there are no shards": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			s.observe(basis{1, shards()}, at(1))
			look(s, whole, 301)
		}, nil, 601, whole},
		"all when a selector would be too long": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			s.observe(basis{1, shards(manyNames(1000, 63)...)}, at(1))
			look(s, whole, 301)
		}, nil, 601, whole},
	} {
		t.Run(claim, func(t *testing.T) {
			of := &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
			of.Spec.ResyncPeriodSeconds = 300
			s := &schedule{tempo: usual()}
			s.observe(basis{1, some}, at(0))
			test.then(s, of)
			if got := s.extent(of, test.found, at(test.now)); got != test.extent {
				t.Errorf("it looks at %s, want %s", got, test.extent)
			}
		})
	}
}

// manyNames returns n names of shards of a given length.
func manyNames(n, length int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%0*d", length, i))
	}
	return all
}

func TestASelectorFitsIntoAURL(t *testing.T) {
	for claim, test := range map[string]struct {
		shards []string
		fits   bool
	}{
		"one shard":                         {[]string{"a"}, true},
		"as many as a Deployment has":       {manyNames(100, 30), true},
		"a thousand":                        {manyNames(1000, 10), false},
		"a thousand with the longest names": {manyNames(1000, 63), false},
	} {
		t.Run(claim, func(t *testing.T) {
			all := selectors(strings.Repeat("r", 57), test.shards)
			if (len(all) > 0) != test.fits {
				t.Fatalf("%d selectors", len(all))
			}
			for _, text := range all {
				if n := len(url.QueryEscape(text)); n > maxSelector {
					t.Errorf("it takes %d bytes", n)
				}
				if _, err := labels.Parse(text); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestCountsAreStaleWhenMoreThanOneInTwentyHasComeOrGone(t *testing.T) {
	for _, test := range []struct {
		census
		listed int64
		stale  bool
	}{
		{census{0, 0}, 0, false},
		{census{0, 0}, 1, true},
		{census{1000, 1000}, 1050, false},
		{census{1000, 1000}, 1051, true},
		{census{1000, 1000}, 950, false},
		{census{1000, 1000}, 949, true},
		// The objects that do not belong to the ring might do so later.
		{census{1000, 100}, 1005, false},
		{census{1000, 100}, 1006, true},
	} {
		if got := test.isStale(test.listed); got != test.stale {
			t.Errorf("%+v, when %d are listed: stale %t", test.census, test.listed, got)
		}
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
