package batch_test

import (
	"context"
	"testing"
	"testing/synctest"
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
