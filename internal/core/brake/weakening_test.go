package brake

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// specFields returns the paths of the fields of a spec. Those of spread and admissionHistory count one by one.
func specFields(of reflect.Type, prefix string) (paths []string) {
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		kind := field.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		switch kind {
		case reflect.TypeFor[v1alpha1.Spread](), reflect.TypeFor[v1alpha1.AdmissionHistorySpec]():
			paths = append(paths, specFields(kind, name+".")...)
		default:
			paths = append(paths, prefix+name)
		}
	}
	return paths
}

// A new field needs a rule, and a row in the documentation: a change of it can weaken what is protected.
func TestEachFieldHasOneRuleAndOneRowInTheDocumentation(t *testing.T) {
	rules := map[string]string{}
	for _, r := range fieldRules() {
		for _, field := range r.fields {
			if _, twice := rules[field]; twice {
				t.Errorf("%s has two rules, want one", field)
			}
			if rules[field] = "no"; r.weakens != nil {
				rules[field] = "yes"
			}
		}
	}
	fields := specFields(reflect.TypeFor[v1alpha1.PodProtectorSpec](), "")
	for _, field := range fields {
		if _, ok := rules[field]; !ok {
			t.Errorf("spec.%s has no rule in fieldRules()", field)
		}
	}
	if len(rules) != len(fields) {
		t.Errorf("there are rules for %d fields, want %d", len(rules), len(fields))
	}
	if diff := cmp.Diff(rules, documentedRules(t)); diff != "" {
		t.Errorf("docs/concepts/safety.md differs from fieldRules() (-rules +docs):\n%s", diff)
	}
}

