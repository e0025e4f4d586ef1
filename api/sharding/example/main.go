// Command example is a small controller that runs as a shard: for each Deployment it keeps a ConfigMap with a summary. Start any
// number of processes, each with its own name, with the ClusterRing and the permissions of docs/how-to/sharding-controllers.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/breakwater-k8s/breakwater/api/sharding"
)

func main() {
	options := sharding.Options{Objects: []client.Object{&appsv1.Deployment{}, &corev1.ConfigMap{}}}
	flag.StringVar(&options.Ring, "ring", "example", "`name` of the ClusterRing")
	flag.StringVar(&options.Name, "name", "", "`name` of the shard (default: the host name)")
	flag.BoolVar(&options.Stable, "stable", false, "after a stop, keep the objects for the next process of the same name")
	summarizer := &Summarizer{}
	flag.DurationVar(&summarizer.Duration, "takes", 0, "`time` that it takes to summarize a Deployment")
	flag.DurationVar(&summarizer.Interval, "every", time.Hour, "`time` after which each Deployment is summarized again")
	flag.Parse()

	log.SetLogger(textlogger.NewLogger(textlogger.NewConfig()))
	if err := runShard(signals.SetupSignalHandler(), options, summarizer); err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

// runShard works until the context ends. It returns an error if the process is no longer a shard.
func runShard(ctx context.Context, options sharding.Options, summarizer *Summarizer) error {
	cluster, err := config.GetConfig()
	if err != nil {
		return err
	}
	shard, err := sharding.New(ctx, cluster, options)
	if err != nil {
		return err
	}
	mgr, err := shard.NewManager(manager.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	summarizer.Client, summarizer.Writer = mgr.GetClient(), shard.Identity()
	reconciler, err := shard.Reconciler(mgr, &appsv1.Deployment{}, summarizer)
	if err != nil {
		return err
	}
	err = builder.ControllerManagedBy(mgr).
		For(&appsv1.Deployment{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 10}).
		Complete(reconciler)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}
