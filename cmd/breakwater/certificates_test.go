package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/webhook/register"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/check"
)

func TestCertificatesRejectsInvalidFlags(t *testing.T) {
	good := []string{"certificates", "--secret", "a/b", "--dns-name", "a.b.svc"}
	for claim, c := range map[string]struct {
		arguments []string
		want      string
	}{
		"nothing":                               {[]string{"certificates"}, "--secret or --caller-keys is required"},
		"no name":                               {[]string{"certificates", "--secret", "a/b"}, "--dns-name is required"},
		"keys without a namespace":              {[]string{"certificates", "--caller-keys", "b"}, `--caller-keys "b": want NAMESPACE/NAME`},
		"no caller overlap":                     {append(good, "--caller-keys", "a/c", "--caller-overlap", "0s"), "--caller-overlap 0s: want more than 0s"},
		"a caller overlap without keys":         {append(good, "--caller-overlap", "0s", "--kubeconfig", "/nonexistent"), "--kubeconfig: load kubeconfig"},
		"a Secret without a namespace":          {[]string{"certificates", "--secret", "b", "--dns-name", "a"}, `--secret "b": want NAMESPACE/NAME`},
		"an IP address":                         {append(good, "--dns-name", "10.0.0.1"), "--dns-name 10.0.0.1 is an IP address"},
		"an invalid name":                       {append(good, "--dns-name", "a_b"), `--dns-name "a_b"`},
		"renewal before the certificate begins": {append(good, "--lifetime", "24h", "--renew-before", "24h"), "--renew-before 24h0m0s: want more than 0s and less than --lifetime"},
		"no time until the CA is served":        {append(good, "--spread", "0s"), "--spread 0s: want more than 0s"},
		"waits longer than the renewal":         {append(good, "--lifetime", "4h", "--renew-before", "1h"), "less than --renew-before"},
		"an invalid Lease name":                 {append(good, "--leader-election-lease", "a/b"), `--leader-election-lease "a/b"`},
		"a short CA lifetime":                   {append(good, "--authority-lifetime", "8760h"), "--authority-lifetime 8760h0m0s"},
		"a missing kubeconfig":                  {append(good, "--kubeconfig", "/nonexistent"), "--kubeconfig: load kubeconfig"},
	} {
		t.Run(claim, func(t *testing.T) {
			if _, err := commandOutput(t, c.arguments...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one that contains %q", err, c.want)
			}
		})
	}
}

// runInBackground runs a command until the test ends.
func runInBackground(t *testing.T, arguments ...string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	command := rootCommand()
	command.SetArgs(arguments)
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("%s exited with %v", arguments[0], err)
		}
	})
}

// secretMount updates files like a kubelet that mounts a Secret: all files at once, some time after the Secret changed.
type secretMount struct {
	folder string
	number int
	last   map[string][]byte
}

const kubeletDelay = time.Second

// replicasDelay is longer than kubeletDelay plus the 10 seconds after which a webhook reads its files again at the latest.
const replicasDelay = 15 * time.Second

func (m *secretMount) update(t *testing.T, content map[string][]byte) {
	m.number++
	part := filepath.Join(m.folder, fmt.Sprint("..", m.number))
	if err := os.Mkdir(part, 0o700); err != nil {
		t.Error(err)
		return
	}
	for name, raw := range content {
		if err := os.WriteFile(filepath.Join(part, name), raw, 0o600); err != nil {
			t.Error(err)
		}
		_ = os.Symlink(filepath.Join("..data", name), filepath.Join(m.folder, name)) // exists after the first update
	}
	link := filepath.Join(m.folder, "..new")
	if err := os.Symlink(filepath.Base(part), link); err != nil {
		t.Error(err)
	}
	if err := os.Rename(link, filepath.Join(m.folder, "..data")); err != nil {
		t.Error(err)
	}
	_ = os.RemoveAll(filepath.Join(m.folder, fmt.Sprint("..", m.number-1)))
}

// follow updates the files until the context ends.
func (m *secretMount) follow(ctx context.Context, t *testing.T, c client.Client, key client.ObjectKey) {
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	var changed time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		secret := &corev1.Secret{}
		if err := c.Get(ctx, key, secret); err != nil {
			continue // the Secret does not exist yet, or the test is over
		}
		switch {
		case maps.EqualFunc(m.last, secret.Data, bytes.Equal):
			changed = time.Time{}
		case changed.IsZero():
			changed = time.Now()
		case time.Since(changed) >= kubeletDelay:
			m.update(t, secret.Data)
			m.last, changed = secret.Data, time.Time{}
		}
	}
}

// removalLoop removes pods sequentially until the context ends, and counts successes and failures.
type removalLoop struct {
	done, failed atomic.Int64
	last         atomic.Pointer[string]
}

func (r *removalLoop) run(ctx context.Context, c client.Client, namespace, name string) {
	for number := 0; ctx.Err() == nil; number++ {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(name, "-", number)}}
		pod.Spec = corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "web", Image: "web"}}}
		err := c.Create(ctx, pod)
		if err == nil {
			err = c.Delete(ctx, pod, client.GracePeriodSeconds(0))
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			text := err.Error()
			r.last.Store(&text)
			r.failed.Add(1)
		default:
			r.done.Add(1)
		}
	}
}