// documentedRules returns the first word of the second column of the table, by field.
func documentedRules(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/concepts/safety.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| fields of `spec` | braked |")
	if !found {
		t.Fatal("docs/concepts/safety.md has no table of the fields that the brake honors")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	documented := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \| (yes|no)\b`).FindAllStringSubmatch(table, -1) {
		for _, field := range regexp.MustCompile("`([A-Za-z.]+)`").FindAllStringSubmatch(row[1], -1) {
			documented[field[1]] = row[2]
		}
	}
	return documented
}

// strong returns a protector whose fields all protect as much as possible.
func strong() *v1alpha1.PodProtector {
	return protector("8", func(p *v1alpha1.PodProtector) {
		p.Spec.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict, v1alpha1.OperationRelabel, v1alpha1.OperationUpdate}
		p.Spec.MinReadySeconds, p.Spec.CoreOutage, p.Spec.TargetRemovalPolicy = 600, v1alpha1.CoreOutageDeny, v1alpha1.TargetRemovalRetain
		p.Spec.Spread = &v1alpha1.Spread{
			TopologyKey: "zone", TolerateDomainLoss: true, Enforcement: v1alpha1.SpreadSchedule, MinDomains: ptr.To(int32(3)), MaxSharePercent: ptr.To(int32(40)),
		}
		p.Spec.AdmissionHistory = v1alpha1.AdmissionHistorySpec{MaxConcurrentLag: 1, UpdateTimeoutSeconds: ptr.To(int32(600)), CompactThreshold: ptr.To(int32(5))}
	})
}

func TestWeakeningOfEachField(t *testing.T) {
	const notBraked = ""
	for claim, c := range map[string]struct {
		change func(*v1alpha1.PodProtectorSpec)
		effect string
	}{
		"floor": {func(s *v1alpha1.PodProtectorSpec) { s.MinAvailable = v1alpha1.Pods(4) }, "lower the floor from 8 to 4"},
		"another kind of floor": {func(s *v1alpha1.PodProtectorSpec) { s.MinAvailable, s.MaxUnavailable = nil, v1alpha1.Pods(1) },
			"change the floor from minAvailable 8 to maxUnavailable 1"},
		"selector": {func(s *v1alpha1.PodProtectorSpec) { s.Selector = &v1alpha1.PodSelector{} }, "change selector to all pods"},
		"selector to targetRef": {func(s *v1alpha1.PodProtectorSpec) {
			s.Selector, s.TargetRef = nil, &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
		}, "change selector to the pods of Deployment web of apps/v1"},
		"exemptPodSelector":      {func(s *v1alpha1.PodProtectorSpec) { s.ExemptPodSelector = &v1alpha1.PodSelector{} }, "change exemptPodSelector to all pods"},
		"operations":             {func(s *v1alpha1.PodProtectorSpec) { s.Operations = s.Operations[:3] }, "change operations from [Delete Evict Relabel Update] to [Delete Evict Relabel]"},
		"operations left unset":  {func(s *v1alpha1.PodProtectorSpec) { s.Operations = nil }, "change operations from [Delete Evict Relabel Update] to [Delete Evict Relabel]"},
		"criterion":              {func(s *v1alpha1.PodProtectorSpec) { s.Criterion = v1alpha1.CriterionReady }, "change criterion from Available to Ready"},
		"minReadySeconds":        {func(s *v1alpha1.PodProtectorSpec) { s.MinReadySeconds = 599 }, "lower minReadySeconds from 600 to 599"},
		"minReadySeconds raised": {func(s *v1alpha1.PodProtectorSpec) { s.MinReadySeconds = 601 }, notBraked},
		"spread removed":         {func(s *v1alpha1.PodProtectorSpec) { s.Spread = nil }, "no longer tolerate the loss of a domain of zone"},
		"tolerateDomainLoss":     {func(s *v1alpha1.PodProtectorSpec) { s.Spread.TolerateDomainLoss = false }, "no longer tolerate the loss of a domain of zone"},
		"topologyKey":            {func(s *v1alpha1.PodProtectorSpec) { s.Spread.TopologyKey = "host" }, "no longer tolerate the loss of a domain of zone, only of host"},
		"what spread reports": {func(s *v1alpha1.PodProtectorSpec) {
			s.Spread.Enforcement, s.Spread.MinDomains, s.Spread.MaxSharePercent = v1alpha1.SpreadAudit, nil, nil
		}, notBraked},
		"coreOutage":           {func(s *v1alpha1.PodProtectorSpec) { s.CoreOutage = v1alpha1.CoreOutageLocalShare }, "change coreOutage to LocalShare"},
		"targetRemovalPolicy":  {func(s *v1alpha1.PodProtectorSpec) { s.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease }, "change targetRemovalPolicy to Release"},
		"updateTimeoutSeconds": {func(s *v1alpha1.PodProtectorSpec) { s.AdmissionHistory.UpdateTimeoutSeconds = ptr.To(int32(10)) }, "lower admissionHistory.updateTimeoutSeconds from 600 to 10"},
		"admissionHistory": {func(s *v1alpha1.PodProtectorSpec) {
			s.AdmissionHistory.MaxConcurrentLag, s.AdmissionHistory.CompactThreshold, s.AdmissionHistory.AggregationRateMillis = 0, ptr.To(int32(0)), ptr.To(int32(9))
		}, notBraked},
		"several": {func(s *v1alpha1.PodProtectorSpec) {
			s.MinReadySeconds, s.Spread, s.MinAvailable = 0, nil, v1alpha1.Pods(0)
		},
			"lower the floor from 8 to 0 and lower minReadySeconds from 600 to 0 and no longer tolerate the loss of a domain of zone"},
	} {
		t.Run(claim, func(t *testing.T) {
			before, after := strong(), strong()
			c.change(&after.Spec)
			got := DescribeWeakening(before, after, 0)
			if got.Effect != c.effect || got.IsLarge() != (c.effect != notBraked) {
				t.Errorf("DescribeWeakening() = %q, large %v, want %q", got.Effect, got.IsLarge(), c.effect)
			}
			got.Keep(&after.Spec, &before.Spec)
			if left := DescribeWeakening(before, after, 0); left.IsLarge() {
				t.Errorf("after Keep() the change is still described as %q, want no large decrease", left.Effect)
			}
		})
	}
}

// A held change of one field does not keep the floor low: raising a floor never waits.
func TestKeepLeavesWhatTheChangeDoesNotWeaken(t *testing.T) {
	before, after := strong(), strong()
	after.Spec.MinAvailable, after.Spec.Operations, after.Spec.MinReadySeconds = v1alpha1.Pods(40), nil, 900
	DescribeWeakening(before, after, 0).Keep(&after.Spec, &before.Spec)
	if got := after.Spec.MinAvailable.IntValue(); got != 40 {
		t.Errorf("Keep() leaves a floor of %d, want 40", got)
	}
	if !slices.Equal(after.Spec.Operations, before.Spec.Operations) || after.Spec.MinReadySeconds != 900 {
		t.Errorf("Keep() leaves operations %v and minReadySeconds %d, want %v and 900", after.Spec.Operations, after.Spec.MinReadySeconds, before.Spec.Operations)
	}
}

func TestUpdateTimeoutOfProtectorsWithoutUpdatesIsNotBraked(t *testing.T) {
	before, after := protector("8"), protector("8")
	after.Spec.AdmissionHistory.UpdateTimeoutSeconds = ptr.To(int32(10))
	if got := DescribeWeakening(before, after, 0); got.IsLarge() {
		t.Errorf("DescribeWeakening() = %q, want no large decrease", got.Effect)
	}
}

// A grant permits what has the effect that it was given for, so changes to different pods have different effects, also after they were recorded.
func TestEffectsNameThePods(t *testing.T) {
	long := map[string]string{}
	for i := range 20 {
		long["label-"+strconv.Itoa(i)] = "value"
	}
	longer := maps.Clone(long)
	longer["zone"] = "a"
	changes := map[string]string{}
	for _, labels := range []map[string]string{{"app": "shop"}, {"app": "shop", "tier": "front"}, {}, long, longer} {
		for name, change := range map[string]func(*v1alpha1.PodProtector){
			"selector":          func(p *v1alpha1.PodProtector) { p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: labels} },
			"exemptPodSelector": func(p *v1alpha1.PodProtector) { p.Spec.ExemptPodSelector = &v1alpha1.PodSelector{MatchLabels: labels} },
			"targetRef": func(p *v1alpha1.PodProtector) {
				p.Spec.Selector, p.Spec.TargetRef = nil, &v1alpha1.TargetRef{APIVersion: "v1", Kind: "Shop", Name: strconv.Itoa(len(labels))}
			},
		} {
			before := protector("8")
			effect := DescribeWeakening(before, protector("8", change), 0).Effect
			meta.SetStatusCondition(&before.Status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonQuietPeriod,
				Message: Message(Request{Protector: before, Cause: "Policy web was changed", Effect: effect}, v1alpha1.ReasonQuietPeriod, Limits{}, ""),
			})
			if d, _ := DecreaseOf(before); d.Effect != effect {
				t.Errorf("the record has the effect %q, want %q", d.Effect, effect)
			}
			what := fmt.Sprint(name, len(labels))
			if other, known := changes[effect]; known {
				t.Errorf("the changes to %s and %s both have the effect %q", other, what, effect)
			}
			changes[effect] = what
		}
	}
}
