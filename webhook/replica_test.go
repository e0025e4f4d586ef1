package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/breakwater-k8s/breakwater/webhook/reserve"
	"github.com/breakwater-k8s/breakwater/webhook/review"
	"github.com/breakwater-k8s/breakwater/webhook/server"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/webhook"
)

// replica is a running webhook.
type replica struct {
	*fixture
	server     *server.Server
	protection *review.Protection
	authority  *authority
	metrics    *prometheus.Registry
	// stop stops the webhook and waits until it has ended.
	stop func() error
}

// replicaOptions is the configuration of a replica that a test may change.
type replicaOptions struct {
	// cores by name. The fixture's own core, whose cluster the manager uses, is always one of them.
	cores  map[string]*rest.Config
	cell   *rest.Config
	server *server.Server
	// peers are the other replicas, which share the certificate of the first one.
	peers *reserve.Peers
	// useCells makes the replica follow the Cells of the fixture's core. Then cell may be nil.
	useCells bool
	// nodeGuard makes the replica record removals for node guards.
	nodeGuard bool
	// retrier makes the replica wake controllers, and release pods to successors.
	retrier bool
	// probeInterval is the interval at which the replica probes its cores; 0 is never.
	probeInterval time.Duration
	// beforeStart is called when the replica is set up and has not read any protector.
	beforeStart func()
}

// serve starts a webhook for the fixture's cell that listens and is ready.
func (l *fixture) serve(change ...func(*replicaOptions)) *replica {
	l.Helper()
	r := l.start(change...)
	l.eventually(func() string {
		if err := r.server.Ready(nil); err != nil {
			return "the webhook is not ready: " + err.Error()
		}
		return ""
	})
	return r
}

