// Package sharding is for controllers that run as shards of a ClusterRing: all processes are active, and each works on its own
// objects. It supports controllers built on controller-runtime, in any module. It needs a sharder in the cluster, which assigns
// the objects.
//
//	shard, err := sharding.New(ctx, config, sharding.Options{Ring: "example", Objects: []client.Object{&appsv1.Deployment{}}})
//	mgr, err := shard.NewManager(manager.Options{})
//	reconciler, err := shard.Reconciler(mgr, &appsv1.Deployment{}, inner)
//	err = builder.ControllerManagedBy(mgr).For(&appsv1.Deployment{}).Complete(reconciler)
//	err = mgr.Start(ctx)
//
// # The Lease
//
// A shard has a Lease with its name in the namespace spec.shardNamespace of the ring. Like a leader's manager, its manager works
// while the shard holds the Lease. The shard loses the Lease if spec.leaseDurationSeconds have passed since it sent its last
// successful renewal. It also loses the Lease if it finds it deleted, emptied, held by another process, or taken by the sharder,
// which revokes shards that do not release an object in time. A lost Lease is never acquired again: the manager ends with an
// error, and the process must exit. Use [Shard.Run] for code that has no manager, or that must continue in the same process.
//
// A process waits for the Lease of its name as long as another process may be working. It acquires the Lease when its own clock
// shows that nothing has renewed the Lease for its duration, or for twice its duration if the sharder has taken it. It acquires a
// released Lease at once. A shard that stops releases the Lease when no reconcile and no write is in progress. It releases the
// Lease for good, or with [Options.Stable] for the next process of the same name.
//
// # The fence
//
// Writes of the manager's client fail with [ErrNotHeld] when the Lease is not held, and must be answered before it ends. The
// connections of a process whose Lease is lost send no writes. Contexts of reconcilers end with the Lease. [Shard.Client] and
// [Shard.Context] do the same for code outside the manager.
//
// # Objects
//
// The label breakwater.dev/shard-RING of an object names the shard that works on it. For the types in [Options.Objects], the
// manager's cache selects objects by this label. The label breakwater.dev/drain-RING asks the shard to release the object. When
// no reconciler works on the object, the shard removes the first label and sets the second one to "done" in one patch. That same
// request also assigns the object to its next shard. The drain has its own queue, so neither predicates nor a long queue of the
// controller delay it.
//
// # Rights
//
// In addition to the permissions of the controller itself, a shard needs get on its clusterring by name; get, create and update
// on leases in the namespace of the ring's Leases; get, list, watch and patch on the ring's resources; and get, list and watch on
// those controlled resources that it reads.
//
// # What a controller must keep
//
// The name of a created object must be derived from the object that it is created for. When an object moves to another shard, the
// objects that it controls follow a moment later. So AlreadyExists means "not seen yet": reconcile again a second later. Cleanup
// for a deleted object needs a finalizer, because an object that has moved disappears from the cache as well.
// docs/how-to/sharding-controllers.md has all the rules, and what happens when.
package sharding