func TestCAReplacedUnderLoadWithoutLostReviews(t *testing.T) {
	namespace, address, admin := testplane.Namespace(t), testplane.FreeAddress(t), testplane.Client(t)
	secret := client.ObjectKey{Namespace: namespace, Name: "webhook-tls"}
	_, port, _ := strings.Cut(address, ":")
	configuration, err := register.Configuration(register.Options{
		Name: namespace, Cell: namespace, Namespaces: []string{namespace}, ExemptNamespaces: webhookconfig.DefaultExemptNamespaces(),
		TimeoutSeconds: 10, Endpoint: register.Endpoint{URL: "https://localhost:" + port},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = admin.Delete(context.Background(), configuration) })

	kubeconfig := writeKubeconfig(t, testplane.Config(t))
	createsSecrets := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}}
	inCluster, local := roles.CertificateRules(t, []string{namespace}, nil, secret.Name, "")
	testplane.User(t, "certificates-"+namespace, slices.Concat(inCluster, local, []rbacv1.PolicyRule{createsSecrets}))
	runInBackground(t, "certificates", "--kubeconfig", kubeconfig, "--as", "certificates-"+namespace, "--leader-election-namespace", namespace,
		"--secret", secret.String(), "--dns-name", "localhost", "--webhook-configuration", namespace,
		"--spread", "2s", "--overlap", replicasDelay.String(), "--metrics-listen", "0", "--health-listen", "0")

	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	files := &secretMount{folder: t.TempDir()}
	running.Go(func() { files.follow(ctx, t, admin, secret) })
	certificate := filepath.Join(files.folder, "tls.crt")
	eventually(t, "files", func() string {
		if _, err := os.Stat(certificate); err != nil {
			return err.Error()
		}
		return ""
	})
	health := testplane.FreeAddress(t)
	credentials := filepath.Join(t.TempDir(), "kubeconfig")
	former := createCredentials(t, credentials, namespace, "former")
	runInBackground(t, "webhook", "--core", "core="+credentials, "--cell", namespace+"="+kubeconfig, "--listen", address,
		"--tls-cert", certificate, "--tls-key", filepath.Join(files.folder, "tls.key"), "--metrics-listen", "0", "--health-listen", health)
	eventually(t, "a webhook", func() string { return fetch("http://"+health+"/readyz", "ok") })

	checker := "check-" + namespace
	testplane.User(t, checker, (&check.Checker{Core: true, Configurations: []string{namespace, "absent"}}).Rules())
	arguments := []string{"check", "--kubeconfig", kubeconfig, "--as", checker, "--namespace", namespace, "--webhook-configuration", namespace}
	if out, err := commandOutput(t, arguments...); err != nil || !strings.Contains(out, "pods.breakwater.dev  ok") {
		t.Errorf("check: %v\n%s", err, out)
	}
	out, err := commandOutput(t, append(arguments, "--core", "--webhook-configuration", "absent", "--timeout", "1s")...)
	if err == nil || !strings.Contains(out, "does not exist") || !strings.Contains(out, "API breakwater.dev/v1alpha1") || strings.Contains(out, "cannot be listed") {
		t.Errorf("check of a missing configuration: %v\n%s", err, out)
	}

	r := &removalLoop{}
	for client := range 4 {
		running.Go(func() { r.run(ctx, admin, namespace, fmt.Sprint("web-", client)) })
	}
	eventually(t, "removals", func() string { return atLeast(&r.done, 20) })
	replaceCA(t, admin, secret)
	enough := r.done.Load() + 20
	eventually(t, "removals after it", func() string { return atLeast(&r.done, enough) })
	if failed := r.failed.Load(); failed > 0 {
		t.Errorf("%d of %d removals failed, the last with: %s", failed, r.done.Load()+failed, *r.last.Load())
	}
	t.Logf("%d removals were answered", r.done.Load())

	createCredentials(t, credentials, namespace, "present")
	revokeCredentials(t, former, namespace, "former")
	removeProtectedPod(t, admin, namespace)
}

func atLeast(counter *atomic.Int64, want int64) string {
	if got := counter.Load(); got < want {
		return fmt.Sprintf("counter is %d, want at least %d", got, want)
	}
	return ""
}

// replaceCA replaces the CA, and waits until the previous CA is no longer in use.
func replaceCA(t *testing.T, c client.Client, secret client.ObjectKey) {
	t.Helper()
	read := func(name string) map[string][]byte {
		s := &corev1.Secret{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: secret.Namespace, Name: name}, s); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return s.Data
	}
	before, served := read(secret.Name + "-ca")["ca.crt"], read(secret.Name)["tls.crt"]
	if err := c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name + "-ca"}}); err != nil {
		t.Fatal(err)
	}
	both := false
	eventually(t, "another authority alone", func() string {
		authority, tls := read(secret.Name + "-ca")["ca.crt"], read(secret.Name)
		both = both || bytes.Count(tls["ca.crt"], []byte("BEGIN CERTIFICATE")) == 2
		if len(authority) == 0 || bytes.Equal(authority, before) || bytes.Equal(tls["tls.crt"], served) || !bytes.Equal(tls["ca.crt"], authority) {
			return "the Secret trusts\n" + string(tls["ca.crt"])
		}
		return ""
	})
	if !both {
		t.Error("the old and the new CA were never trusted together")
	}
}
