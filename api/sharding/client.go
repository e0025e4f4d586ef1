package sharding

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client wraps a client so that its writes fail with ErrNotHeld while the shard does not hold its Lease. The deadline of a write is the
// expiry of the Lease when the write is sent. Canceling the context does not abort a write that was sent; only its deadline does. So
// a shard that stops knows whether a write can still take effect. If none can, it releases its Lease.
//
// The client of a manager from Configure or NewManager is already wrapped.
func (s *Shard) Client(inner client.Client) client.Client {
	if already, ok := inner.(*fenced); ok && already.hold == s.hold {
		return inner
	}
	return &fenced{Client: inner, fence: fence{hold: s.hold, work: s.work}}
}

// fence lets writes pass while the Lease is held.
type fence struct {
	hold *leaseHold
	work *work
}

func (f fence) do(ctx context.Context, write func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// Register the write before checking the hold. A shard that releases its Lease does it in the opposite order: it ends the
	// hold, then checks for writes.
	ended := f.work.write()
	if err := f.hold.err(); err != nil {
		ended(false)
		return err
	}
	deadline := f.hold.expiry()
	if own, ok := ctx.Deadline(); ok && own.Before(deadline) {
		deadline = own
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	err := write(ctx)
	ended(mayTakeEffect(err) || err != nil && ctx.Err() != nil)
	if err == nil {
		return nil
	}
	if lost := f.hold.Lost(); lost != nil {
		return fmt.Errorf("%w: %w: %w", ErrNotHeld, lost, err)
	}
	return err
}

// mayTakeEffect reports whether a write that failed with this error may have been stored, or may be stored later. That is excluded only
// if no connection was made, or if the API server refused the write. An API server or a proxy that answers with a timeout or another 5xx
// status may have passed the write on: to etcd, for example. An ErrNotHeld from a connection may belong to a later write.
func mayTakeEffect(err error) bool {
	if err == nil || utilnet.IsConnectionRefused(err) {
		return false
	}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return true
	}
	code := answer.Status().Code
	return code == http.StatusRequestTimeout || code < http.StatusBadRequest || code >= http.StatusInternalServerError
}

type fenced struct {
	client.Client
	fence
}

func (f *fenced) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return f.do(ctx, func(ctx context.Context) error { return f.Client.Create(ctx, object, options...) })
}

func (f *fenced) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return f.do(ctx, func(ctx context.Context) error { return f.Client.Update(ctx, object, options...) })
}

func (f *fenced) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return f.do(ctx, func(ctx context.Context) error { return f.Client.Patch(ctx, object, patch, options...) })
}

func (f *fenced) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	return f.do(ctx, func(ctx context.Context) error { return f.Client.Apply(ctx, object, options...) })
}

func (f *fenced) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	return f.do(ctx, func(ctx context.Context) error { return f.Client.Delete(ctx, object, options...) })
}

func (f *fenced) DeleteAllOf(ctx context.Context, object client.Object, options ...client.DeleteAllOfOption) error {
	return f.do(ctx, func(ctx context.Context) error { return f.Client.DeleteAllOf(ctx, object, options...) })
}

func (f *fenced) Status() client.SubResourceWriter { return f.SubResource("status") }

func (f *fenced) SubResource(name string) client.SubResourceClient {
	return &fencedSubResource{SubResourceClient: f.Client.SubResource(name), fence: f.fence}
}

type fencedSubResource struct {
	client.SubResourceClient
	fence
}

func (f *fencedSubResource) Create(ctx context.Context, object, sub client.Object, options ...client.SubResourceCreateOption) error {
	return f.do(ctx, func(ctx context.Context) error { return f.SubResourceClient.Create(ctx, object, sub, options...) })
}

func (f *fencedSubResource) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	return f.do(ctx, func(ctx context.Context) error { return f.SubResourceClient.Update(ctx, object, options...) })
}

func (f *fencedSubResource) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	return f.do(ctx, func(ctx context.Context) error { return f.SubResourceClient.Patch(ctx, object, patch, options...) })
}

func (f *fencedSubResource) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	return f.do(ctx, func(ctx context.Context) error { return f.SubResourceClient.Apply(ctx, object, options...) })
}

// Held reports whether the shard holds its Lease now: it has joined, and less than the Lease duration has passed since it sent
// its last successful renewal.
func (s *Shard) Held() bool { return s.hold.err() == nil }

// Context returns a context that ends when the shard stops holding its Lease, or when the parent ends. It is for work outside of
// reconcilers. In the first case the cause is ErrNotHeld with the reason.
func (s *Shard) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return s.hold.context(parent)
}
