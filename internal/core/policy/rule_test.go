package policy

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func atLeast(value string) v1alpha1.PodShare {
	return v1alpha1.PodShare{MinAvailable: ptr.To(intstr.Parse(value))}
}

func atMost(value string) v1alpha1.PodShare {
	return v1alpha1.PodShare{MaxUnavailable: ptr.To(intstr.Parse(value))}
}

func TestFloorRules(t *testing.T) {
	bands := &v1alpha1.FloorRule{Bands: []v1alpha1.FloorBand{
		{UpToReplicas: ptr.To(int32(3)), PodShare: atMost("1")}, {UpToReplicas: ptr.To(int32(10)), PodShare: atLeast("50%")}, {PodShare: atLeast("70%")}}}
	of := func(n int32) *int32 { return &n }
	for claim, c := range map[string]struct {
		rule         *v1alpha1.FloorRule
		replicas     *int32
		wantMin      string
		wantMax      string
		wantErrorHas string
	}{
		"no rule uses the strategy":               {nil, of(10), "6", "", ""},
		"the rule fromStrategy uses the strategy": {&v1alpha1.FloorRule{FromStrategy: &v1alpha1.FromStrategy{}}, of(10), "6", "", ""},
		"a number": {&v1alpha1.FloorRule{PodShare: atLeast("5")}, of(10), "5", "", ""},
		"a number is at most the size of the workload":  {&v1alpha1.FloorRule{PodShare: atLeast("5")}, of(3), "3", "", ""},
		"a percentage rounds up":                        {&v1alpha1.FloorRule{PodShare: atLeast("50%")}, of(5), "3", "", ""},
		"maxUnavailable":                                {&v1alpha1.FloorRule{PodShare: atMost("2")}, of(5), "3", "", ""},
		"maxUnavailable above the size of the workload": {&v1alpha1.FloorRule{PodShare: atMost("7")}, of(5), "0", "", ""},
		"maxUnavailable as a percentage rounds up":      {&v1alpha1.FloorRule{PodShare: atMost("30%")}, of(5), "3", "", ""},
		"the first band includes its end":               {bands, of(3), "2", "", ""},
		"the second band begins after it":               {bands, of(4), "2", "", ""},
		"the second band includes its end":              {bands, of(10), "5", "", ""},
		"the last band has no end":                      {bands, of(11), "8", "", ""},
		"a band of a source that is scaled to 0":        {bands, of(0), "0", "", ""},
		"the strategy of a source of unknown size":      {nil, nil, "", "40%", ""},
		"a share of a source of unknown size":           {&v1alpha1.FloorRule{PodShare: atLeast("50%")}, nil, "50%", "", ""},
		"bands need a known size":                       {bands, nil, "", "", "only the cells know how many pods the source wants"},
		"an empty rule, which the API server rejects":   {&v1alpha1.FloorRule{}, of(3), "", "", "is empty"},
	} {
		t.Run(claim, func(t *testing.T) {
			spec := &v1alpha1.PodProtectorSpec{}
			err := setFloor(spec, c.rule, &Workload{Replicas: c.replicas, Strategy: Strategy{MinAvailable: 6, MaxUnavailable: intstr.FromString("40%")}})
			if c.wantErrorHas != "" {
				if err == nil || !strings.Contains(err.Error(), c.wantErrorHas) {
					t.Errorf("error = %v, want it to contain %q", err, c.wantErrorHas)
				}
				return
			}
			if err != nil || text(spec.MinAvailable) != c.wantMin || text(spec.MaxUnavailable) != c.wantMax {
				t.Errorf("minAvailable %q, maxUnavailable %q, %v; want %q, %q", text(spec.MinAvailable), text(spec.MaxUnavailable), err, c.wantMin, c.wantMax)
			}
		})
	}
}

func text(value *intstr.IntOrString) string {
	if value == nil {
		return ""
	}
	return value.String()
}

// The floor in the spec must be the one that the webhook would compute from the same rule and the expected replicas, except that it
// never exceeds the expected replicas.
func TestFloorsMatchTheWebhook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := rapid.Int32Range(0, 3000).Draw(t, "replicas")
		value := rapid.OneOf(rapid.Map(rapid.IntRange(0, 3500), intstr.FromInt),
			rapid.Map(rapid.IntRange(0, 100), func(n int) intstr.IntOrString { return intstr.FromString(strconv.Itoa(n) + "%") })).Draw(t, "value")
		share := v1alpha1.PodShare{MinAvailable: &value}
		if rapid.Bool().Draw(t, "unavailable") {
			share = v1alpha1.PodShare{MaxUnavailable: &value}
		}
		spec := &v1alpha1.PodProtectorSpec{}
		if err := setFloorFromShare(spec, share, &replicas); err != nil {
			t.Fatal(err)
		}
		want, known := quota.Floor(&v1alpha1.PodProtector{Spec: v1alpha1.PodProtectorSpec{
			MinAvailable: share.MinAvailable, MaxUnavailable: share.MaxUnavailable, ExpectedReplicas: &replicas}})
		if want = min(want, int(replicas)); !known || int(spec.MinAvailable.IntVal) != want {
			t.Fatalf("floor of %+v of %d = %s, want %d as in the webhook", share, replicas, spec.MinAvailable, want)
		}
	})
}

func TestOriginRoundTrip(t *testing.T) {
	origin := Origin{Policy: "ProtectionPolicy/web", Record: Record{TemplatePath: "spec.template", ProtectionRule: v1alpha1.ProtectionRule{
		Floor:     &v1alpha1.FloorRule{Bands: []v1alpha1.FloorBand{{PodShare: atLeast("70%")}}},
		Criterion: v1alpha1.CriterionReady, TargetRemovalPolicy: v1alpha1.TargetRemovalRelease}}}
	p := &v1alpha1.PodProtector{}
	var err error
	if p.Annotations, err = origin.annotations(); err != nil {
		t.Fatal(err)
	}
	got, err := OriginOf(p)
	if diff := cmp.Diff(origin, got); diff != "" || err != nil || !HasOrigin(p, origin) {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	p.Annotations[v1alpha1.AnnotationPolicyRule] = "{"
	if got, err := OriginOf(p); err == nil || got.Policy != origin.Policy || HasOrigin(p, origin) {
		t.Errorf("OriginOf() of a malformed record = %+v, %v, want the policy and an error", got, err)
	}
}
