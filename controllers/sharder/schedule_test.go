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

func TestScheduleDue(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	spec := &v1alpha1.ClusterRingSpec{ResyncPeriodSeconds: 300}
	some, other := ring.NewShards(nil, 1), ring.NewShards(nil, 1)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	for claim, test := range map[string]struct {
		then func(*schedule)
		now  float64
		due  float64
	}{
		"a second after the first observation": {func(*schedule) {}, 0, 1},
		"a second after a change": {func(s *schedule) {
			s.observe(basis{1, other}, at(0.5))
		}, 0.5, 1},
		"after four seconds when changes continue": {func(s *schedule) {
			for i := range 7 {
				s.observe(basis{int64(i), some}, at(float64(i)*0.6))
			}
		}, 3.6, 0.4},
		"at the end of the resync period": {func(s *schedule) { s.begin(at(10)); s.end(true, at(20)) }, 30, 280},
		"soon after a pass that left something": {func(s *schedule) {
			s.begin(at(10))
			s.end(false, at(20))
		}, 20, 1},
		"later after repeated passes that left something": {func(s *schedule) {
			for i := range 4 {
				s.begin(at(float64(i)))
				s.end(false, at(float64(i)))
			}
		}, 3, 8},
		"within a minute when passes always leave something": {func(s *schedule) {
			for i := range 100 {
				s.begin(at(float64(i)))
				s.end(false, at(float64(i)))
			}
		}, 99, 60},
		"soon again after a complete pass": {func(s *schedule) {
			for i := range 9 {
				s.begin(at(float64(i)))
				s.end(i == 7, at(float64(i)))
			}
		}, 8, 1},
		"soon after a request":                          {func(s *schedule) { s.begin(at(0)); s.end(true, at(1)); s.isRequested = true }, 3, 8},
		"immediately for a request long after a pass":   {func(s *schedule) { s.begin(at(0)); s.end(true, at(1)); s.isRequested = true }, 30, -19},
		"much later for a request when passes are long": {func(s *schedule) { s.begin(at(0)); s.end(true, at(10)); s.isRequested = true }, 10, 40},
		"immediately after an abandoned pass":           {func(s *schedule) { s.begin(at(0)); s.restart(at(5)) }, 5, -1e6 + 295},
		"a second after a change that abandoned a pass": {func(s *schedule) {
			s.begin(at(10))
			s.restart(at(15))
			s.observe(basis{2, some}, at(15))
		}, 15, 1},
	} {
		t.Run(claim, func(t *testing.T) {
			s := &schedule{timing: defaultTiming()}
			s.observe(basis{1, some}, at(0))
			test.then(s)
			due := s.due(spec, at(test.now))
			if test.due <= 0 && due <= 0 {
				return
			}
			if got := due.Seconds(); fmt.Sprintf("%.3f", got) != fmt.Sprintf("%.3f", test.due) {
				t.Errorf("due() = %.3f s, want %.3f s", got, test.due)
			}
		})
	}
}

