// Package sharding is for controllers that run as shards of a ClusterRing: processes that all work, each on objects of its own. It is made
// for controllers built on controller-runtime, in any module, and needs a sharder in the cluster, which assigns the objects.
//
//	shard, err := sharding.New(ctx, config, sharding.Options{Ring: "example", Objects: []client.Object{&appsv1.Deployment{}}})
//	mgr, err := shard.NewManager(manager.Options{})
//	reconciler, err := shard.Reconciler(mgr, &appsv1.Deployment{}, inner)
//	err = builder.ControllerManagedBy(mgr).For(&appsv1.Deployment{}).Complete(reconciler)
//	err = mgr.Start(ctx)
//
// # The Lease
//
// A shard has a Lease of its name in the namespace spec.shardNamespace of the ring. Its manager works from when it has the Lease, as that of
// a leader does, until the Lease is lost. It is lost when it was not renewed for spec.leaseDurationSeconds since the last renewal that
// succeeded was sent, or when it was found deleted, emptied, taken by the sharder, which puts out shards that do not let go of
// an object, or held by somebody else. It is never taken again: the manager ends with an error, and the process must end with it.
// What has no manager, or must go on in the same process, is run by [Shard.Run].
//
// A process waits for the Lease of its name while another one can be working: until it has not been renewed for as long as it lasts, or
// for twice as long when the sharder has taken it, by this process's own clock. One that was given up it takes at once. A stop gives
// the Lease up when nothing is reconciled or written any more, for good, or with [Options.Stable] for the next process of the same name.
//
// # The fence
//
// Writes of the manager's client fail with [ErrNotHeld] when the Lease is not held, must be answered before it ends, and are not sent
// on connections of a process whose Lease is lost. Contexts of reconcilers end with it. [Shard.Client] and [Shard.Context] do that for
// what is not the manager's.
//
// # Objects
//
// The label breakwater.dev/shard-RING of an object is the shard that works on it; the manager's cache selects by it the types of
// [Options.Objects]. The label breakwater.dev/drain-RING asks the shard to let go: when nobody reconciles the object, the first label is
// taken off and the second made "done" in one patch, and who gets the object next is decided in that request. This goes by a queue of
// its own, so that neither predicates nor a long queue of the controller are in its way.
//
// # Rights
//
// Besides what the controller itself does, a shard needs get on its clusterring by name; get, create and update on leases in the
// namespace of the ring's Leases; get, list, watch and patch on the ring's resources; and get, list and watch on those controlled resources
// that it reads.
//
// # What a controller must keep
//
// Objects that it makes must have names that follow from the object that they are made for. When an object moves, those that
// it controls follow a moment later, so that AlreadyExists means "not seen yet": look again a second later. What is to be done when an
// object is deleted needs a finalizer, since an object that has moved is gone from the cache as well. docs/sharding-controllers.md has all
// the rules, and what happens when.
package sharding
