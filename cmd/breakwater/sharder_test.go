package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/sharder"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/check"
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
)

// writeCertificate creates a certificate for the loopback address, and its key.
func writeCertificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	cert, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	certFile, keyFile = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	for file, content := range map[string][]byte{certFile: cert, keyFile: key} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func TestSharderRejectsInvalidFlags(t *testing.T) {
	kubeconfig := writeKubeconfig(t, testplane.Config(t))
	certFile, keyFile := writeCertificate(t)
	tls := []string{"--tls-cert", certFile, "--tls-key", keyFile}
	good := slices.Concat(tls, []string{"--service", "a/b", "--kubeconfig", kubeconfig, "--leader-elect=false", "--metrics-listen", "0", "--health-listen", "0"})
	for claim, c := range map[string]struct {
		arguments []string
		want      string
	}{
		"nothing":                           {nil, "--tls-cert and --tls-key are required"},
		"no endpoint":                       {tls, "--service or --url is required"},
		"both endpoints":                    {append(tls, "--service", "a/b", "--url", "https://a"), "--service and --url exclude each other"},
		"a Service without a namespace":     {append(tls, "--service", "b"), `--service "b": want NAMESPACE/NAME[:PORT]`},
		"a Service with an invalid port":    {append(tls, "--service", "a/b:x"), `--service "a/b:x": want NAMESPACE/NAME[:PORT] with a port from 1 to 65535`},
		"a Service with a port above 65535": {append(tls, "--service", "a/b:65536"), `--service "a/b:65536": want NAMESPACE/NAME[:PORT] with a port from 1 to 65535`},
		"a URL without https":               {append(tls, "--url", "http://a"), `--url "http://a": want only https://HOST:PORT`},
		"a URL with a path":                 {append(tls, "--url", "https://a/rings"), `--url "https://a/rings": want only https://HOST:PORT`},
		"a URL with a user":                 {append(tls, "--url", "https://a@b"), `--url "https://a@b"`},
		"port 0":                            {append(good, "--listen", ":0"), `--listen ":0": want [HOST]:PORT`},
		"an address without a port":         {append(good, "--listen", "9443"), `--listen "9443": want [HOST]:PORT`},
		"two sources of the CA":             {append(good, "--tls-ca", certFile, "--inject-ca-from", "a/b"), "--tls-ca and --inject-ca-from exclude each other"},
		"a Certificate without a namespace": {append(good, "--inject-ca-from", "b"), `--inject-ca-from "b": want NAMESPACE/NAME`},
		"a missing CA file":                 {append(good, "--tls-ca", "/nonexistent"), "--tls-ca: open /nonexistent"},
		"a CA file without certificates":    {append(good, "--tls-ca", keyFile), "holds no PEM certificate"},
		"an invalid namespace":              {append(good, "--shard-namespaces", "a,B"), `--shard-namespaces "B"`},
		"a drain that is too long":          {append(good, "--drain", "2m"), "--drain 2m0s: want from 0s to 1m"},
		"a missing certificate":             {append(good, "--tls-cert", "/nonexistent"), "--tls-cert /nonexistent, --tls-key " + keyFile},
		"a missing kubeconfig":              {append(good, "--kubeconfig", "/nonexistent"), "--kubeconfig: load kubeconfig"},
		"a missing election namespace":      {append(good, "--leader-elect", "--leader-election-namespace", "moon"), "--leader-election-namespace moon: "},
		"arguments":                         {append(good, "shops"), "unknown command"},
	} {
		t.Run(claim, func(t *testing.T) {
			if _, err := commandOutput(t, append([]string{"sharder"}, c.arguments...)...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that contains %q", err, c.want)
			}
		})
	}
}