func TestScheduleScope(t *testing.T) {
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
	look := func(s *schedule, is passScope, began float64) {
		s.begin(at(began))
		s.end(true, at(began+1))
		if is == fullPass {
			s.recordFull(nil, objectCounts{})
		}
	}
	for claim, test := range map[string]struct {
		then   func(*schedule, *v1alpha1.ClusterRing)
		found  []problem
		now    float64
		extent passScope
	}{
		"full at first": {func(*schedule, *v1alpha1.ClusterRing) {}, nil, 1, fullPass},
		"full again after earlier requests have ended": {func(s *schedule, _ *v1alpha1.ClusterRing) { look(s, fullPass, 1) }, nil, 301, fullPass},
		"light after that": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, fullPass, 1)
			look(s, fullPass, 301)
		}, nil, 601, lightPass},
		"light after a minute with a short resync period": {func(s *schedule, clusterRing *v1alpha1.ClusterRing) {
			clusterRing.Spec.ResyncPeriodSeconds = 10
			for began := 10.0; began <= 60; began += 10 {
				look(s, fullPass, began)
			}
		}, nil, 70, lightPass},
		"full before that": {func(s *schedule, clusterRing *v1alpha1.ClusterRing) {
			clusterRing.Spec.ResyncPeriodSeconds = 10
			for began := 10.0; began <= 50; began += 10 {
				look(s, fullPass, began)
			}
		}, nil, 60, fullPass},
		"light for an hour": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			for began := 300.0; began < 3900; began += 300 {
				look(s, map[bool]passScope{true: fullPass, false: lightPass}[began == 300], began)
			}
		}, nil, 3899, lightPass},
		"full after an hour": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			for began := 300.0; began < 3900; began += 300 {
				look(s, map[bool]passScope{true: fullPass, false: lightPass}[began == 300], began)
			}
		}, nil, 3900, fullPass},
		"full at every twelfth resync with a short period": {func(s *schedule, clusterRing *v1alpha1.ClusterRing) {
			clusterRing.Spec.ResyncPeriodSeconds = 10
			look(s, fullPass, 100)
		}, nil, 220, fullPass},
		"full when the resync period is an hour": {func(s *schedule, clusterRing *v1alpha1.ClusterRing) {
			clusterRing.Spec.ResyncPeriodSeconds = 3600
			look(s, fullPass, 3600)
		}, nil, 7200, fullPass},
		"full after a change of the ring": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, fullPass, 301)
			s.observe(basis{2, some}, at(400))
		}, nil, 401, fullPass},
		"full after a change of the shards": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, fullPass, 301)
			s.observe(basis{1, shards("a")}, at(400))
		}, nil, 401, fullPass},
		"full at the first resync after that change": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, fullPass, 301)
			s.observe(basis{1, shards("a")}, at(400))
			look(s, fullPass, 401)
		}, nil, 701, fullPass},
		"full on request": {func(s *schedule, _ *v1alpha1.ClusterRing) { look(s, fullPass, 301); s.isRequested = true }, nil, 401, fullPass},
		"full at the first resync after a request": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, fullPass, 301)
			s.isRequested = true
			look(s, fullPass, 401)
		}, nil, 701, fullPass},
		"full after a pass that left something": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, fullPass, 301)
			s.begin(at(601))
			s.end(false, at(602))
		}, nil, 603, fullPass},
		"full at the first resync after that is complete": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, fullPass, 301)
			s.begin(at(601))
			s.end(false, at(602))
			look(s, fullPass, 603)
		}, nil, 903, fullPass},
		"full after an abandoned pass": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, fullPass, 301)
			s.begin(at(601))
			s.restart(at(602))
		}, nil, 602, fullPass},
		"full when a resource is no longer served": {func(s *schedule, _ *v1alpha1.ClusterRing) { look(s, fullPass, 301) }, missing, 601, fullPass},
		"light when a resource was not served before either": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			look(s, fullPass, 301)
			s.recordFull(missing, objectCounts{})
		}, missing, 601, lightPass},
		"full when shards have a maximum load": {func(s *schedule, clusterRing *v1alpha1.ClusterRing) {
			clusterRing.Spec.MaxLoadPercent = ptr.To[int32](110)
			look(s, fullPass, 301)
		}, nil, 601, fullPass},
		"full without shards": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			s.observe(basis{1, shards()}, at(1))
			look(s, fullPass, 301)
		}, nil, 601, fullPass},
		"full when a selector would be too long": {func(s *schedule, _ *v1alpha1.ClusterRing) {
			s.observe(basis{1, shards(manyNames(1000, 63)...)}, at(1))
			look(s, fullPass, 301)
		}, nil, 601, fullPass},
	} {
		t.Run(claim, func(t *testing.T) {
			clusterRing := &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
			clusterRing.Spec.ResyncPeriodSeconds = 300
			s := &schedule{timing: defaultTiming()}
			s.observe(basis{1, some}, at(0))
			test.then(s, clusterRing)
			if got := s.nextScope(clusterRing, test.found, at(test.now)); got != test.extent {
				t.Errorf("nextScope() = %s, want %s", got, test.extent)
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

func TestSelectorLengthIsBounded(t *testing.T) {
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
			all := misplacedSelectors(strings.Repeat("r", 57), test.shards)
			if (len(all) > 0) != test.fits {
				t.Fatalf("got %d selectors", len(all))
			}
			for _, text := range all {
				if n := len(url.QueryEscape(text)); n > maxSelector {
					t.Errorf("selector has %d bytes", n)
				}
				if _, err := labels.Parse(text); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestObjectCountsIsStale(t *testing.T) {
	for _, test := range []struct {
		objectCounts
		listed int64
		stale  bool
	}{
		{objectCounts{0, 0}, 0, false},
		{objectCounts{0, 0}, 1, true},
		{objectCounts{1000, 1000}, 1050, false},
		{objectCounts{1000, 1000}, 1051, true},
		{objectCounts{1000, 1000}, 950, false},
		{objectCounts{1000, 1000}, 949, true},
		// The objects that do not belong to the ring might do so later.
		{objectCounts{1000, 100}, 1005, false},
		{objectCounts{1000, 100}, 1006, true},
	} {
		if got := test.isStale(test.listed); got != test.stale {
			t.Errorf("%+v: isStale(%d) = %t", test.objectCounts, test.listed, got)
		}
	}
}

func TestDisplacedSetContainsAllAdded(t *testing.T) {
	s := newDisplacedSet()
	of := func(kind string, n int) id { return id{configMaps, kind, fmt.Sprint("c-", n)} }
	const strays = 100_000
	for n := range strays {
		s.add(of("stray", n))
	}
	wrong := 0
	for n := range strays {
		if !s.mayContain(of("stray", n)) {
			t.Fatalf("displaced object %d is not in the set", n)
		}
		if s.mayContain(of("other", n)) {
			wrong++
		}
	}
	if wrong > strays/100 {
		t.Errorf("%d of %d other objects are in the set", wrong, strays)
	}
}
