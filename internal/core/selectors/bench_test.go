package selectors_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

const namespace = "shop"

// population is a type of selectors, and the pods that they match. Every pod matches at least one.
type population struct {
	name     string
	selector func(i int) v1alpha1.PodSelector
	pod      func(i int) map[string]string
}

// own: every application has a unique label value, and three values that it shares with many others.
func own() population {
	labels := func(i int) map[string]string {
		return map[string]string{
			"app": fmt.Sprintf("app-%d", i), "tier": fmt.Sprintf("tier-%d", i%3),
			"env": fmt.Sprintf("env-%d", i%5), "team": fmt.Sprintf("team-%d", i%50),
		}
	}
	return population{
		name:     "own",
		selector: func(i int) v1alpha1.PodSelector { return v1alpha1.PodSelector{MatchLabels: labels(i)} },
		pod:      labels,
	}
}

// shared: the combinations of 21 values of four keys. No single value distinguishes an application from 9,000 others.
func shared() population {
	labels := func(i int) map[string]string {
		pod := map[string]string{}
		for _, key := range []string{"app", "env", "team", "tier"} {
			pod[key] = fmt.Sprintf("value-%d", i%21)
			i /= 21
		}
		return pod
	}
	return population{
		name:     "shared",
		selector: func(i int) v1alpha1.PodSelector { return v1alpha1.PodSelector{MatchLabels: labels(i)} },
		pod:      labels,
	}
}

// wide: pods with 20 labels, all of them named by selectors. A selector has about four of them.
func wide() population {
	labels := func(i int) map[string]string {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		pod := map[string]string{}
		for k := range 20 {
			pod[fmt.Sprintf("key-%d", k)] = fmt.Sprintf("value-%d", random.IntN(21))
		}
		return pod
	}
	return population{
		name: "wide",
		selector: func(i int) v1alpha1.PodSelector {
			random := rand.New(rand.NewPCG(2, uint64(i)))
			pod, chosen := labels(i), map[string]string{}
			for _, k := range random.Perm(20)[:4] {
				key := fmt.Sprintf("key-%d", k)
				chosen[key] = pod[key]
			}
			return v1alpha1.PodSelector{MatchLabels: chosen}
		},
		pod: labels,
	}
}

// padded adds labels to each pod up to 20, four of which selectors name.
func padded(of population) population {
	p := of
	p.name = of.name + "+16"
	p.pod = func(i int) map[string]string {
		pod := of.pod(i)
		for k := range 16 {
			pod[fmt.Sprintf("other-%d", k)] = fmt.Sprintf("value-%d", i%7)
		}
		return pod
	}
	return p
}

func fill(tb testing.TB, p population, count int) *selectors.Index[int] {
	tb.Helper()
	x := selectors.New[int]()
	for i := range count {
		s, err := selectors.Compile(p.selector(i))
		if err != nil {
			tb.Fatalf("Compile(%v) = %v", p.selector(i), err)
		}
		x.Set(i, namespace, s)
	}
	return x
}

// BenchmarkQuery queries a random one of 4,096 pods, so that CPU caches help as little as they do in an aggregator.
func BenchmarkQuery(b *testing.B) {
	for _, p := range []population{own(), shared(), padded(own()), padded(shared()), wide()} {
		for _, selectors := range []int{200, 20_000, 200_000} {
			b.Run(fmt.Sprintf("%s/selectors=%d/labels=%d", p.name, selectors, len(p.pod(0))), func(b *testing.B) {
				x := fill(b, p, selectors)
				random := rand.New(rand.NewPCG(3, 4))
				pods := make([]map[string]string, 4096)
				for i := range pods {
					pods[i] = p.pod(random.IntN(selectors))
				}
				found := make([]int, 0, 1024)
				runtime.GC() // not while queries are timed
				b.ReportAllocs()
				matched, i := 0, 0
				for b.Loop() {
					found = x.Query(namespace, pods[i%len(pods)], found[:0])
					matched += len(found)
					i++
				}
				b.ReportMetric(float64(matched)/float64(i), "matches/op")
			})
		}
	}
}

