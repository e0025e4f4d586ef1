package sharding

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client makes a client refuse to write, with ErrNotHeld, while the shard does not hold its Lease. What a write was sent for by then
// must be answered before HeldUntil. A write that was sent is not given up when its context is cancelled, only at its deadline: a shard
// that stops then knows that nothing is still to take effect, and can give its Lease up.
//
// The client of a manager that Configure or NewManager has made is one already.
func (s *Shard) Client(inner client.Client) client.Client {
	if already, ok := inner.(*fenced); ok && already.hold == s.hold {
		return inner
	}
	return &fenced{Client: inner, fence: fence{hold: s.hold, work: s.work}}
}

// fence lets writes pass while the Lease is held.
type fence struct {
	hold *hold
	work *work
}

func (f fence) pass(ctx context.Context, write func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// It is noted before it is looked: a shard that gives its Lease up looks the other way round.
	ended := f.work.write()
	if err := f.hold.err(); err != nil {
		ended(false)
		return err
	}
	deadline := f.hold.until()
	if own, ok := ctx.Deadline(); ok && own.Before(deadline) {
		deadline = own
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	err := write(ctx)
	ended(err != nil && ctx.Err() != nil)
	if err == nil {
		return nil
	}
	if lost := f.hold.Lost(); lost != nil {
		return fmt.Errorf("%w: %w: %w", ErrNotHeld, lost, err)
	}
	return err
}

type fenced struct {
	client.Client
	fence
}

func (f *fenced) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return f.pass(ctx, func(ctx context.Context) error { return f.Client.Create(ctx, object, options...) })
}

func (f *fenced) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return f.pass(ctx, func(ctx context.Context) error { return f.Client.Update(ctx, object, options...) })
}

func (f *fenced) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return f.pass(ctx, func(ctx context.Context) error { return f.Client.Patch(ctx, object, patch, options...) })
}

func (f *fenced) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	return f.pass(ctx, func(ctx context.Context) error { return f.Client.Apply(ctx, object, options...) })
}

func (f *fenced) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	return f.pass(ctx, func(ctx context.Context) error { return f.Client.Delete(ctx, object, options...) })
}

func (f *fenced) DeleteAllOf(ctx context.Context, object client.Object, options ...client.DeleteAllOfOption) error {
	return f.pass(ctx, func(ctx context.Context) error { return f.Client.DeleteAllOf(ctx, object, options...) })
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
	return f.pass(ctx, func(ctx context.Context) error { return f.SubResourceClient.Create(ctx, object, sub, options...) })
}

func (f *fencedSubResource) Update(ctx context.Context, object client.Object, options ...client.SubResourceUpdateOption) error {
	return f.pass(ctx, func(ctx context.Context) error { return f.SubResourceClient.Update(ctx, object, options...) })
}

func (f *fencedSubResource) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	return f.pass(ctx, func(ctx context.Context) error { return f.SubResourceClient.Patch(ctx, object, patch, options...) })
}

func (f *fencedSubResource) Apply(ctx context.Context, object runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
	return f.pass(ctx, func(ctx context.Context) error { return f.SubResourceClient.Apply(ctx, object, options...) })
}

// Held tells whether the shard holds its Lease now: it has joined, and less time than the Lease lasts has passed since its last renewal
// that succeeded was sent.
func (s *Shard) Held() bool { return s.hold.err() == nil }

// HeldUntil is when the Lease is not held any more unless it is renewed; the zero time when it is not held now.
func (s *Shard) HeldUntil() time.Time {
	if s.hold.err() != nil {
		return time.Time{}
	}
	return s.hold.until()
}

// Context is one that ends with the hold on the Lease as well as with its parent, for work outside of reconcilers. Its cause then is
// ErrNotHeld with the reason.
func (s *Shard) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return s.hold.context(parent)
}