func TestSharderLifecycle(t *testing.T) {
	config := testplane.Config(t)
	namespace, elections := testplane.Namespace(t), testplane.Namespace(t)
	admin := testplane.Client(t)
	certFile, keyFile := writeCertificate(t)
	for _, object := range []client.Object{
		&v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: v1alpha1.ClusterRingSpec{
			ShardNamespace: namespace, Resources: []v1alpha1.RingResource{{GroupResource: v1alpha1.GroupResource{Resource: "configmaps"}}},
			NamespaceSelector: &v1alpha1.PodSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
		}},
		&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shard-0", Labels: map[string]string{v1alpha1.LabelRing: namespace}},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To("shard-0_1"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: ptr.To(metav1.NowMicro()),
			},
		},
	} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(context.Background(), object) })
	}
	address, health, metrics := testplane.FreeAddress(t), testplane.FreeAddress(t), testplane.FreeAddress(t)
	ctx, stop := context.WithCancel(t.Context())
	command := rootCommand()
	command.SetArgs([]string{"sharder", "--kubeconfig", writeKubeconfig(t, config), "--leader-election-namespace", elections, "--shard-namespaces", namespace,
		"--listen", address, "--url", "https://" + address, "--tls-cert", certFile, "--tls-key", keyFile, "--tls-ca", certFile,
		"--health-listen", health, "--metrics-listen", metrics, "--drain", "500ms"})
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	defer stop()
	eventually(t, "ready", func() string { return fetch("http://"+health+"/readyz", "ok") })

	eventually(t, "a ConfigMap is assigned", func() string {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "m-"}}
		if err := admin.Create(t.Context(), m); err != nil {
			t.Fatalf("create of the ConfigMap: %v", err)
		}
		if m.Labels[v1alpha1.LabelShard(namespace)] != "shard-0" {
			return "it is not"
		}
		return ""
	})
	eventually(t, "metrics", func() string {
		return fetch("http://"+metrics+"/metrics", `breakwater_ring_admission_reviews_total{reason="Assigned",ring="`+namespace+`"}`)
	})
	checker := "helm-test-" + namespace
	testplane.User(t, checker, (&check.Checker{Rings: true}).Rules())
	out, err := commandOutput(t, "check", "--kubeconfig", writeKubeconfig(t, config), "--as", checker, "--namespace", namespace, "--rings")
	for _, row := range []string{"ClusterRing " + namespace + " ", "MutatingWebhookConfiguration breakwater-ring-" + namespace + ", assign.rings.breakwater.dev"} {
		if err != nil || !strings.Contains(out, row) {
			t.Errorf("output of check (error %v) has no row for %s:\n%s", err, row, out)
		}
	}
	began := time.Now()
	stop()
	if err := <-ended; err != nil {
		t.Errorf("sharder exited with %v", err)
	}
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("sharder answered for only %s after SIGTERM", took)
	}
	lease, err := kubernetes.NewForConfigOrDie(config).CoordinationV1().Leases(elections).Get(t.Context(), sharder.Name, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("Lease is %+v, error %v, want it released", lease, err)
	}
}

// A sharder of some namespaces needs no permission to read Leases in others.
func TestSharderReadsLeasesOfNamespaces(t *testing.T) {
	admin, namespace, other := testplane.Client(t), testplane.Namespace(t), testplane.Namespace(t)
	for _, object := range []client.Object{
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shards"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"list", "watch"}},
		}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shards"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "shards"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "of-shards"}},
		},
	} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []struct{ namespace, name, ring string }{{namespace, "a", "r"}, {namespace, "election", ""}, {other, "b", "r"}} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.name}}
		if l.ring != "" {
			lease.Labels = map[string]string{v1alpha1.LabelRing: l.ring}
		}
		if err := admin.Create(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	options := clusters.CacheOptions()
	members.Select(&options, namespace)
	user := testplane.Config(t)
	user.Impersonate = rest.ImpersonationConfig{UserName: "of-shards"}
	leases, err := cache.New(user, options)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = leases.Start(t.Context()) }()
	eventually(t, "one Lease is read", func() string {
		list := &coordinationv1.LeaseList{}
		if err := leases.List(t.Context(), list); err != nil || len(list.Items) != 1 || list.Items[0].Name != "a" {
			return fmt.Sprintf("%+v, error %v", list.Items, err)
		}
		return ""
	})
}

func TestSharderEndpointAndCA(t *testing.T) {
	certFile, _ := writeCertificate(t)
	another, _ := writeCertificate(t)
	config, err := sharderEndpoint("breakwater-system/sharder:8443", "")
	if err != nil {
		t.Fatal(err)
	}
	a := &endpointCA{config: config, file: certFile, log: logr.Discard(), interval: 5 * time.Millisecond}
	if _, err := a.read(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = a.Start(t.Context()) }()
	content := func(file string) []byte {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	want := admissionregistrationv1.WebhookClientConfig{CABundle: content(certFile), Service: &admissionregistrationv1.ServiceReference{
		Namespace: "breakwater-system", Name: "sharder", Port: ptr.To[int32](8443),
	}}
	if diff := cmp.Diff(want, a.clientConfig()); diff != "" {
		t.Errorf("want - got +\n%s", diff)
	}
	replace := func(raw []byte) {
		t.Helper()
		if err := os.WriteFile(certFile+".new", raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(certFile+".new", certFile); err != nil {
			t.Fatal(err)
		}
	}
	replace([]byte("garbage"))
	if _, err := a.read(); err == nil || string(a.clientConfig().CABundle) != string(want.CABundle) {
		t.Errorf("CA bundle %s after invalid content, error %v, want the previous one", a.clientConfig().CABundle, err)
	}
	replace(content(another))
	want.CABundle = content(another)
	eventually(t, "the new CA bundle", func() string { return cmp.Diff(want, a.clientConfig()) })
	if err := os.Remove(certFile); err != nil {
		t.Fatal(err)
	}
	if _, err := a.read(); err == nil || len(a.clientConfig().CABundle) == 0 {
		t.Errorf("CA bundle is empty without the file, error %v", err)
	}

	if config, err = sharderEndpoint("", "https://a.example:9443/"); err != nil || *config.URL != "https://a.example:9443" || config.Service != nil {
		t.Errorf("%+v, error %v", config, err)
	}
}

func TestRingQueueNeverBlocks(t *testing.T) {
	k := newRingQueue()
	for range 2 * cap(k) {
		k.enqueue("shops")
	}
	if len(k) != cap(k) {
		t.Errorf("%d queued rings, want the capacity", len(k))
	}
}