// many: selectors with three keys of 100 values each, out of 1,000.
func many() population {
	return population{
		name: "many",
		selector: func(i int) v1alpha1.PodSelector {
			random := rand.New(rand.NewPCG(5, uint64(i)))
			var s v1alpha1.PodSelector
			for _, key := range []string{"app", "team", "tier"} {
				r := v1alpha1.PodSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn}
				for _, v := range random.Perm(1000)[:100] {
					r.Values = append(r.Values, fmt.Sprintf("value-%d", v))
				}
				s.MatchExpressions = append(s.MatchExpressions, r)
			}
			return s
		},
		pod: func(i int) map[string]string {
			random := rand.New(rand.NewPCG(6, uint64(i)))
			pod := map[string]string{}
			for _, key := range []string{"app", "team", "tier"} {
				pod[key] = fmt.Sprintf("value-%d", random.IntN(1000))
			}
			return pod
		},
	}
}

// without: selectors that require no label to exist, which every query has to check.
func without() population {
	p := own()
	p.name = "without"
	p.selector = func(i int) v1alpha1.PodSelector {
		return v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{fmt.Sprintf("app-%d", i), "web"}},
			{Key: fmt.Sprintf("key-%d", i%50), Operator: metav1.LabelSelectorOpDoesNotExist},
			{Key: []string{"env", "team"}[i%2], Operator: metav1.LabelSelectorOpDoesNotExist},
		}}
	}
	return p
}

// BenchmarkHardQuery queries indexes of the most expensive selectors.
func BenchmarkHardQuery(b *testing.B) {
	for _, p := range []population{many(), without()} {
		for _, selectors := range []int{100, 1000} {
			b.Run(fmt.Sprintf("%s/selectors=%d", p.name, selectors), func(b *testing.B) {
				x := fill(b, p, selectors)
				pods := make([]map[string]string, 64)
				for i := range pods {
					pods[i] = p.pod(i)
				}
				found, i := make([]int, 0, 1024), 0
				b.ReportAllocs()
				for b.Loop() {
					found = x.Query(namespace, pods[i%len(pods)], found[:0])
					i++
				}
			})
		}
	}
}

// BenchmarkSet adds a selector to an index of 20,000 and removes it; for many, to one of 1,000.
func BenchmarkSet(b *testing.B) {
	for _, p := range []population{own(), shared(), wide(), many()} {
		b.Run(p.name, func(b *testing.B) {
			size := 20_000
			if p.name == "many" {
				size = 1000
			}
			x := fill(b, p, size)
			compiled := make([]*selectors.Selector, 1024)
			for i := range compiled {
				compiled[i], _ = selectors.Compile(p.selector(size + i))
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				x.Set(-1, namespace, compiled[i%len(compiled)])
				x.Delete(-1)
				i++
			}
		})
	}
}

// BenchmarkMemory reports the heap size of an index of 200,000 selectors.
func BenchmarkMemory(b *testing.B) {
	for _, p := range []population{own(), shared(), wide()} {
		b.Run(p.name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				x := fill(b, p, 200_000)
				b.ReportMetric(float64(heap()-before)/200_000, "B/selector")
				runtime.KeepAlive(x)
			}
		})
	}
	for _, p := range []population{{name: "5 keys x 10 values", selector: crossed}, {name: "3 keys x 100 values", selector: many().selector}} {
		b.Run(p.name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				x := fill(b, p, 1000)
				b.ReportMetric(float64(heap()-before)/1000, "B/selector")
				runtime.KeepAlive(x)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// crossed returns a selector with five keys of ten values each.
func crossed(i int) v1alpha1.PodSelector {
	var s v1alpha1.PodSelector
	for k := range 5 {
		r := v1alpha1.PodSelectorRequirement{Key: fmt.Sprintf("key-%d", k), Operator: metav1.LabelSelectorOpIn}
		for v := range 10 {
			r.Values = append(r.Values, fmt.Sprintf("value-%d", (i+v*(k+1))%100))
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}
