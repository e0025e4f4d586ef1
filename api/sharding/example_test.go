package sharding_test

import (
	"context"
	"errors"
	"log"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/sharding"
)

// A controller that creates ConfigMaps for Deployments, as a shard of the ring "example". Your main function calls run and exits
// with its error.
func Example() {
	run := func(ctx context.Context, config *rest.Config, yours func(client.Client) reconcile.Reconciler) error {
		shard, err := sharding.New(ctx, config, sharding.Options{
			Ring:    "example",
			Stable:  true, // in a StatefulSet: a process of the same name comes back
			Objects: []client.Object{&appsv1.Deployment{}, &corev1.ConfigMap{}},
		})
		if err != nil {
			return err
		}
		mgr, err := shard.NewManager(manager.Options{})
		if err != nil {
			return err
		}
		reconciler, err := shard.Reconciler(mgr, &appsv1.Deployment{}, yours(mgr.GetClient()))
		if err != nil {
			return err
		}
		err = builder.ControllerManagedBy(mgr).For(&appsv1.Deployment{}).Owns(&corev1.ConfigMap{}).Complete(reconciler)
		if err != nil {
			return err
		}
		return mgr.Start(ctx)
	}
	_ = run
}

// A process without a manager that continues after it has lost its Lease. No work of one incarnation is left when the next one
// begins.
func ExampleShard_Run() {
	run := func(ctx context.Context, config *rest.Config, yours func(context.Context, *sharding.Shard)) {
		var last *sharding.Shard
		for ctx.Err() == nil {
			shard, err := sharding.New(ctx, config, sharding.Options{Ring: "example", After: last})
			if err == nil {
				err = shard.Run(ctx, func(ctx context.Context) { yours(ctx, shard) })
				last = shard
			}
			if err != nil {
				log.Print(err) // why the process is not a shard, or not any more
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
	_ = run
}

// Code that writes outside of a manager can be fenced too.
func ExampleShard_Client() {
	write := func(ctx context.Context, shard *sharding.Shard, plain client.Client, object client.Object) error {
		ctx, cancel := shard.Context(ctx) // ends when the Lease is lost
		defer cancel()
		err := shard.Client(plain).Update(ctx, object)
		if errors.Is(err, sharding.ErrNotHeld) {
			return nil // another shard does the work
		}
		return err
	}
	_ = write
}
