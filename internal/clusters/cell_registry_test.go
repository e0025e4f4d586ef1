package clusters_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// fixture is a core cluster whose Cells are in another cluster.
type fixture struct {
	*testing.T
	client.Client
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c, err := client.New(testplane.Config(t), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t, c, testplane.Namespace(t)}
}

// worker returns the configuration of the cells' cluster, with a ServiceAccount of its own.
func (r *fixture) worker(account, role string) *rest.Config {
	r.Helper()
	return testplane.AsServiceAccount(r, testplane.Second(r), "default", r.namespace+"-"+account, role)
}

// store puts a kubeconfig into a Secret.
func (r *fixture) store(name string, kubeconfig []byte) {
	r.Helper()
	testplane.StoreKubeconfig(r, r, r.namespace, name, kubeconfig)
}

// cell creates a Cell whose kubeconfig is in a Secret of the same name.
func (r *fixture) cell(name string) *v1alpha1.Cell {
	r.Helper()
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: r.namespace + "-" + name}}
	cell.Spec.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: r.namespace, Name: name}
	if err := r.Create(r.Context(), cell); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = r.Delete(context.Background(), cell) })
	return cell
}

func (r *fixture) eventually(check func() string) { r.Helper(); testplane.Eventually(r, check) }

func token(expiry time.Time) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none"}`)) + "." + part(fmt.Appendf(nil, `{"exp":%d}`, expiry.Unix())) + "." + part([]byte("x"))
}

func TestReasonsWhyClusterIsUnusable(t *testing.T) {
	r := newFixture(t)
	good := r.worker("good", "cluster-admin")
	but := func(change func(*rest.Config)) []byte {
		config := rest.CopyConfig(good)
		change(config)
		return testplane.KubeconfigOf(t, config)
	}
	const head = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
	for claim, test := range map[string]struct {
		kubeconfig   []byte
		change       func(*v1alpha1.Cell)
		reason, word string
	}{
		"nothing":   {but(func(*rest.Config) {}), nil, "", ""},
		"no Secret": {nil, nil, v1alpha1.ReasonSecretMissing, "has no Secret"},
		"another key": {
			but(func(*rest.Config) {}), func(c *v1alpha1.Cell) { c.Spec.KubeconfigSecretRef.Key = "value" },
			v1alpha1.ReasonSecretMissing, `nothing under the key "value"`,
		},
		"no kubeconfig": {[]byte("{"), nil, v1alpha1.ReasonKubeconfigInvalid, "cannot be used"},
		"an empty one":  {[]byte("apiVersion: v1\nkind: Config\n"), nil, v1alpha1.ReasonKubeconfigInvalid, "has no cluster address"},
		"one that runs a program": {
			[]byte(head + "clusters: [{name: a, cluster: {server: 'https://a'}}]\nusers: [{name: a, user: {exec: {command: /bin/true, apiVersion: client.authentication.k8s.io/v1}}}]"),
			nil, v1alpha1.ReasonKubeconfigInvalid, "from a program, which is not run",
		},
		"one that reads a local file": {
			[]byte(head + "clusters: [{name: a, cluster: {server: 'https://a'}}]\nusers: [{name: a, user: {tokenFile: /etc/passwd}}]"),
			nil, v1alpha1.ReasonKubeconfigInvalid, `user "a" names files`,
		},
		"one whose authority is a local file": {
			[]byte(head + "clusters: [{name: a, cluster: {server: 'https://a', certificate-authority: /etc/ca}}]\nusers: [{name: a, user: {token: a}}]"),
			nil, v1alpha1.ReasonKubeconfigInvalid, `cluster "a" names a file`,
		},
		"one that does not verify the API server": {but(unverified), nil, v1alpha1.ReasonKubeconfigInvalid, "set spec.kubeconfigSecretRef.allowInsecure"},
		"one that does not, as the Cell allows":   {but(unverified), func(c *v1alpha1.Cell) { c.Spec.KubeconfigSecretRef.AllowInsecure = true }, "", ""},
		"one without TLS": {
			but(func(c *rest.Config) { c.Host = strings.Replace(c.Host, "https:", "http:", 1) }), nil,
			v1alpha1.ReasonKubeconfigInvalid, "set spec.kubeconfigSecretRef.allowInsecure",
		},
		"one with a proxy": {
			proxied(t, but(func(*rest.Config) {})), func(c *v1alpha1.Cell) { c.Spec.KubeconfigSecretRef.AllowInsecure = true },
			v1alpha1.ReasonKubeconfigInvalid, "set spec.kubeconfigSecretRef.allowProxy",
		},
		"one with a proxy that does not answer, as the Cell allows": {
			proxied(t, but(func(*rest.Config) {})), func(c *v1alpha1.Cell) { c.Spec.KubeconfigSecretRef.AllowProxy = true },
			v1alpha1.ReasonUnreachable, "proxyconnect",
		},
		"the authority of another cluster": {
			but(func(c *rest.Config) { c.CAData = testplane.Config(t).CAData }), nil, v1alpha1.ReasonWrongCA, "does not trust",
		},
		"a wrong token": {but(func(c *rest.Config) { c.BearerToken = "wrong" }), nil, v1alpha1.ReasonUnauthorized, "does not accept the credentials"},
		"an expired token": {
			but(func(c *rest.Config) { c.BearerToken = token(time.Now().Add(-time.Hour)) }), nil, v1alpha1.ReasonTokenExpired, "which expired at",
		},
		"no permissions":         {testplane.KubeconfigOf(t, r.worker("powerless", "")), nil, v1alpha1.ReasonForbidden, "a permission that Breakwater needs"},
		"an unreachable address": {but(func(c *rest.Config) { c.Host = "https://" + testplane.FreeAddress(t) }), nil, v1alpha1.ReasonUnreachable, "the request to https://"},
		"another cluster than before": {
			but(func(*rest.Config) {}), func(c *v1alpha1.Cell) { c.Status.Cluster = "of-before" }, v1alpha1.ReasonAnotherCluster, "leads to another cluster",
		},
	} {
		t.Run(claim, func(t *testing.T) {
			cell := &v1alpha1.Cell{}
			name := fmt.Sprintf("s%x", claim[:min(len(claim), 20)])
			cell.Spec.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: r.namespace, Name: name}
			if test.kubeconfig != nil {
				r.store(name, test.kubeconfig)
			}
			if test.change != nil {
				test.change(cell)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, cluster, err := clusters.Connect(ctx, r.Client, cell, "test")
			problem := (*clusters.Problem)(nil)
			switch {
			case test.reason == "" && (err != nil || cluster == ""):
				t.Errorf("cluster %q, error %v", cluster, err)
			case test.reason != "" && (!errors.As(err, &problem) || problem.Reason != test.reason):
				t.Errorf("error %v, want the reason %s", err, test.reason)
			case test.reason != "":
				wantError(t, err, test.word)
			}
		})
	}
}

