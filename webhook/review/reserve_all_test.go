package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// faults are the possible outcomes of a status write, and whether the writer sees the outcome. leave makes the callers
// give up.
func faults() map[string]func(write func() error, leave func()) error {
	lost := errors.New("the connection is lost")
	return map[string]func(write func() error, leave func()) error{
		"none":                         nil,
		"conflict":                     func(func() error, func()) error { return conflict() },
		"lost before it is stored":     func(func() error, func()) error { return lost },
		"lost after it is stored":      func(write func() error, _ func()) error { return errors.Join(lost, write()) },
		"stored after the caller left": func(write func() error, leave func()) error { leave(); return write() },
		"abandoned":                    func(_ func() error, leave func()) error { leave(); return context.Canceled },
	}
}

func conflict() error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "podprotectors"}, "a", errors.New("another writer was faster"))
}

// round is a set of concurrent removals, with a fault at one of the writes.
type round struct {
	pods  []int
	fault string
	at    int32
}

func drawRound(t *rapid.T) round {
	return round{
		pods:  rapid.SliceOfN(rapid.IntRange(0, 7), 1, 4).Draw(t, "pods"),
		fault: rapid.SampledFrom([]string{"none", "none", "conflict", "lost before it is stored", "lost after it is stored", "stored after the caller left", "abandoned"}).Draw(t, "fault"),
		at:    rapid.Int32Range(1, 4).Draw(t, "at write"),
	}
}

// run requests the removals of a round and returns the pods whose removal was allowed.
func (d *memoryFixture) run(r round, pods []*corev1.Pod) []*corev1.Pod {
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	var writes atomic.Int32
	fault := faults()[r.fault]
	d.setFault(func(write func() error) error {
		if fault != nil && writes.Add(1) == r.at {
			return fault(write, leave)
		}
		return write()
	})
	var mu sync.Mutex
	var allowed []*corev1.Pod
	var asking sync.WaitGroup
	for _, i := range r.pods {
		asking.Go(func() {
			if d.remove(ctx, pods[i]).Allowed {
				mu.Lock()
				defer mu.Unlock()
				allowed = append(allowed, pods[i])
			}
		})
	}
	asking.Wait()
	d.cores.Wait()
	d.core.WaitForBatches()
	return allowed
}

// For any outcome of writes and callers: a pod whose removal was allowed has a reservation with each protector that
// covers it, and no protector admits more than its budget. Without faults there are no other reservations, even with
// several requests for one pod.
func TestAdmittedRemovalIsReservedWithAllProtectors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var protectors []*v1alpha1.PodProtector
		for i := range rapid.IntRange(1, 3).Draw(t, "protectors") {
			p := memoryProtector(fmt.Sprint("p", i), rapid.Int32Range(0, 5).Draw(t, "floor"), rapid.Int32Range(0, 12).Draw(t, "available"))
			threshold := rapid.SampledFrom([]int32{0, 1, 100}).Draw(t, "compactThreshold")
			p.Spec.AdmissionHistory.CompactThreshold = &threshold
			if i > 0 && rapid.Bool().Draw(t, "covers the front alone") {
				p.Spec.Selector.MatchLabels["tier"] = "front"
				p.Status.Cells[0].Aggregation.CountedSpec = quota.CountedSpec(&p.Spec)
			}
			protectors = append(protectors, p)
		}
		var pods []*corev1.Pod
		for i := range 8 {
			pod := memoryPod(fmt.Sprint("web-", i))
			pod.Labels["tier"] = []string{"front", "back"}[i%2]
			pods = append(pods, pod)
		}
		d := newMemoryFixture(t, protectors...)
		going, exact := map[*corev1.Pod]bool{}, true
		for _, r := range rapid.SliceOfN(rapid.Custom(drawRound), 1, 12).Draw(t, "rounds") {
			may := d.hasBudgetForAll(t, r, protectors)
			allowed := d.run(r, pods)
			for _, pod := range allowed {
				going[pod] = true
			}
			if may && (r.fault == "none" || r.fault == "conflict") && len(allowed) != len(r.pods) {
				t.Fatalf("%d of %d removals admitted with fault %q, want all: the budget is sufficient", len(allowed), len(r.pods), r.fault)
			}
			exact = exact && (r.fault == "none" || r.fault == "conflict")
			for _, p := range protectors {
				d.check(t, p, going, exact)
			}
		}
	})
}

// hasBudgetForAll reports whether there is budget for all removals of a round.
func (d *memoryFixture) hasBudgetForAll(t *rapid.T, r round, protectors []*v1alpha1.PodProtector) bool {
	for _, p := range protectors {
		budget := quota.BudgetOf(d.stored(t, p.Name))
		if budget.Floor > 0 && budget.Left() < len(r.pods) {
			return false
		}
	}
	return true
}

func (d *memoryFixture) check(t *rapid.T, p *v1alpha1.PodProtector, going map[*corev1.Pod]bool, exact bool) {
	stored := d.stored(t, p.Name)
	reserved := map[quota.UIDHash]bool{}
	for r := range quota.Reservations(&stored.Status.Cells[0].AdmissionHistory) {
		reserved[r.Hash] = true
	}
	covered := 0
	for pod := range going {
		if !slices.Contains(d.core.States.Covering("c0", "default", pod.Labels), client.ObjectKeyFromObject(p)) {
			continue
		}
		covered++
		if !reserved[quota.HashUID(pod.UID)] {
			t.Fatalf("pod %s was admitted without a reservation with %s: %+v", pod.Name, p.Name, stored.Status.Cells[0])
		}
	}
	budget := quota.BudgetOf(stored)
	if budget.Floor > 0 && budget.Left() < min(0, budget.Available-budget.Floor) {
		t.Fatalf("%s reserved more than its budget: %+v", p.Name, budget)
	}
	if exact && budget.Reserved != covered {
		t.Fatalf("%s has %d open reservations for %d admitted pods: %+v", p.Name, budget.Reserved, covered, stored.Status.Cells[0])
	}
}

// A removal that the known state of its protector denies causes no batch, which another replica might have to write.
func TestDenialNeedsNoBatch(t *testing.T) {
	d := newMemoryFixture(t, memoryProtector("web", 5, 5))
	d.core.BeforeFlush(func(types.NamespacedName) { t.Error("Review() started a batch") })
	for _, name := range []string{"web-0", "web-1"} {
		if got, want := d.remove(t.Context(), memoryPod(name)).Verdict, removal.VerdictReason(quota.DeniedNoBudget); got != want {
			t.Errorf("removal of %s: verdict %s, want %s", name, got, want)
		}
	}
}
