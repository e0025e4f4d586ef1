// Command shard is a controller of ConfigMaps as a user would write it. It runs as a shard of a ring or, without a ring, alone. It processes
// each object for some time, and reports the begin and the end to a recorder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/sharding"
)

type shardProgram struct {
	kubeconfig, ring, shard, recorder, prefix string
	health, metrics, format                   string
	work                                      time.Duration
	workers                                   int
	stable, write                             bool

	http *http.Client
}

func main() {
	p := shardProgram{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}}
	flags := flag.NewFlagSet("shard", flag.ExitOnError) // controller-runtime registers its own flags in flag.CommandLine
	flags.StringVar(&p.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster")
	flags.StringVar(&p.ring, "ring", "", "`name` of the ClusterRing; empty: none")
	flags.StringVar(&p.shard, "shard", "", "`name` of the shard")
	flags.StringVar(&p.recorder, "recorder", "", "`URL` of the recorder")
	flags.StringVar(&p.prefix, "namespaces", "", "`prefix` of the names of its namespaces; empty: all")
	flags.DurationVar(&p.work, "work", 0, "duration of processing one object")
	flags.IntVar(&p.workers, "workers", 16, "number of objects that it processes concurrently")
	flags.BoolVar(&p.stable, "stable", false, "a shard of the same name restarts after a stop")
	flags.BoolVar(&p.write, "write", false, "write the result into each object that it has processed, once for each turn")
	flags.StringVar(&p.health, "health-listen", "0", "`address` of /readyz")
	flags.StringVar(&p.metrics, "metrics-listen", "0", "`address` of /metrics")
	flags.StringVar(&p.format, "log-format", "text", "`format` of the log; only text is supported")
	_ = flags.Parse(os.Args[1:]) // it exits on errors
	if err := p.run(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "shard:", err)
		os.Exit(1)
	}
}

func (p *shardProgram) run(ctx context.Context) error {
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	mgr, inner, err := p.newManager(ctx, config)
	if err != nil {
		return err
	}
	// The shard is ready when it has joined the ring.
	if err := mgr.AddReadyzCheck("elected", func(*http.Request) error {
		select {
		case <-mgr.Elected():
			return nil
		default:
			return fmt.Errorf("%s has not joined ring %s", p.shard, p.ring)
		}
	}); err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).
		WithEventFilter(predicate.NewPredicateFuncs(func(object client.Object) bool { return strings.HasPrefix(object.GetNamespace(), p.prefix) })).
		WithOptions(controller.Options{MaxConcurrentReconciles: p.workers}).Complete(inner)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// newManager returns a manager and a reconciler: those of a shard if a ring is set.
func (p *shardProgram) newManager(ctx context.Context, config *rest.Config) (manager.Manager, reconcile.Reconciler, error) {
	options := manager.Options{HealthProbeBindAddress: p.health, Metrics: metricsserver.Options{BindAddress: p.metrics}}
	if p.ring == "" {
		mgr, err := manager.New(config, options)
		if err != nil {
			return nil, nil, err
		}
		return mgr, &reconciler{shardProgram: p, client: mgr.GetClient()}, mgr.AddHealthzCheck("process", healthz.Ping)
	}
	shard, err := sharding.New(ctx, config, sharding.Options{
		Ring: p.ring, Name: p.shard, Stable: p.stable, Objects: []client.Object{&corev1.ConfigMap{}},
	})
	if err != nil {
		return nil, nil, err
	}
	mgr, err := shard.NewManager(options)
	if err != nil {
		return nil, nil, err
	}
	inner, err := shard.Reconciler(mgr, &corev1.ConfigMap{}, &reconciler{shardProgram: p, client: mgr.GetClient()})
	return mgr, inner, err
}

// reconciler processes ConfigMaps.
type reconciler struct {
	*shardProgram
	client client.Client
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	object := &corev1.ConfigMap{}
	if err := r.client.Get(ctx, request.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	turn := object.Data["turn"]
	if turn == "" || r.write && object.Data["processed"] == turn {
		return reconcile.Result{}, nil // it does not belong to the test, or is done
	}
	if err := ctx.Err(); err != nil {
		return reconcile.Result{}, err
	}
	// Report the begin and the end even if the context ends meanwhile.
	ctx = context.WithoutCancel(ctx)
	if err := r.report(ctx, "begin", request.String(), turn); err != nil {
		return reconcile.Result{}, err
	}
	if r.work > 0 {
		<-time.After(r.work)
	}
	if r.write {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"processed":%q}}`, turn))
		if err := r.client.Patch(ctx, object, patch); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, errors.Join(err, r.report(ctx, "end", request.String(), "-1"))
		}
	}
	return reconcile.Result{}, r.report(ctx, "end", request.String(), turn)
}

func (r *reconciler) report(ctx context.Context, event, object, turn string) error {
	query := url.Values{"object": {object}, "shard": {r.shard}, "turn": {turn}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.recorder+"/"+event+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := r.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the recorder answered %s", response.Status)
	}
	return nil
}