// start starts a registry of the core.
func (r *fixture) start(change ...func(*clusters.CellRegistry)) *clusters.CellRegistry {
	r.Helper()
	core, err := cluster.New(testplane.Config(r), func(o *cluster.Options) { o.Scheme = clusters.Scheme() })
	if err != nil {
		r.Fatal(err)
	}
	roster := clusters.NewCellRegistry(core, "test", testr.New(r.T))
	for _, c := range change {
		c(roster)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- core.Start(ctx) }()
	go func() { ended <- roster.Start(ctx) }()
	r.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			r.Error(err)
		}
	})
	return roster
}

func TestWatchSurvivesKubeconfigRotation(t *testing.T) {
	r := newFixture(t)
	r.store("rotated", testplane.KubeconfigOf(t, r.worker("first", "cluster-admin")))
	cell := r.cell("rotated")
	roster := r.start()
	var connection *clusters.RotatingConnection
	r.eventually(func() string {
		m, ok := roster.Cell(cell.Name)
		if connection = m.Connection; connection == nil {
			return fmt.Sprintf("there %v, %v", ok, m.Err)
		}
		return ""
	})
	worker := kubernetes.NewForConfigOrDie(connection.Config())
	watch, err := worker.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{LabelSelector: "of=" + r.namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()

	// The registry does not use a kubeconfig that fails.
	r.store("rotated", []byte("{"))
	r.eventually(func() string {
		if m, _ := roster.Cell(cell.Name); m.Err == nil || m.Connection != connection {
			return fmt.Sprintf("connection %p, %v", m.Connection, m.Err)
		}
		return ""
	})
	if _, err := worker.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("with a kubeconfig that does not work in its Secret: %v", err)
	}

	r.store("rotated", testplane.KubeconfigOf(t, r.worker("second", "cluster-admin")))
	r.eventually(func() string {
		m, _ := roster.Cell(cell.Name)
		return expectedError(m.Err)
	})
	admin := kubernetes.NewForConfigOrDie(testplane.Second(t))
	if err := admin.CoreV1().ServiceAccounts("default").Delete(t.Context(), r.namespace+"-first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "r-", Labels: map[string]string{"of": r.namespace}}}
	if _, err := worker.CoreV1().ConfigMaps("default").Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
		t.Fatalf("by the client of before the rotation: %v", err)
	}
	select {
	case event, open := <-watch.ResultChan():
		if !open || event.Type != "ADDED" {
			t.Errorf("the watch of before the rotation is open: %v, event %+v", open, event)
		}
	case <-time.After(10 * time.Second):
		t.Error("the watch from before the rotation shows no event")
	}
}

