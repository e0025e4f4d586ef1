package selectors_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

func query(x *selectors.Index[int], in string, pod map[string]string) []int {
	found := x.Query(in, pod, nil)
	slices.Sort(found)
	return found
}

func TestQuery(t *testing.T) {
	x := selectors.New[int]()
	x.Set(1, namespace, compile(t, v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}))
	x.Set(2, namespace, compile(t, expressions(in("app", "web", "api"), doesNotExist("canary"))))
	x.Set(3, namespace, compile(t, expressions(exists("tier"))))
	x.Set(4, namespace, compile(t, expressions(notIn("tier", "fe"))))
	x.Set(5, namespace, selectors.Everything())
	x.Set(6, namespace, compile(t, expressions(in("app", "web"), in("app", "api"))))
	x.Set(7, "other", selectors.Everything())

	for claim, tc := range map[string]struct {
		namespace string
		pod       map[string]string
		want      []int
	}{
		"a pod without labels matches selectors that require none": {namespace, nil, []int{4, 5}},
		"a value finds the selectors that list it":                 {namespace, map[string]string{"app": "web"}, []int{1, 2, 4, 5}},
		"a value that no selector lists finds none":                {namespace, map[string]string{"app": "db"}, []int{4, 5}},
		"DoesNotExist beside In is checked":                        {namespace, map[string]string{"app": "api", "canary": "x"}, []int{4, 5}},
		"Exists matches a value that no selector lists":            {namespace, map[string]string{"tier": "be"}, []int{3, 4, 5}},
		"NotIn is checked":                                         {namespace, map[string]string{"tier": "fe"}, []int{3, 5}},
		"another namespace has its own selectors":                  {"other", map[string]string{"app": "web"}, []int{7}},
		"a namespace without selectors has no match":               {"third", map[string]string{"app": "web"}, nil},
	} {
		t.Run(claim, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, query(x, tc.namespace, tc.pod)); diff != "" {
				t.Errorf("Query(%s, %v) (-want +got):\n%s", tc.namespace, tc.pod, diff)
			}
		})
	}
	if got := x.Len(); got != 7 {
		t.Errorf("Len() = %d, want 7", got)
	}
}

func TestSetReplaces(t *testing.T) {
	x := selectors.New[int]()
	x.Set(1, namespace, selectors.Everything())
	x.Set(1, "other", compile(t, expressions(in("app", "web"))))
	if got := query(x, namespace, nil); got != nil {
		t.Errorf("Query() in the old namespace = %v, want none", got)
	}
	if diff := cmp.Diff([]int{1}, query(x, "other", map[string]string{"app": "web"})); diff != "" {
		t.Errorf("Query() of the new selector (-want +got):\n%s", diff)
	}
	if got := x.Len(); got != 1 {
		t.Errorf("Len() = %d, want 1", got)
	}
	x.Delete(2)
	x.Delete(1)
	x.Delete(1)
	if got := x.Len(); got != 0 {
		t.Errorf("Len() = %d after Delete, want 0", got)
	}
}

func TestQueryAppends(t *testing.T) {
	x := selectors.New[int]()
	x.Set(1, namespace, selectors.Everything())
	if diff := cmp.Diff([]int{9, 1}, x.Query(namespace, nil, []int{9})); diff != "" {
		t.Errorf("Query() (-want +got):\n%s", diff)
	}
}

// TestQueryMatchesLinearScan changes an index at random and compares each answer with a scan of all selectors, as Kubernetes compiles
// them.
func TestQueryMatchesLinearScan(t *testing.T) { queryIsALinearScan(t, selectors.New[int]) }

// Values with equal hashes are distinguished by their text.
func TestQueryMatchesLinearScanWithHashCollisions(t *testing.T) {
	queryIsALinearScan(t, func() *selectors.Index[int] {
		return selectors.NewWithHash[int](func(string) uint64 { return 7 })
	})
}

func queryIsALinearScan(t *testing.T, newIndex func() *selectors.Index[int]) {
	type member struct {
		namespace string
		selector  labels.Selector
	}
	namespaces := rapid.SampledFrom([]string{"one", "two"})
	rapid.Check(t, func(t *rapid.T) {
		x, all := newIndex(), map[int]member{}
		set := func(t *rapid.T) {
			id, in := rapid.IntRange(0, 199).Draw(t, "id"), namespaces.Draw(t, "namespace")
			// Add many at a time, so that nodes grow branches, and of one kind, so that branches grow branches.
			s := anySelector().Draw(t, "selector")
			for i := range rapid.IntRange(1, 40).Draw(t, "times") {
				if i%4 == 3 {
					s = anySelector().Draw(t, "another selector")
				}
				x.Set(id+i, in, compileAny(t, s))
				all[id+i] = member{in, kubernetes(t, s)}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": set,
			"delete": func(t *rapid.T) {
				first := rapid.IntRange(0, 239).Draw(t, "first")
				for i := range rapid.IntRange(1, 100).Draw(t, "number") {
					x.Delete(first + i)
					delete(all, first+i)
				}
			},
			"": func(t *rapid.T) {
				if x.Len() != len(all) {
					t.Fatalf("Len() = %d, want %d", x.Len(), len(all))
				}
				in, pod := namespaces.Draw(t, "namespace"), anyPod().Draw(t, "pod")
				var want []int
				for id, m := range all {
					if m.namespace == in && m.selector.Matches(labels.Set(pod)) {
						want = append(want, id)
					}
				}
				slices.Sort(want)
				if diff := cmp.Diff(want, query(x, in, pod)); diff != "" {
					t.Fatalf("Query(%s, %v) (-scan +index):\n%s", in, pod, diff)
				}
			},
		})
	})
}

func TestQueryDoesNotAllocate(t *testing.T) {
	for _, p := range []population{own(), shared(), padded(own()), wide()} {
		x, pod := fill(t, p, 20_000), p.pod(12_345)
		found := x.Query(namespace, pod, make([]int, 0, 64))
		if !slices.Contains(found, 12_345) {
			t.Errorf("%s: Query(%v) = %v, want 12345 in it", p.name, pod, found)
		}
		if got := testing.AllocsPerRun(100, func() { found = x.Query(namespace, pod, found[:0]) }); got != 0 {
			t.Errorf("%s: Query() makes %v allocations, want 0", p.name, got)
		}
	}
}

func TestConcurrentQueries(t *testing.T) {
	p := shared()
	x := fill(t, p, 1000)
	var queries sync.WaitGroup
	for g := range 4 {
		queries.Go(func() {
			for i := g; i < 1000; i += 7 {
				if found := x.Query(namespace, p.pod(i), nil); !slices.Contains(found, i) {
					t.Errorf("Query(%v) = %v, want %d in it", p.pod(i), found, i)
				}
			}
		})
	}
	queries.Wait()
}

func ExampleIndex() {
	web, err := selectors.Compile(v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	x := selectors.New[string]()
	x.Set("shop/web", "shop", web)
	x.Set("shop/all", "shop", selectors.Everything())
	fmt.Println(len(x.Query("shop", map[string]string{"app": "web"}, nil)), x.Query("shop", nil, nil))
	// Output: 2 [shop/all]
}
