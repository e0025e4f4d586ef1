package guard

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
	"github.com/breakwater-k8s/breakwater/internal/sharding/slot"
)

const guardCell = "c0"

func anyGuardLabels() *rapid.Generator[map[string]string] {
	return rapid.MapOfN(rapid.SampledFrom([]string{"app", "tier", "example.com/zone"}), rapid.SampledFrom([]string{"", "a", "b"}), 0, 3)
}

// anyGuardSelector returns a selector that is malformed in some cases.
func anyGuardSelector() *rapid.Generator[v1alpha1.PodSelector] {
	return rapid.Custom(func(t *rapid.T) v1alpha1.PodSelector {
		s := v1alpha1.PodSelector{MatchLabels: anyGuardLabels().Draw(t, "labels")}
		for range rapid.IntRange(0, 3).Draw(t, "expressions") {
			e := v1alpha1.PodSelectorRequirement{
				Key:      rapid.SampledFrom([]string{"app", "app", "tier", "example.com/zone", "not a key"}).Draw(t, "key"),
				Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{"In", "NotIn", "Exists", "DoesNotExist"}).Draw(t, "operator"),
			}
			if strings.HasSuffix(string(e.Operator), "In") {
				e.Values = rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b"}), 0, 3).Draw(t, "values")
			}
			s.MatchExpressions = append(s.MatchExpressions, e)
		}
		return s
	})
}

// anyGuardProtector returns a protector of a selector or of a workload that the aggregator has resolved.
func anyGuardProtector(i int) *rapid.Generator[*v1alpha1.PodProtector] {
	return rapid.Custom(func(t *rapid.T) *v1alpha1.PodProtector {
		p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{
			Namespace: rapid.SampledFrom([]string{"shop", "bank"}).Draw(t, "namespace"), Name: fmt.Sprint("p", i), UID: types.UID(fmt.Sprint("u", i)), Generation: 1,
		}}
		if rapid.Bool().Draw(t, "selector") {
			s := anyGuardSelector().Draw(t, "selects")
			p.Spec.Selector = &s
		}
		if rapid.Bool().Draw(t, "exempts") {
			s := anyGuardSelector().Draw(t, "exempt")
			p.Spec.ExemptPodSelector = &s
		}
		if p.Spec.Selector == nil {
			p.Spec.TargetRef = &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
			resolve(p, rapid.SampledFrom([]string{"app=a", "app in (a,b),tier!=a", "!app", "", "app=a,app=b", "no selector ((", "gone"}).Draw(t, "target"))
		}
		return p
	})
}

// resolve sets the selector of the workload that a protector names, as counted last; gone means that it does not exist.
func resolve(p *v1alpha1.PodProtector, selector string) {
	counts := v1alpha1.Aggregation{CountedSpec: quota.CountedSpec(&p.Spec)}
	if selector != "gone" {
		counts.Target = &v1alpha1.Target{Selector: selector}
	}
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: guardCell, Aggregation: counts}}
}

// published returns the index that node guards make of the lists of all slots.
func (x *guardIndex) published(t testing.TB) podhold.Index {
	t.Helper()
	var all []podhold.Protected
	for n := range slot.Count {
		for _, part := range x.parts(n) {
			var some []podhold.Protected
			if err := json.Unmarshal([]byte(part), &some); err != nil {
				t.Fatalf("part of slot %d: %v", n, err)
			}
			all = append(all, some...)
		}
	}
	index, err := podhold.NewIndex(all)
	if err != nil {
		t.Fatalf("NewIndex() = %v", err)
	}
	return index
}