func unverified(c *rest.Config) { c.Insecure, c.CAData = true, nil }

// proxied returns the kubeconfig with a proxy that does not answer.
func proxied(t *testing.T, kubeconfig []byte) []byte {
	t.Helper()
	file, err := clientcmd.Load(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range file.Clusters {
		cluster.ProxyURL = "http://" + testplane.FreeAddress(t)
	}
	raw, err := clientcmd.Write(*file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestConnectionEndsWhenCellDisallowsIt(t *testing.T) {
	r := newFixture(t)
	config := r.worker("allowed", "cluster-admin")
	unverified(config)
	r.store("allowed", testplane.KubeconfigOf(t, config))
	cell := r.cell("allowed")
	roster := r.start()
	connected := func(want bool) {
		t.Helper()
		r.eventually(func() string {
			if m, _ := roster.Cell(cell.Name); m.Connection != nil != want || m.Err == nil != want {
				return fmt.Sprintf("connected: %v, want %v; error: %v", m.Connection != nil, want, m.Err)
			}
			return ""
		})
	}
	allow := func(allowed bool) {
		t.Helper()
		before := cell.DeepCopy()
		cell.Spec.KubeconfigSecretRef.AllowInsecure = allowed
		if err := r.Patch(t.Context(), cell, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	connected(false)
	allow(true)
	connected(true)
	allow(false)
	connected(false)
}

func TestCellsAreAddedAndRemoved(t *testing.T) {
	r := newFixture(t)
	roster := r.start()
	r.eventually(func() string {
		if !roster.HasSynced() {
			return "the Cells are not read"
		}
		return ""
	})
	cell := r.cell("late")
	r.eventually(func() string {
		m, ok := roster.Cell(cell.Name)
		if problem := (*clusters.Problem)(nil); !ok || !errors.As(m.Err, &problem) || problem.Reason != v1alpha1.ReasonSecretMissing {
			return fmt.Sprintf("there %v, %v", ok, m.Err)
		}
		return ""
	})
	r.store("late", testplane.KubeconfigOf(t, r.worker("late", "cluster-admin")))
	r.eventually(func() string {
		m, _ := roster.Cell(cell.Name)
		if m.Connection == nil || m.Cluster == "" {
			return fmt.Sprintf("%+v", m)
		}
		return expectedError(m.Err)
	})
	if err := r.Delete(t.Context(), cell); err != nil {
		t.Fatal(err)
	}
	r.eventually(func() string {
		if m, ok := roster.Cell(cell.Name); ok {
			return fmt.Sprintf("it is still there: %+v", m)
		}
		return ""
	})
}

// A component that may not read the Secrets must not request them.
func TestNamesOnlyRegistryReadsNoSecrets(t *testing.T) {
	r := newFixture(t)
	cell := r.cell("named")
	r.store("named", testplane.KubeconfigOf(t, r.worker("named", "cluster-admin")))
	roster, connecting := r.start(func(roster *clusters.CellRegistry) { roster.NamesOnly = true }), r.start()
	r.eventually(func() string {
		if m, _ := connecting.Cell(cell.Name); m.Connection == nil {
			return fmt.Sprintf("%+v", m)
		}
		m, ok := roster.Cell(cell.Name)
		if !ok || m.Connection != nil || m.Err != nil {
			return fmt.Sprintf("there %v, %+v", ok, m)
		}
		return ""
	})
}

func expectedError(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func wantError(t *testing.T, err error, word string) {
	t.Helper()
	if !strings.Contains(err.Error(), word) {
		t.Errorf("error %q, want it to say %q", err, word)
	}
}
