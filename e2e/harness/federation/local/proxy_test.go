package local_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
)

// noAnswerTime is how long a test checks that a request is not answered. If it is too short, a test can pass wrongly but
// never fail wrongly.
const noAnswerTime = 250 * time.Millisecond

// proxiedCluster has one client of a real API server through a proxy, and one without.
type proxiedCluster struct {
	proxy          *proxy.Proxy
	through        kubernetes.Interface
	direct         kubernetes.Interface
	namespace      string
	kubeconfigFile string
}

func newProxiedCluster(t *testing.T) *proxiedCluster {
	t.Helper()
	c := sharedCluster(t)
	p, err := c.Proxy(t.Context())
	must(t, err)
	through, err := kubernetes.NewForConfig(p.RESTConfig())
	must(t, err)
	d := &proxiedCluster{proxy: p.Proxy, through: through, direct: clients(t, c), kubeconfigFile: p.Kubeconfig()}
	d.namespace = newNamespace(t, d.direct)
	// The fault also applies to an existing connection.
	must(t, d.create(t.Context(), through, "before"))
	return d
}

func (d *proxiedCluster) create(ctx context.Context, api kubernetes.Interface, name string) error {
	_, err := api.CoreV1().ConfigMaps(d.namespace).Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

func (d *proxiedCluster) exists(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := d.direct.CoreV1().ConfigMaps(d.namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	}
}

func TestProxyKubeconfigUsesTheProxy(t *testing.T) {
	d := newProxiedCluster(t)
	config, err := clientcmd.BuildConfigFromFlags("", d.kubeconfigFile)
	must(t, err)
	if !strings.HasSuffix(config.Host, d.proxy.Address()) {
		t.Errorf("kubeconfig has host %s, want the proxy's %s", config.Host, d.proxy.Address())
	}
	api, err := kubernetes.NewForConfig(config)
	must(t, err)
	must(t, d.create(t.Context(), api, "by-kubeconfig"))
	must(t, d.exists("by-kubeconfig")(t.Context()))
}

func TestProxyDelaysRequests(t *testing.T) {
	d := newProxiedCluster(t)
	for name, direction := range map[string]proxy.Direction{"to-server": proxy.ToServer, "to-client": proxy.ToClient} {
		const by = 100 * time.Millisecond
		d.proxy.Delay(direction, by)
		began := time.Now()
		must(t, d.create(t.Context(), d.through, name))
		if took := time.Since(began); took < by {
			t.Errorf("%s: a request delayed %s took %s", name, by, took)
		}
		must(t, d.proxy.Heal(t.Context()))
	}
}

func TestProxyStallToServerHoldsRequests(t *testing.T) {
	d := newProxiedCluster(t)
	d.proxy.Stall(proxy.ToServer)
	answer := make(chan error, 1)
	go func() { answer <- d.create(t.Context(), d.through, "stalled") }()
	wantNoAnswer(t, answer)
	if err := d.exists("stalled")(t.Context()); err == nil {
		t.Error("the request reached the API server")
	}
	must(t, d.proxy.Heal(t.Context()))
	must(t, <-answer)
}

func TestProxyStallToClientHoldsAnswers(t *testing.T) {
	d := newProxiedCluster(t)
	d.proxy.Stall(proxy.ToClient)
	answer := make(chan error, 1)
	go func() { answer <- d.create(t.Context(), d.through, "unanswered") }()
	eventually(t, "the API server executes the request", d.exists("unanswered"))
	wantNoAnswer(t, answer)
	must(t, d.proxy.Heal(t.Context()))
	must(t, <-answer)
}

func TestProxyStallDelaysWatchEvents(t *testing.T) {
	d := newProxiedCluster(t)
	events, err := d.through.CoreV1().ConfigMaps(d.namespace).Watch(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=watched"})
	must(t, err)
	defer events.Stop()
	d.proxy.Stall(proxy.ToClient)
	must(t, d.create(t.Context(), d.direct, "watched"))
	wantNoAnswer(t, events.ResultChan())
	must(t, d.proxy.Heal(t.Context()))
	select {
	case event := <-events.ResultChan():
		if event.Type != watch.Added {
			t.Errorf("the watch got %v", event)
		}
	case <-time.After(time.Minute):
		t.Error("the watch got no event within a minute")
	}
}

func TestProxyCutEndsWatchesAndRefusesRequestsOfOneClient(t *testing.T) {
	d := newProxiedCluster(t)
	events, err := d.through.CoreV1().ConfigMaps(d.namespace).Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	defer events.Stop()
	must(t, d.proxy.Cut(proxy.Both))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range events.ResultChan() { // what came before the cut
			continue
		}
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the watch still runs after a minute")
	}
	err = d.create(t.Context(), d.through, "refused")
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("want connection refused, got: %v", err)
	}
	must(t, d.create(t.Context(), d.direct, "not-refused"))
	must(t, d.proxy.Heal(t.Context()))
	must(t, d.create(t.Context(), d.through, "healed"))
}

func TestProxyCutOfOneDirectionFailsRequests(t *testing.T) {
	for name, direction := range map[string]proxy.Direction{"to-server": proxy.ToServer, "to-client": proxy.ToClient} {
		t.Run(name, func(t *testing.T) {
			d := newProxiedCluster(t)
			must(t, d.proxy.Cut(direction))
			ctx, cancel := context.WithTimeout(t.Context(), noAnswerTime)
			defer cancel()
			if err := d.create(ctx, d.through, "cut"); err == nil {
				t.Error("a request succeeded")
			}
			must(t, d.proxy.Heal(t.Context()))
			eventually(t, "requests succeed again", func(ctx context.Context) error {
				return d.create(ctx, d.through, "healed")
			})
		})
	}
}

func wantNoAnswer[T any](t *testing.T, answers <-chan T) {
	t.Helper()
	select {
	case answer := <-answers:
		t.Fatalf("the request was answered: %v, want no answer", answer)
	case <-time.After(noAnswerTime):
	}
}
