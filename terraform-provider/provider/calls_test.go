package provider_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// counter counts the provider's requests to the API server.
type counter struct {
	sync.Mutex
	calls map[string]int
}

// reset returns the counts and resets them.
func (c *counter) reset() map[string]int {
	c.Lock()
	defer c.Unlock()
	counted := c.calls
	c.calls = map[string]int{}
	return counted
}

// withCounter returns a provider configuration that sends requests through a counter.
func withCounter(t testing.TB) (string, *counter) {
	t.Helper()
	c, b := &counter{calls: map[string]int{}}, newRecordingProxy(t)
	b.respond = func(_ http.ResponseWriter, r *http.Request) bool {
		c.Lock()
		defer c.Unlock()
		verb := r.Method
		if verb == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+resourceIn(r.URL.Path)) {
			verb = "LIST"
		}
		c.calls[verb+" "+resourceIn(r.URL.Path)]++
		return false
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, path, testplane.KubeconfigOf(t, b.Config))
	return fmt.Sprintf("provider \"breakwater\" {\n  config_path = %q\n}\n", path), c
}

// resourceIn returns the resource in the URL path of a request.
func resourceIn(path string) string {
	if _, rest, ok := strings.Cut(path, "/namespaces/"); ok {
		if parts := strings.Split(rest, "/"); len(parts) > 1 {
			return parts[1]
		}
	}
	return path
}

func manyProtectors(namespace, floor string, count int) string {
	return fmt.Sprintf(`
resource "breakwater_pod_protector" "many" {
  count               = %d
  namespace           = %q
  name                = "web-${count.index}"
  selector            = { match_labels = { app = "web-${count.index}" } }
  min_available       = %q
  deletion_protection = false
}`, count, namespace, floor)
}

// The first ten are read alone, because a list may cost more. Two namespaces have a list each.
func TestPlanWithoutChangesListsEachNamespaceOnce(t *testing.T) {
	for _, name := range []string{terraform.Terraform, terraform.OpenTofu} {
		t.Run(name, func(t *testing.T) {
			provider, asked := withCounter(t)
			second := strings.Replace(manyProtectors(testplane.Namespace(t), "1", 50), `"many"`, `"more"`, 1)
			c := terraform.New(t, name, provider+manyProtectors(testplane.Namespace(t), "1", 100)+second)
			c.Run("apply", "-auto-approve")
			if got := asked.reset(); got["POST podprotectors"] != 300 || got["GET podprotectors"] > 150 || got["PATCH podprotectors"] > 150 {
				t.Errorf("apply of 150 new protectors sent %v, want two dry runs for each, and at most one GET and one PATCH", got)
			}
			out, err := c.Try("plan", "-detailed-exitcode")
			if err != nil {
				t.Errorf("the second plan is not empty: %v\n%s", err, out)
			}
			got := asked.reset()
			if got["GET podprotectors"] != 20 || got["LIST podprotectors"] != 2 || got["GET /api/v1/namespaces/kube-system"] != 1 || len(got) != 3 {
				t.Errorf("plan of 150 unchanged protectors in two namespaces sent %v, want 20 GET requests and 2 LIST requests, and one that identifies the cluster", got)
			}
			c.Run("destroy", "-auto-approve")
			got = asked.reset()
			if got["DELETE podprotectors"] != 150 || got["PATCH podprotectors"] != 150 || got["GET podprotectors"] > 40 {
				t.Errorf("destroy of 150 protectors sent %v, want a confirmation and a DELETE request for each, and no GET request after it", got)
			}
		})
	}
}

// BenchmarkHundredProtectors measures how long 100 protectors take: created, planned again without changes, and destroyed.
func BenchmarkHundredProtectors(b *testing.B) {
	provider, asked := withCounter(b)
	for range b.N {
		namespace := testplane.Namespace(b)
		c := terraform.New(b, terraform.Terraform, provider+manyProtectors(namespace, "1", 100))
		asked.reset()
		measure := func(what string, arguments ...string) {
			start := time.Now()
			c.Run(arguments...)
			b.ReportMetric(time.Since(start).Seconds(), what+"-s")
			calls := 0
			for _, n := range asked.reset() {
				calls += n
			}
			b.ReportMetric(float64(calls)/100, what+"-calls/resource")
		}
		measure("apply", "apply", "-auto-approve")
		measure("plan", "plan", "-detailed-exitcode")
		measure("destroy", "destroy", "-auto-approve")
	}
}
