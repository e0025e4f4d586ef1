package sharding

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// sink returns a client that calls write for every write.
func sink(write func(context.Context) error) client.Client {
	return interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
			return write(ctx)
		},
		Update: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.UpdateOption) error {
			return write(ctx)
		},
		Delete: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.DeleteOption) error {
			return write(ctx)
		},
		Patch: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ client.Patch, _ ...client.PatchOption) error {
			return write(ctx)
		},
		Apply: func(ctx context.Context, _ client.WithWatch, _ runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			return write(ctx)
		},
		DeleteAllOf: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.DeleteAllOfOption) error {
			return write(ctx)
		},
		SubResourceCreate: func(ctx context.Context, _ client.Client, _ string, _, _ client.Object, _ ...client.SubResourceCreateOption) error {
			return write(ctx)
		},
		SubResourceUpdate: func(ctx context.Context, _ client.Client, _ string, _ client.Object, _ ...client.SubResourceUpdateOption) error {
			return write(ctx)
		},
		SubResourcePatch: func(ctx context.Context, _ client.Client, _ string, _ client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			return write(ctx)
		},
		SubResourceApply: func(ctx context.Context, _ client.Client, _ string, _ runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
			return write(ctx)
		},
	})
}

// allWrites returns all kinds of writes.
func allWrites(c client.Client) map[string]func(context.Context) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}}
	patch, apply := client.RawPatch(types.MergePatchType, []byte("{}")), applycorev1.Pod("p", "n")
	return map[string]func(context.Context) error{
		"create":               func(ctx context.Context) error { return c.Create(ctx, pod) },
		"update":               func(ctx context.Context) error { return c.Update(ctx, pod) },
		"patch":                func(ctx context.Context) error { return c.Patch(ctx, pod, patch) },
		"apply":                func(ctx context.Context) error { return c.Apply(ctx, apply) },
		"delete":               func(ctx context.Context) error { return c.Delete(ctx, pod) },
		"delete all":           func(ctx context.Context) error { return c.DeleteAllOf(ctx, pod) },
		"create a status":      func(ctx context.Context) error { return c.Status().Create(ctx, pod, pod) },
		"update a status":      func(ctx context.Context) error { return c.Status().Update(ctx, pod) },
		"patch a status":       func(ctx context.Context) error { return c.Status().Patch(ctx, pod, patch) },
		"apply a status":       func(ctx context.Context) error { return c.Status().Apply(ctx, apply) },
		"create a subresource": func(ctx context.Context) error { return c.SubResource("eviction").Create(ctx, pod, pod) },
		"update a subresource": func(ctx context.Context) error { return c.SubResource("scale").Update(ctx, pod) },
		"patch a subresource":  func(ctx context.Context) error { return c.SubResource("scale").Patch(ctx, pod, patch) },
		"apply a subresource":  func(ctx context.Context) error { return c.SubResource("scale").Apply(ctx, apply) },
	}
}

func newShardOf(duration time.Duration) *Shard {
	return &Shard{hold: newLeaseHold(duration), work: newWork()}
}

func TestWritesNeedTheLease(t *testing.T) {
	for kind := range allWrites(nil) {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, written := newShardOf(leaseDuration), 0
				write := allWrites(s.Client(sink(func(context.Context) error { written++; return nil })))[kind]
				if err := write(t.Context()); !errors.Is(err, ErrNotHeld) || written != 0 {
					t.Errorf("before the shard has joined: %v, written %d times", err, written)
				}
				if err := s.hold.recordRenewal(time.Now()); err != nil {
					t.Fatal(err)
				}
				sleep(leaseDuration - time.Nanosecond)
				if err := write(t.Context()); err != nil || written != 1 {
					t.Errorf("while the Lease is held: %v, written %d times", err, written)
				}
				sleep(time.Nanosecond)
				if err := write(t.Context()); !errors.Is(err, ErrNotHeld) || written != 1 {
					t.Errorf("after the Lease was lost: %v, written %d times", err, written)
				}
			})
		})
	}
}

