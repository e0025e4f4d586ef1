package kind_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/kind"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/registry"
)

const (
	namespace = "breakwater-system"
	// fullName is the prefix of the names of all objects, and the name of the release.
	fullName = "breakwater"
	// timeout is the flag of tools that wait for pods.
	timeout = "--timeout=240s"
)

// releases are the releases of the charts in each cluster.
type releases struct {
	kind   *kind.Federation
	charts string
	images []image
	values map[string]string // files, by cluster
	// registry has the first version, which the nodes then pull from there; empty: the nodes have its image.
	registry string
}

// installCharts follows docs/how-to/install.md. It installs the CRDs in the cores and Breakwater in all clusters, and then creates the
// kubeconfigs with which they reach each other.
func installCharts(t *testing.T, f *kind.Federation, images []image, registry string) *releases {
	t.Helper()
	began := time.Now()
	r := &releases{kind: f, charts: filepath.Join(repositoryRoot(t), "charts"), images: images, values: map[string]string{}, registry: registry}
	for _, cluster := range f.Clusters() {
		own := values(f, cluster)
		if cluster.HasRole(federation.Core) == cluster.HasRole(federation.Worker) {
			// A user provides the certificate here. This needs neither cert-manager nor a component of Breakwater.
			own["tls"] = map[string]any{"mode": "secret", "secretName": ownSecret}
			own["webhook"] = map[string]any{"caBundle": ownCertificate(t, cluster)}
		}
		raw, err := yaml.Marshal(own)
		noError(t, err)
		file := filepath.Join(t.TempDir(), "values.yaml")
		noError(t, os.WriteFile(file, raw, 0o600))
		r.values[cluster.Name()] = file
		if cluster.HasRole(federation.Core) {
			e2e.RunTool(t.Context(), t, "helm", cluster.Kubeconfig(), append([]string{"install", "breakwater-crds", "--wait", timeout}, r.chart("breakwater-crds", images[0])...)...)
		}
		e2e.RunTool(t.Context(), t, "helm", cluster.Kubeconfig(), r.arguments(t, "install", cluster, images[0], "--create-namespace")...)
	}
	r.joinClusters(t)
	r.waitForAvailable(t)
	t.Logf("FIGURE Breakwater was installed in %d clusters within %s", len(f.Clusters()), roundedSince(began))
	return r
}

// values returns the chart values of a cluster, as a user would write them.
func values(f *kind.Federation, cluster federation.Cluster) map[string]any {
	named := func(clusters []federation.Cluster) (names []map[string]any) {
		for _, c := range clusters {
			names = append(names, map[string]any{"name": c.Name()})
		}
		return names
	}
	v := map[string]any{"tls": map[string]any{"mode": "self-signed"}}
	switch core, worker := cluster.HasRole(federation.Core), cluster.HasRole(federation.Worker); {
	case core && worker:
		v["role"], v["core"], v["cells"] = "single", map[string]any{"name": cluster.Name()}, named([]federation.Cluster{cluster})
	case core:
		v["role"], v["core"], v["remoteCells"] = "core", map[string]any{"name": cluster.Name()}, named(f.Workers())
	default:
		v["role"], v["cores"], v["cells"] = "worker", named(f.Cores()), named([]federation.Cluster{cluster})
	}
	return v
}

func (r *releases) arguments(t testing.TB, command string, cluster federation.Cluster, image image, more ...string) []string {
	t.Helper()
	return slices.Concat([]string{command, fullName, "--namespace", namespace, "--values", r.values[cluster.Name()]}, r.chart("breakwater", image), more)
}

// chart returns the arguments of Helm for a chart and the image: from the registry with the defaults of a release, or from the tree.
func (r *releases) chart(name string, image image) []string {
	if r.registry != "" && image.tag == firstVersion {
		return []string{"oci://" + r.registry + "/charts/" + name, "--plain-http", "--version", image.tag}
	}
	arguments := []string{filepath.Join(r.charts, name)}
	if name == "breakwater" {
		arguments = append(arguments, "--set", "image.tag="+image.tag, "--set", "image.pullPolicy=Never")
	}
	return arguments
}

// startRegistry pushes a release of the first version to a registry, and makes the nodes of a cluster pull Breakwater from there.
func startRegistry(t *testing.T, cluster *kind.Cluster) string {
	t.Helper()
	gateway, err := cluster.Gateway(t.Context())
	noError(t, err)
	address := registry.Start(t, gateway)
	helm, err := local.BuiltProgram("helm")
	noError(t, err)
	buildRelease(t, "-only", "install", "-version", firstVersion, "-out", t.TempDir(), "-helm", helm, "-push", address+"/breakwater-k8s")
	noError(t, cluster.Mirror("ghcr.io", "http://"+address))
	return address + "/breakwater-k8s"
}

// upgradeAll upgrades all clusters from the first version to the second one, cores first.
func (r *releases) upgradeAll(t testing.TB) {
	t.Helper()
	for _, cluster := range r.kind.Clusters() {
		e2e.RunTool(t.Context(), t, "helm", cluster.Kubeconfig(), r.arguments(t, "upgrade", cluster, r.images[1], "--wait", timeout)...)
	}
	for _, cluster := range r.kind.Clusters() {
		expectImage(t, cluster, repository+":"+r.images[1].tag)
	}
}

// expectImage checks that all pods of Breakwater that are not terminating run an image.
func expectImage(t testing.TB, cluster federation.Cluster, want string) {
	t.Helper()
	clients, err := kubernetes.NewForConfig(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	pods, err := clients.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("cluster %s has %d pods of Breakwater: %v", cluster.Name(), len(pods.Items), err)
	}
	for _, pod := range pods.Items {
		if got := pod.Spec.Containers[0].Image; got != want && pod.DeletionTimestamp == nil {
			t.Errorf("pod %s of cluster %s runs %s, want %s", pod.Name, cluster.Name(), got, want)
		}
	}
}

// waitForAvailable waits until all Deployments in all clusters are available.
func (r *releases) waitForAvailable(t testing.TB) {
	t.Helper()
	for _, cluster := range r.kind.Clusters() {
		e2e.RunTool(t.Context(), t, "kubectl", cluster.Kubeconfig(), "-n", namespace, "wait", "deployment", "--all", "--for=condition=Available", timeout)
	}
}

// logComponents logs the pods, the logs and the events of Breakwater's components in all clusters.
func (r *releases) logComponents(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	for _, cluster := range r.kind.Clusters() {
		for _, look := range [][]string{
			{"-n", namespace, "get", "pods", "-o", "wide"},
			{"-n", namespace, "logs", "--selector=app.kubernetes.io/part-of=breakwater", "--prefix", "--tail=15", "--max-log-requests=30"},
			{"-n", namespace, "get", "events", "--sort-by=.lastTimestamp"},
		} {
			c := e2e.StartTool(ctx, t, "kubectl", cluster.Kubeconfig(), look...)
			_ = c.Wait() // its output contains the reason
			output := c.String()
			t.Logf("cluster %s: kubectl %s\n%s", cluster.Name(), strings.Join(look, " "), output[max(0, len(output)-8000):])
		}
	}
}
