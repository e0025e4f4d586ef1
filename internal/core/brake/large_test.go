package brake

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// protector returns a protector with a floor: minAvailable, or maxUnavailable after a '-'.
func protector(floor string, change ...func(*v1alpha1.PodProtector)) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{}
	of := intstr.Parse(strings.TrimPrefix(floor, "-"))
	if p.Spec.MinAvailable = &of; strings.HasPrefix(floor, "-") {
		p.Spec.MinAvailable, p.Spec.MaxUnavailable = nil, &of
	}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict}
	p.Spec.Criterion = v1alpha1.CriterionAvailable
	for _, c := range change {
		c(p)
	}
	return p
}

// expects sets the expected replicas, so that the floor of a percentage is known.
func expects(pods int32) func(*v1alpha1.PodProtector) {
	return func(p *v1alpha1.PodProtector) {
		p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a", Aggregation: v1alpha1.Aggregation{
			CountedSpec: quota.CountedSpec(&p.Spec), ExpectedReplicas: &pods,
		}}}
	}
}

func TestDescribeWeakening(t *testing.T) {
	exempt := func(p *v1alpha1.PodProtector) { p.Spec.ExemptPodSelector = &v1alpha1.PodSelector{} }
	for claim, c := range map[string]struct {
		before, after *v1alpha1.PodProtector
		reference     int
		want          bool
	}{
		"the same floor":               {protector("8"), protector("8"), 0, false},
		"a higher floor":               {protector("8"), protector("80"), 0, false},
		"an autoscaler from 100 to 60": {protector("100"), protector("60"), 0, false},
		"half":                         {protector("8"), protector("4"), 0, true},
		"one more than half":           {protector("8"), protector("5"), 0, false},
		"to 0":                         {protector("1"), protector("0"), 0, true},
		"from 0":                       {protector("0"), protector("0"), 0, false},
		"half of the highest floor of the window":             {protector("60"), protector("50"), 100, true},
		"a floor above the last, but below the highest":       {protector("40"), protector("60"), 100, false},
		"the same floor, after a large decrease":              {protector("30"), protector("30"), 100, false},
		"a percentage that is halved":                         {protector("80%"), protector("40%"), 0, true},
		"a percentage that decreases, of unknown pods":        {protector("80%"), protector("70%"), 0, true},
		"a percentage that decreases, of known pods":          {protector("80%", expects(100)), protector("70%", expects(100)), 0, false},
		"a percentage that rises, of unknown pods":            {protector("70%"), protector("80%"), 0, false},
		"twice the same percentage":                           {protector("80%"), protector("80%"), 0, false},
		"maxUnavailable that halves the floor":                {protector("-20%"), protector("-60%"), 0, true},
		"more maxUnavailable, of unknown pods":                {protector("-20%"), protector("-40%"), 0, true},
		"another form, whose floor is known":                  {protector("80%", expects(100)), protector("70", expects(100)), 0, false},
		"another form, whose floor is known and much lower":   {protector("80%", expects(100)), protector("30", expects(100)), 0, true},
		"another form that cannot be compared":                {protector("80%"), protector("70"), 0, true},
		"numbers of unavailable pods that cannot be compared": {protector("-2"), protector("-3"), 0, true},
		"all pods exempt":                                     {protector("8"), protector("8", exempt), 0, true},
		"no pods are exempt any longer":                       {protector("8", exempt), protector("8"), 0, false},
		"a removed operation":                                 {protector("8"), protector("8", func(p *v1alpha1.PodProtector) { p.Spec.Operations = p.Spec.Operations[:1] }), 0, true},
		"a weaker criterion":                                  {protector("8"), protector("8", func(p *v1alpha1.PodProtector) { p.Spec.Criterion = v1alpha1.CriterionRunning }), 0, true},
		"a stronger criterion":                                {protector("8", func(p *v1alpha1.PodProtector) { p.Spec.Criterion = v1alpha1.CriterionRunning }), protector("8"), 0, false},
		"other pods":                                          {protector("8"), protector("8", func(p *v1alpha1.PodProtector) { p.Spec.Selector = &v1alpha1.PodSelector{} }), 0, true},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := DescribeWeakening(c.before, c.after, c.reference); got.IsLarge() != c.want || got.IsLarge() != (got.Effect != "") {
				t.Errorf("DescribeWeakening() = %q, want a large decrease: %v", got.Effect, c.want)
			}
		})
	}
}

func TestDescribeRelease(t *testing.T) {
	for floor, want := range map[string]bool{"0": false, "1": true, "50%": true} {
		if what, got := DescribeRelease(protector(floor)); got != want {
			t.Errorf("DescribeRelease(floor %s) = %q, %v, want %v", floor, what, got, want)
		}
	}
}

func TestReference(t *testing.T) {
	p := protector("100")
	p.Annotations = map[string]string{}
	lower := func(to string, at time.Time) {
		after := protector(to)
		p.Annotations[v1alpha1.AnnotationFloorReference] = NextReference(p, after, time.Minute, at)
		p.Spec = after.Spec
	}
	want := func(at time.Duration, want int) {
		t.Helper()
		if got := Reference(p, time.Minute, start.Add(at)); got != want {
			t.Errorf("Reference() after %s = %d, want %d (%v)", at, got, want, p.Annotations)
		}
	}
	want(0, 0)
	lower("60", start)
	want(30*time.Second, 100)
	lower("40", start.Add(30*time.Second))
	want(59*time.Second, 100)
	want(61*time.Second, 60) // which was the floor until a later time than 100
	want(91*time.Second, 0)
	lower("90", start.Add(70*time.Second)) // an increase records no reference, and an old one expires
	want(71*time.Second, 60)
	want(91*time.Second, 0)
	lower("80", start.Add(80*time.Second))
	want(90*time.Second, 90)
	p.Annotations[v1alpha1.AnnotationFloorReference] = "many@yesterday"
	want(0, 0)
}

// Each step of a protector that shrinks step by step is compared with the highest floor of the window.
func TestReferenceIsTheHighestFloorOfTheWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = time.Minute
		p := protector("100")
		p.Annotations = map[string]string{}
		type had struct {
			floor int
			until time.Time
		}
		var history []had
		floor, now := 100, start
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			highest := 0
			for _, h := range history {
				if now.Sub(h.until) < window {
					highest = max(highest, h.floor)
				}
			}
			if got := Reference(p, window, now); max(got, floor) < max(highest, floor) || len(history) < maxFormerFloors && max(got, floor) != max(highest, floor) {
				t.Fatalf("Reference() = %d with a floor of %d, want %d: %v, annotation %v", got, floor, highest, history, p.Annotations)
			}
			to := rapid.IntRange(0, 100).Draw(t, "floor")
			after := protector(strconv.Itoa(to))
			p.Annotations[v1alpha1.AnnotationFloorReference] = NextReference(p, after, window, now)
			if to < floor {
				history = append(history, had{floor, now})
			}
			p.Spec, floor = after.Spec, to
		}
	})
}