// A node guard protects exactly the pods that the webhook protects in the cell.
func TestGuardIndexCoversExactlyTheProtectedPods(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		spec := v1alpha1.CellSpec{Namespaces: rapid.SampledFrom([][]string{nil, nil, {"shop"}}).Draw(r, "namespaces")}
		if rapid.Bool().Draw(r, "scoped") {
			s := anyGuardSelector().Draw(r, "scope")
			spec.PodSelector = &s
		}
		cell, _ := scope.Of(&spec) // of an invalid selector: no pods
		x := &guardIndex{cell: guardCell, scope: cell}
		var protectors []*v1alpha1.PodProtector
		for range rapid.IntRange(1, 3).Draw(r, "rounds") { // protectors change, end and are recreated
			protectors = nil
			for i := range rapid.IntRange(0, 4).Draw(r, "protectors") {
				p := anyGuardProtector(i).Draw(r, "protector")
				p.Generation = int64(x.round)
				protectors = append(protectors, p)
			}
			x.update(slot.All(), protectors, nil)
		}
		index := x.published(t)
		for range 20 {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: rapid.SampledFrom([]string{"shop", "bank"}).Draw(r, "of"), Labels: anyGuardLabels().Draw(r, "pod"),
			}}
			want := false
			for _, p := range protectors {
				want = want || p.Namespace == pod.Namespace && cell.Has(pod.Namespace, pod.Labels) && removal.CoverageIn(p, guardCell).Covers(pod.Labels)
			}
			if got := index.Covers(pod); got != want {
				r.Fatalf("Covers(%s %v) = %v, want %v; published %v", pod.Namespace, pod.Labels, got, want, x.parts(slot.Of(pod.Namespace)))
			}
		}
	})
}

func selecting(name, app string) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": app}}
	return p
}

func TestGuardIndexKeepsLastWorkloadWhileItIsUnknown(t *testing.T) {
	x := &guardIndex{cell: guardCell}
	p := selecting("web", "web")
	p.Spec.Selector, p.Spec.TargetRef = nil, &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Labels: map[string]string{"app": "web"}}}
	for _, step := range []struct {
		claim  string
		change func()
		want   bool
	}{
		{"before it was resolved", func() {}, false},
		{"when it is resolved", func() { resolve(p, "app=web") }, true},
		{"while a changed spec is not counted", func() { p.Generation, p.Spec.TargetRef.Name = 2, "api" }, true},
		{"when the new one is resolved", func() { resolve(p, "app=api") }, false},
	} {
		step.change()
		x.update(slot.All(), []*v1alpha1.PodProtector{p}, nil)
		if got := x.published(t).Covers(pod); got != step.want {
			t.Errorf("%s: covered %v, want %v", step.claim, got, step.want)
		}
	}
}

// Counts change protectors every second. They change nothing here.
func TestGuardIndexChangesOnlyWithCoverage(t *testing.T) {
	x, p, n := &guardIndex{cell: guardCell}, selecting("web", "web"), slot.Of("shop")
	changes := func() bool {
		x.changed = slot.Set{}
		x.update(slot.All(), []*v1alpha1.PodProtector{p}, nil)
		return x.changed.Has(n)
	}
	if !changes() {
		t.Error("a new protector changes nothing, want its slot changed")
	}
	p.Status.DisruptionsAllowed++
	p.ResourceVersion = "2"
	if changes() {
		t.Error("a count changed the slot")
	}
	if p.Generation++; changes() {
		t.Error("a spec with the same selector changed the slot")
	}
	p.Generation++
	if p.Spec.Selector.MatchLabels["app"] = "api"; !changes() {
		t.Error("another selector did not change the slot")
	}
}

func TestGuardIndexSplitsLargeLists(t *testing.T) {
	x := &guardIndex{cell: guardCell}
	var protectors []*v1alpha1.PodProtector
	for i := range 9000 {
		protectors = append(protectors, selecting(fmt.Sprintf("p%05d", i), strings.Repeat("a", 60)))
	}
	x.update(slot.All(), protectors, nil)
	parts, names := x.parts(slot.Of("shop")), []string{}
	for _, part := range parts {
		if len(part) > maxPartBytes+len(part)/100 {
			t.Errorf("a part has %d bytes, want at most %d", len(part), maxPartBytes)
		}
		var some []podhold.Protected
		if err := json.Unmarshal([]byte(part), &some); err != nil {
			t.Fatal(err)
		}
		for _, p := range some {
			names = append(names, p.Name)
		}
	}
	var want []string
	for _, p := range protectors {
		want = append(want, p.Name)
	}
	if diff := cmp.Diff(want, names); diff != "" || len(parts) < 2 {
		t.Errorf("%d parts with protectors (-want +got):\n%s", len(parts), diff)
	}
}
