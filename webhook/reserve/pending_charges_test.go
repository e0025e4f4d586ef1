package reserve

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"k8s.io/apimachinery/pkg/types"
)

// A write that waits for a lossy connection must not delay the charges of other protectors.
func TestPendingChargesAreWrittenSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPendingCharges()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		names := []types.NamespacedName{{Name: "api"}, {Name: "web"}}
		for _, name := range names {
			c.Add(name, PendingCharge{Removal: quota.Removal{Token: name.Name}})
		}
		go c.FlushUntilDone(ctx, func(ctx context.Context, name types.NamespacedName) {
			if name == names[0] {
				<-ctx.Done()
				return
			}
			c.remove(name, name.Name)
		})
		synctest.Wait()
		if got := c.Protectors(); !slices.Equal(got, names[:1]) {
			t.Errorf("charges of %v are left, want those of %v alone", got, names[:1])
		}
	})
}
