package nodeguard

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard/podwire"
)

// Options configure a guard.
type Options struct {
	// Node is the name of the node.
	Node string
	// Machine is the machine that the guard runs on.
	Machine podhold.Machine
	// Kubeconfig is the file that the kubelet used before the guard was installed.
	Kubeconfig string
	// Dir keeps what the guard knows.
	Dir string
	// Listen is the loopback address for the kubelet.
	Listen string
	// TokenFile has the token of the guard's account.
	TokenFile string
	// Namespace is the namespace of Breakwater in the cluster.
	Namespace string
	// Retention is how long a pod is held.
	Retention time.Duration
	// MetricsListen is the address for Prometheus; empty for none.
	MetricsListen string
	Log           logr.Logger
	// Ready is called when the guard accepts requests; nil is allowed.
	Ready func(net.Addr)
}

// Run runs a guard until ctx ends.
func Run(ctx context.Context, o Options) error {
	kubeconfig, err := ReadKubeconfig(o.Kubeconfig)
	if err != nil {
		return err
	}
	if host, _, err := net.SplitHostPort(o.Listen); err != nil || net.ParseIP(host) == nil || !net.ParseIP(host).IsLoopback() {
		return fmt.Errorf("listen address %q: must be a loopback address with a port, such as 127.0.0.1:16443", o.Listen)
	}
	s, err := newStore(filepath.Join(o.Dir, podsDir))
	if err != nil {
		return err
	}
	s.log, s.machine = o.Log, o.Machine
	if _, err := EnsureCertificate(o.Dir, time.Now()); err != nil {
		return err
	}
	config, err := serverConfig(o.Dir, kubeconfig.CertFile)
	if err != nil {
		return err
	}
	pin := &Pin{server: kubeconfig.Server, node: o.Node, store: s}
	forKubelet := NewUpstream(kubeconfig, true, pin.Check)
	own := NewAccount(kubeconfig, o.TokenFile)
	r := &records{own: own, namespace: o.Namespace, store: s, log: o.Log}
	if err := r.restore(); err != nil {
		o.Log.Error(err, "Ignoring stored selectors")
	}
	g := newGuard(o.Node, r, s, clock.RealClock{}, o.Log)
	kubelet := &Account{server: kubeconfig.Server, upstream: forKubelet}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, run := range []func(context.Context){
		r.run,
		(&registrar{guard: g, own: own, kubelet: kubelet, retention: o.Retention}).run,
		func(ctx context.Context) { g.findLost(ctx, kubelet) },
		(&ending{guard: g, records: r, kubelet: kubelet, retention: o.Retention}).run,
		(&reporter{guard: g, kubelet: kubelet, otherCluster: forKubelet.Denial}).run,
		g.keepRunningTime,
		s.keepTrying,
	} {
		running.Go(func() { run(ctx) })
	}
	if o.MetricsListen != "" {
		running.Go(func() { serveMetrics(ctx, o.MetricsListen, g.metrics.handler(g, forKubelet.Denial), o.Log) })
	}
	return serve(ctx, o, config, newProxy(g, kubeconfig.Server, forKubelet))
}

func serve(ctx context.Context, o Options, config *tls.Config, handler http.Handler) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, TLSConfig: config, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if o.Ready != nil {
		o.Ready(listener.Addr())
	}
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// endEvery is how often the guard checks whether held pods end.
const endEvery = 5 * time.Second

// ending ends held pods (rules N5 and N8).
type ending struct {
	guard     *Guard
	records   *records
	kubelet   *Account
	retention time.Duration
}

// run ends held pods until ctx ends.
func (e *ending) run(ctx context.Context) { wait.UntilWithContext(ctx, e.check, endEvery) }

// check ends the held pods whose end has come.
func (e *ending) check(ctx context.Context) {
	e.guard.mu.Lock()
	held := e.guard.pods.view.Held()
	e.guard.mu.Unlock()
	if len(held) == 0 {
		e.guard.ask(nil)
		return
	}
	e.endDue(ctx, held)
}

func (e *ending) endDue(ctx context.Context, held []podhold.Entry) {
	g := e.guard
	released, nodeVersion, err := e.kubelet.releases(ctx, g.node)
	if err != nil {
		g.log.V(1).Info("Failed to read which pods are released", "reason", err.Error())
	}
	satisfied := e.satisfied(ctx, held)
	for _, one := range held {
		_, unregistrable := satisfied[one.Pod.UID]
		facts := podhold.Facts{
			Admission: g.admission(ctx, one), Released: released[one.Pod.UID],
			Unregistrable: unregistrable, Satisfied: satisfied[one.Pod.UID],
			Held: g.running() - one.HeldAt, Retention: e.retention,
		}
		if why := podhold.EndOf(facts); why != "" {
			g.endHeld(ctx, e.records.own, one, why)
		}
	}
	if len(released) > 0 {
		if err := e.kubelet.annotateNode(ctx, g.node, nodeVersion, map[string]*string{podhold.AnnotationRelease: nil}); err != nil {
			g.log.Info("Failed to remove the annotation of released pods, retrying", "reason", err.Error())
		}
	}
}

// admission reports whether the removal of a held pod or of its incomplete registration was admitted.
func (g *Guard) admission(ctx context.Context, held podhold.Entry) podhold.Admission {
	answer := podhold.NotAdmitted
	for _, uid := range held.Removable() {
		switch g.cluster.Admission(ctx, held.Pod.Namespace, uid) {
		case podhold.Admitted:
			return podhold.Admitted
		case podhold.Unknown:
			answer = podhold.Unknown
		case podhold.NotAdmitted:
		}
	}
	return answer
}

// endHeld ends a held pod, and deletes its registration if that is not complete: the kubelet would start it as a new pod. own is the guard's account.
func (g *Guard) endHeld(ctx context.Context, own *Account, held podhold.Entry, why podhold.End) {
	registered, ended := g.end(held.Pod, why)
	if !ended || registered == "" {
		return
	}
	if err := own.deletePod(ctx, held.Pod.NamespacedName, registered, false); err != nil {
		g.log.Info("Failed to delete the incomplete registration of a pod", "pod", held.Pod.NamespacedName, "reason", err.Error())
	}
}

// findEvery is how often the guard looks for lost pods while the kubelet does not watch them.
const findEvery = time.Second

// findLost looks for lost pods until ctx ends, while the kubelet does not watch them. A kubelet that met errors waits for up to a minute
// before it asks again: for that long the pods would not be registered.
func (g *Guard) findLost(ctx context.Context, kubelet *Account) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if g.isWatched() {
			return
		}
		if err := g.findLostOnce(ctx, kubelet); err != nil {
			g.log.V(1).Info("Failed to look for lost pods", "reason", err.Error())
		}
	}, findEvery)
}

func (g *Guard) findLostOnce(ctx context.Context, kubelet *Account) error {
	var body json.RawMessage
	if err := kubelet.query(ctx, "/api/v1/pods", url.Values{"fieldSelector": {"spec.nodeName=" + g.node}}, &body); err != nil {
		return err
	}
	_, _, err := g.decideList(ctx, podwire.JSON, body)
	return err
}
