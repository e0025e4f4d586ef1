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

// silence is how long a test watches that a request is not answered. Too short for a slow machine, it would let
// a test pass wrongly, never fail wrongly.
const silence = 250 * time.Millisecond

// disturbed is one client of a real apiserver behind a proxy, and another one without.
type disturbed struct {
	proxy          *proxy.Proxy
	through        kubernetes.Interface
	direct         kubernetes.Interface
	namespace      string
	kubeconfigFile string
}

func disturb(t *testing.T) *disturbed {
	t.Helper()
	c := sharedCluster(t)
	p, err := c.Proxy(t.Context())
	must(t, err)
	through, err := kubernetes.NewForConfig(p.RESTConfig())
	must(t, err)
	d := &disturbed{proxy: p.Proxy, through: through, direct: clients(t, c), kubeconfigFile: p.Kubeconfig()}
	d.namespace = newNamespace(t, d.direct)
	// A connection that exists already feels the fault too.
	must(t, d.create(t.Context(), through, "before"))
	return d
}

func (d *disturbed) create(ctx context.Context, api kubernetes.Interface, name string) error {
	_, err := api.CoreV1().ConfigMaps(d.namespace).Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

func (d *disturbed) exists(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := d.direct.CoreV1().ConfigMaps(d.namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	}
}

func TestProxyKubeconfigLeadsThroughIt(t *testing.T) {
	d := disturb(t)
	config, err := clientcmd.BuildConfigFromFlags("", d.kubeconfigFile)
	must(t, err)
	if !strings.HasSuffix(config.Host, d.proxy.Address()) {
		t.Errorf("host %s, want the proxy's %s", config.Host, d.proxy.Address())
	}
	api, err := kubernetes.NewForConfig(config)
	must(t, err)
	must(t, d.create(t.Context(), api, "by-kubeconfig"))
	must(t, d.exists("by-kubeconfig")(t.Context()))
}

func TestProxyDelaysRequests(t *testing.T) {
	d := disturb(t)
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

func TestProxyStallToServerKeepsTheRequestFromIt(t *testing.T) {
	d := disturb(t)
	d.proxy.Stall(proxy.ToServer)
	answer := make(chan error, 1)
	go func() { answer <- d.create(t.Context(), d.through, "stalled") }()
	isSilent(t, answer)
	if err := d.exists("stalled")(t.Context()); err == nil {
		t.Error("the request reached the apiserver")
	}
	must(t, d.proxy.Heal(t.Context()))
	must(t, <-answer)
}

func TestProxyStallToClientLetsTheRequestHappenUnanswered(t *testing.T) {
	d := disturb(t)
	d.proxy.Stall(proxy.ToClient)
	answer := make(chan error, 1)
	go func() { answer <- d.create(t.Context(), d.through, "unanswered") }()
	eventually(t, "the apiserver does it", d.exists("unanswered"))
	isSilent(t, answer)
	must(t, d.proxy.Heal(t.Context()))
	must(t, <-answer)
}

func TestProxyStallMakesAWatchLate(t *testing.T) {
	d := disturb(t)
	events, err := d.through.CoreV1().ConfigMaps(d.namespace).Watch(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=watched"})
	must(t, err)
	defer events.Stop()
	d.proxy.Stall(proxy.ToClient)
	must(t, d.create(t.Context(), d.direct, "watched"))
	isSilent(t, events.ResultChan())
	must(t, d.proxy.Heal(t.Context()))
	select {
	case event := <-events.ResultChan():
		if event.Type != watch.Added {
			t.Errorf("the watch got %v", event)
		}
	case <-time.After(time.Minute):
		t.Error("the watch got nothing in a minute")
	}
}

func TestProxyCutEndsWatchesAndRefusesRequestsOfOneClient(t *testing.T) {
	d := disturb(t)
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
		t.Error("the watch goes on after a minute")
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
			d := disturb(t)
			must(t, d.proxy.Cut(direction))
			ctx, cancel := context.WithTimeout(t.Context(), silence)
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

func isSilent[T any](t *testing.T, answers <-chan T) {
	t.Helper()
	select {
	case answer := <-answers:
		t.Fatalf("it was answered: %v", answer)
	case <-time.After(silence):
	}
}