// start does not wait until the webhook is ready.
func (l *fixture) start(change ...func(*replicaOptions)) *replica {
	l.Helper()
	a := newAuthority(l)
	s := replicaOptions{cores: map[string]*rest.Config{l.core: l.config}, cell: l.config, server: &server.Server{Listen: "127.0.0.1:0"}}
	s.server.CertFile, s.server.KeyFile = a.store(l.TempDir())
	for _, c := range change {
		c(&s)
	}
	r := &replica{fixture: l, server: s.server, authority: a, metrics: prometheus.NewRegistry()}
	mgr, err := ctrl.NewManager(s.cores[l.core], ctrl.Options{
		Scheme: l.scheme, Logger: testr.NewWithInterface(l, testr.Options{}), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		l.Fatal(err)
	}
	cores := map[string]cluster.Cluster{l.core: mgr}
	for name, config := range s.cores {
		if name != l.core {
			cores[name], err = cluster.New(config, func(o *cluster.Options) { o.Scheme = l.scheme })
		}
		if err != nil {
			l.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	named, rosters := map[string]*rest.Config{}, map[string]*clusters.CellRegistry{}
	if s.cell != nil {
		named[l.cell] = s.cell
	}
	if s.useCells {
		rosters[l.core] = clusters.NewCellRegistry(mgr, "webhook", mgr.GetLogger())
	}
	r.protection, err = webhook.SetupWithManager(mgr, webhook.Options{
		Cores:          cores,
		Cells:          named,
		CellRegistries: rosters,
		Server:         s.server,
		Peers:          s.peers,
		NodeGuard:      s.nodeGuard,
		EnableRetrier:  s.retrier,
		Metrics:        r.metrics,
		ProbeInterval:  s.probeInterval,
	})
	if err != nil {
		l.Fatal(err)
	}
	if s.beforeStart != nil {
		s.beforeStart()
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	l.Cleanup(func() {
		if err := r.stop(); err != nil {
			l.Errorf("webhook: %v", err)
		}
	})
	return r
}

// guard makes the API server ask the replica about the fixture's namespace, and waits until it does.
func (r *replica) guard(change ...func(*admissionregistrationv1.ValidatingWebhook)) *replica {
	r.Helper()
	r.register(register.Endpoint{URL: "https://" + r.server.Address(), CABundle: r.authority.pem()}, change...)
	r.awaitConfiguration(func(error) bool { return r.count("breakwater_webhook_reviews_total") > 0 })
	return r
}

// register creates the configuration that users get, restricted to the fixture's namespace.
func (l *fixture) register(endpoint register.Endpoint, change ...func(*admissionregistrationv1.ValidatingWebhook)) {
	l.Helper()
	configuration, err := register.Configuration(register.Options{
		Cell: l.cell, Endpoint: endpoint, ExemptNamespaces: webhookconfig.DefaultExemptNamespaces(), TimeoutSeconds: 20,
	})
	if err != nil {
		l.Fatal(err)
	}
	configuration.GenerateName = l.namespace + "-"
	hook := &configuration.Webhooks[0]
	hook.NamespaceSelector.MatchExpressions = append(hook.NamespaceSelector.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{l.namespace},
	})
	for _, c := range change {
		c(hook)
	}
	l.create(configuration)
	l.Cleanup(func() {
		if err := l.client.Delete(context.Background(), configuration); err != nil {
			l.Errorf("delete the configuration: %v", err)
		}
	})
}

// awaitConfiguration requests dry-run deletions of unprotected pods, until the API server's answer shows that it uses the
// configuration.
func (l *fixture) awaitConfiguration(shows func(error) bool) {
	l.Helper()
	var probes []*corev1.Pod
	for _, name := range []string{"probe-0", "probe-1"} {
		if probe := l.existing(name); probe != nil {
			probes = append(probes, probe)
		} else {
			probes = append(probes, l.pod(name, unprotected))
		}
	}
	l.eventually(func() string {
		var err error
		for _, probe := range probes {
			err = errors.Join(err, l.client.Delete(l.Context(), probe.DeepCopy(), client.DryRunAll))
		}
		if !shows(err) {
			return fmt.Sprintf("the apiserver does not use the configuration yet; a deletion ends in %v", err)
		}
		return ""
	})
}

func (l *fixture) existing(name string) *corev1.Pod {
	l.Helper()
	pod := &corev1.Pod{}
	if err := l.client.Get(l.Context(), client.ObjectKey{Namespace: l.namespace, Name: name}, pod); err != nil {
		return nil
	}
	return pod
}

// count adds up the metrics with a name and the given labels, which are pairs of name and value.
func (r *replica) count(name string, labels ...string) int {
	r.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		r.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
	metrics:
		for _, m := range family.GetMetric() {
			have := map[string]string{}
			for _, pair := range m.GetLabel() {
				have[pair.GetName()] = pair.GetValue()
			}
			for i := 0; i < len(labels); i += 2 {
				if have[labels[i]] != labels[i+1] {
					continue metrics
				}
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return int(sum)
}

// waitInFlight waits until the given number of reviews is in flight.
func (r *replica) waitInFlight(want int) {
	r.Helper()
	r.waitCount("breakwater_webhook_reviews_in_flight", want)
}

// waitForBatch waits until the given number of removals is in a batch or waits for the next one. All earlier steps,
// such as reading an evicted pod, are then done.
func (r *replica) waitForBatch(want int) {
	r.Helper()
	r.waitCount("breakwater_webhook_removals_waiting", want)
}

// removeWhileCoreStalls requests removals while the core is silent. It lets the core answer when all of them are in the first
// batch or wait for the second.
func (r *replica) removeWhileCoreStalls(core *link, remove removalMethod, pods []*corev1.Pod) (answers []error) {
	r.Helper()
	core.stall()
	answered := after(func() { answers = r.removeAll(remove, pods) })
	r.waitForBatch(len(pods))
	core.heal()
	r.wait(answered, fmt.Sprint(len(pods), " answers"))
	return answers
}

func (r *replica) waitCount(name string, want int) {
	r.Helper()
	r.eventually(func() string {
		if got := r.count(name); got != want {
			return fmt.Sprintf("%s is %d, want %d", name, got, want)
		}
		return ""
	})
}

// withTimeout sets the timeout of tests for a webhook that is expected not to answer. After it the API server would send
// its own refusal, which no test wants.
func withTimeout(seconds int32) func(*admissionregistrationv1.ValidatingWebhook) {
	return func(hook *admissionregistrationv1.ValidatingWebhook) { hook.TimeoutSeconds = &seconds }
}

// after returns a channel that is closed when run has returned.
func after(run func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		run()
	}()
	return done
}

func (l *fixture) wait(done <-chan struct{}, what string) {
	l.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		l.Fatalf("waited too long for %s", what)
	}
}
