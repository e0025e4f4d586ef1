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
	for range 400 {
		first := memoryProtector("web", 1, 5)
		first.UID, first.Finalizers = "first", []string{v1alpha1.FinalizerHold}
		second := memoryProtector("web", 1, 5)
		second.UID = "second"
		d := newMemoryFixture(t)
		d.core.States.markLost(first)
		key := client.ObjectKeyFromObject(first)
		var both sync.WaitGroup
		both.Go(func() { d.core.States.dropUnchanged(key, first) })
		both.Go(func() {
			runtime.Gosched()
			d.core.States.SetCoverage(second)
		})
		both.Wait()
		if got := d.core.States.coverage.covering(memoryCell, "default", map[string]string{"app": "web"}); len(got) != 1 {
			t.Fatalf("%v cover the pods, want the protector that was created again", got)
		}
	}
}
