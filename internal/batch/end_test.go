package batch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/breakwater-k8s/breakwater/internal/batch"
)

func TestWaitDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ctx := open(t), t.Context()
		d.Wait() // nothing to wait for
		ctx, leave := context.WithCancel(ctx)
		d.call(ctx, "web", 1)
		d.call(ctx, "api", 2)
		web, api := d.flight(), d.flight()
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
				t.Errorf("Wait has returned, and %s", why)
			default:
			}
		}
		waits("two flights are under way")
		web.land <- tenfold
		api.land <- tenfold
		waits("one flight has followed")
		leave()
		waits("a flight that all callers left has not landed")
		d.flight().land <- tenfold
		<-drained
	})
}

func TestCloseCutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ctx := open(t), t.Context()
		one := d.call(ctx, "web", 1)
		first := d.flight()
		two := d.call(ctx, "web", 2)
		d.Close()
		d.got("who waits for a flight", two, answer{Err: batch.ErrClosed})
		d.got("who comes after Close", d.call(ctx, "api", 3), answer{Err: batch.ErrClosed})
		d.waits("who is in flight", one)
		if got := context.Cause(first.ctx); !errors.Is(got, batch.ErrClosed) {
			t.Errorf("the flight's context has cause %v, want %v", got, batch.ErrClosed)
		}
		first.land <- tenfold
		d.got("who is in flight", one, answer{Out: 10})
		d.noFlight()
		d.Wait()
		d.Close()
	})
}
