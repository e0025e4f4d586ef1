package reserve

import (
	"runtime"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// A protector that is created again while the lost one of its name is dropped covers its pods from then on.
func TestRecreatedProtectorKeepsItsCoverage(t *testing.T) {
	for range 100 {
		first := memoryProtector("web", 1, 5)
		first.UID, first.Finalizers = "first", []string{v1alpha1.FinalizerHold}
		second := memoryProtector("web", 1, 5)
		second.UID = "second"
		d := newMemoryFixture(t)
		states := d.core.States
		states.markLost(first)
		key := client.ObjectKeyFromObject(first)
		var both sync.WaitGroup
		states.mu.Lock() // both get as far as they can before either can read or change the last state
		both.Go(func() { states.dropUnchanged(key, first) })
		both.Go(func() { states.SetCoverage(second) })
		for range 10 {
			runtime.Gosched()
		}
		states.mu.Unlock()
		both.Wait()
		if got := states.coverage.covering(memoryCell, "default", map[string]string{"app": "web"}); len(got) != 1 {
			t.Fatalf("%v cover the pods, want the protector that was created again", got)
		}
	}
}
