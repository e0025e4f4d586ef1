package batch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/breakwater-k8s/breakwater/internal/batch"
)

func TestWaitReturnsWhenNoBatchRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ctx := newHarness(t), t.Context()
		d.Wait() // nothing to wait for
		ctx, leave := context.WithCancel(ctx)
		d.call(ctx, "web", 1)
		d.call(ctx, "api", 2)
		web, api := d.waitForBatch(), d.waitForBatch()
		if web.key != "web" {
			web, api = api, web
		}
		d.call(ctx, "web", 3)
		drained := make(chan struct{})
		go func() {
			d.Wait()
			close(drained)
		}()
		waits := func(why string) {
			t.Helper()
			synctest.Wait()
			select {
			case <-drained:
				t.Errorf("Wait returned although %s", why)
			default:
			}
		}
		waits("two batches are running")
		web.complete <- timesTen
		api.complete <- timesTen
		waits("the next batch is running")
		leave()
		waits("a batch without waiters has not completed")
		d.waitForBatch().complete <- timesTen
		<-drained
	})
}

func TestCloseEndsRunningAndQueuedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ctx := newHarness(t), t.Context()
		one := d.call(ctx, "web", 1)
		first := d.waitForBatch()
		two := d.call(ctx, "web", 2)
		d.Close()
		d.checkResult("a queued caller", two, callResult{Err: batch.ErrClosed})
		d.checkResult("a call after Close", d.call(ctx, "api", 3), callResult{Err: batch.ErrClosed})
		d.checkWaiting("a caller of the running batch", one)
		if got := context.Cause(first.ctx); !errors.Is(got, batch.ErrClosed) {
			t.Errorf("cause of the batch context = %v, want %v", got, batch.ErrClosed)
		}
		first.complete <- timesTen
		d.checkResult("a caller of the running batch", one, callResult{Out: 10})
		d.checkNoBatch()
		d.Wait()
		d.Close()
	})
}