func TestWriteContextEndsWithTheLease(t *testing.T) {
	for claim, of := range map[string]struct {
		// own creates the caller's context, which ends 5 seconds after the write began, if at all.
		own     func(context.Context) (context.Context, context.CancelFunc)
		lasts   time.Duration
		isError error
		// unknown means that the shard must not release its Lease for a while.
		unknown bool
	}{
		"an unanswered write ends with the Lease": {
			context.WithCancel, leaseDuration, ErrNotHeld, true,
		},
		"a write with a deadline ends at the deadline": {
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 5*time.Second)
			},
			5 * time.Second, context.DeadlineExceeded, true,
		},
		"a write whose context was canceled continues": {
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(5*time.Second, cancel)
				return ctx, cancel
			}, 8 * time.Second, nil, false,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShardOf(leaseDuration)
				if err := s.hold.recordRenewal(time.Now()); err != nil {
					t.Fatal(err)
				}
				c := s.Client(sink(func(ctx context.Context) error {
					answered := time.Hour
					if of.isError == nil {
						answered = of.lasts
					}
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(answered):
						return nil
					}
				}))
				ctx, cancel := of.own(t.Context())
				defer cancel()
				begun := time.Now()
				if err := c.Create(ctx, &corev1.Pod{}); !errors.Is(err, of.isError) {
					t.Errorf("it ended with %v, want %v", err, of.isError)
				}
				if took := time.Since(begun); took != of.lasts {
					t.Errorf("it took %s, want %s", took, of.lasts)
				}
				if err := s.work.waitIdle(t.Context(), leaseDuration); (err != nil) != of.unknown {
					t.Errorf("may still take effect: %v, want %t", err, of.unknown)
				}
			})
		})
	}
}

func TestFailedWriteKeepsTheLeaseUnlessItWasRefused(t *testing.T) {
	pods := corev1.Resource("pods")
	broken := func(err error) error { return &url.Error{Op: "Put", URL: "https://core.example/api/v1/pods", Err: err} }
	for claim, of := range map[string]struct {
		err     error
		unknown bool
	}{
		"a broken connection":         {broken(io.ErrUnexpectedEOF), true},
		"a reset connection":          {broken(&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}), true},
		"a refused connection":        {broken(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), false},
		"a timeout of the API server": {apierrors.NewTimeoutError("the request did not complete in time", 0), true},
		"a timeout of its storage":    {apierrors.NewServerTimeout(pods, "update", 1), true},
		"an internal error":           {apierrors.NewInternalError(errors.New("etcdserver: request timed out")), true},
		"a proxy without an answer":   {apierrors.NewGenericServerResponse(http.StatusBadGateway, "put", pods, "p", "", 0, true), true},
		"a proxy that timed out":      {apierrors.NewGenericServerResponse(http.StatusRequestTimeout, "put", pods, "p", "", 0, true), true},
		"a conflict":                  {fmt.Errorf("update: %w", apierrors.NewConflict(pods, "p", errors.New("it was changed"))), false},
		"a denial":                    {apierrors.NewForbidden(pods, "p", errors.New("denied")), false},
		"too many requests":           {apierrors.NewTooManyRequests("later", 1), false},
	} {
		t.Run(claim, func(t *testing.T) {
			s := newShardOf(time.Hour)
			if err := s.hold.recordRenewal(time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := s.Client(sink(func(context.Context) error { return of.err })).Update(t.Context(), &corev1.Pod{}); !errors.Is(err, of.err) {
				t.Fatalf("error %v, want %v", err, of.err)
			}
			if err := s.work.waitIdle(t.Context(), time.Hour); (err != nil) != of.unknown {
				t.Errorf("may still take effect: %v, want %t", err, of.unknown)
			}
		})
	}
}

func TestWriteWithEndedContextIsNotSent(t *testing.T) {
	s := newShardOf(time.Hour)
	if err := s.hold.recordRenewal(time.Now()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Client(sink(func(context.Context) error { t.Error("write was sent, want an error"); return nil })).Create(ctx, &corev1.Pod{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it says %v", err)
	}
}
