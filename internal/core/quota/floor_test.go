package quota_test

import (
	"strconv"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func amount(text string) *intstr.IntOrString {
	if text == "" {
		return nil
	}
	value := intstr.Parse(text)
	return &value
}

func withFloor(minAvailable, maxUnavailable string, expected int32) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{}
	p.Spec.MinAvailable, p.Spec.MaxUnavailable = amount(minAvailable), amount(maxUnavailable)
	if expected >= 0 {
		p.Spec.ExpectedReplicas = &expected
	}
	return p
}

func TestFloor(t *testing.T) {
	const none = -1
	for claim, c := range map[string]struct {
		min, max string
		expected int32
		want     int
		unknown  bool
	}{
		"an absolute number":                           {min: "40", expected: none, want: 40},
		"a number above the expected pods":             {min: "100", expected: 10, want: 100},
		"a percentage":                                 {min: "50%", expected: 10, want: 5},
		"a percentage is rounded up":                   {min: "41%", expected: 5, want: 3},
		"all":                                          {min: "100%", expected: 7, want: 7},
		"none":                                         {min: "0%", expected: 7, want: 0},
		"a percentage of zero pods":                    {min: "70%", expected: 0, want: 0},
		"a percentage of an unknown number":            {min: "70%", expected: none, unknown: true},
		"maxUnavailable as a number":                   {max: "3", expected: 10, want: 7},
		"maxUnavailable above the expected pods":       {max: "100", expected: 10, want: 0},
		"maxUnavailable 0":                             {max: "0", expected: 10, want: 10},
		"maxUnavailable as a percentage is rounded up": {max: "10%", expected: 15, want: 13},
		"30 % of 10":                                   {max: "30%", expected: 10, want: 7},
		"maxUnavailable 100%":                          {max: "100%", expected: 10, want: 0},
		"maxUnavailable of an unknown number":          {max: "3", expected: none, unknown: true},
		"neither field, which the API server rejects":  {expected: 10, unknown: true},
		"a text, which the API server rejects":         {min: "many", expected: 10, unknown: true},
	} {
		t.Run(claim, func(t *testing.T) {
			got, known := quota.Floor(withFloor(c.min, c.max, c.expected))
			if got != c.want && !c.unknown || known == c.unknown {
				t.Errorf("Floor() = %d, %v, want %d, %v", got, known, c.want, !c.unknown)
			}
		})
	}
}

// A floor never exceeds the expected pods, and never allows one pod more to be unavailable than specified, regardless of rounding.
func TestPercentagesRoundUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		expected, percent := rapid.IntRange(0, 100_000).Draw(t, "expected"), rapid.IntRange(0, 100).Draw(t, "percent")
		text := strconv.Itoa(percent) + "%"
		least, _ := quota.Floor(withFloor(text, "", int32(expected)))
		if least*100 < expected*percent || (least-1)*100 >= expected*percent && least > 0 || least > expected {
			t.Fatalf("Floor() with minAvailable %s of %d = %d, want it rounded up", text, expected, least)
		}
		floor, _ := quota.Floor(withFloor("", text, int32(expected)))
		if missing := expected - floor; missing*100 < expected*percent || (missing-1)*100 >= expected*percent && missing > 0 || floor < 0 {
			t.Fatalf("Floor() with maxUnavailable %s of %d = %d, want maxUnavailable rounded up", text, expected, floor)
		}
	})
}

func TestDecideDeniesWhileTheFloorIsUnknown(t *testing.T) {
	p := protector(0, 10)
	p.Spec.MinAvailable, p.Spec.MaxUnavailable = nil, amount("3")
	if got := quota.Decide(p, []quota.Removal{removal("c0", "a")})[0]; got.Outcome != quota.DeniedFloorUnknown {
		t.Errorf("Decide() = %s, want %s", got.Outcome, quota.DeniedFloorUnknown)
	}
	if quota.Summarize(p); p.Status.DisruptionsAllowed != 0 {
		t.Errorf("disruptionsAllowed = %d, want 0", p.Status.DisruptionsAllowed)
	}
	expected := int32(10)
	p.Spec.ExpectedReplicas = &expected
	if got := quota.Decide(p, []quota.Removal{removal("c0", "a")})[0]; got.Outcome != quota.Reserved || got.Budget.Floor != 7 {
		t.Errorf("Decide() = %s with %+v, want %s with floor 7", got.Outcome, got.Budget, quota.Reserved)
	}
}

// A sum over only some of the cells would be too low, and so would be the floor.
func TestFloorIsUnknownUntilAllCellsAreCounted(t *testing.T) {
	p := protector(0, 10, 10)
	p.Spec.MinAvailable, p.Spec.MaxUnavailable = nil, amount("3")
	wants := func(cell int, replicas int32) { p.Status.Cells[cell].Aggregation.ExpectedReplicas = &replicas }
	floor := func(want int, known bool, when string) {
		t.Helper()
		if got, is := quota.Floor(p); got != want || is != known {
			t.Errorf("Floor() = %d, %v %s, want %d, %v", got, is, when, want, known)
		}
	}
	floor(0, false, "when no cell has counted")
	wants(0, 10)
	floor(0, false, "when one cell has not counted")
	wants(1, 12)
	floor(19, true, "when all cells have counted")
	p.Status.Cells[1].Aggregation.CountedSpec = "another"
	floor(0, false, "when one cell was counted by another spec")
	p.Status.Cells = p.Status.Cells[:1]
	floor(7, true, "when there is no other cell")
}
