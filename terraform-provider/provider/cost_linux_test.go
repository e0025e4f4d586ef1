package provider_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// BenchmarkThousandProtectors measures the CPU time and the memory of 1,000 protectors in four namespaces: when the last 600 are created, in a
// plan without changes, and when all are destroyed. With a local state, Terraform writes the whole state after each resource.
func BenchmarkThousandProtectors(b *testing.B) {
	b.Run("state=remote", func(b *testing.B) {
		for range b.N {
			thousandProtectors(b, remoteState(b))
		}
	})
	b.Run("state=local", func(b *testing.B) {
		for range b.N {
			thousandProtectors(b, "")
		}
	})
}

// thousandProtectors measures with a backend; empty for a local state.
func thousandProtectors(b *testing.B, backend string) {
	b.Helper()
	namespaces := [4]string{}
	for i := range namespaces {
		namespaces[i] = testplane.Namespace(b)
	}
	protectors := func(inEach int) string {
		text := fmt.Sprintf("%sprovider \"breakwater\" {\n  config_path = %q\n}\n", backend, testplane.Kubeconfig(b))
		for i, namespace := range namespaces {
			text += protectorsOf(fmt.Sprintf("of_%d", i), namespace, inEach)
		}
		return text
	}
	d := terraform.NewAccounted(b, terraform.Terraform, "")
	d.Write("main.tf", backend)
	d.Run("init")
	d.SetConfiguration(protectors(100))
	d.Cost("apply", "-auto-approve")
	d.SetConfiguration(protectors(250))
	apply := d.Cost("apply", "-auto-approve")
	plan := d.Cost("plan", "-detailed-exitcode")
	destroy := d.Cost("destroy", "-auto-approve")
	b.ReportMetric(plan.Total.Seconds(), "plan-cpu-s")
	b.ReportMetric(plan.Provider.Seconds(), "plan-provider-cpu-s")
	b.ReportMetric(apply.Total.Seconds()*1000/600, "apply-cpu-ms/resource")
	b.ReportMetric(apply.Provider.Seconds()*1000/600, "apply-provider-cpu-ms/resource")
	b.ReportMetric(destroy.Total.Seconds(), "destroy-cpu-ms/resource") // of 1,000 resources
	b.ReportMetric(destroy.Provider.Seconds(), "destroy-provider-cpu-ms/resource")
	b.ReportMetric(max(apply.PeakMiB, plan.PeakMiB, destroy.PeakMiB), "peak-MiB")
}

// protectorsOf returns the configuration of many protectors in a namespace.
func protectorsOf(name, namespace string, count int) string {
	return fmt.Sprintf(`
resource "breakwater_pod_protector" %q {
  count               = %d
  namespace           = %q
  name                = "web-${count.index}"
  selector            = { match_labels = { app = "web-${count.index}" } }
  min_available       = "1"
  deletion_protection = false
}
`, name, count, namespace)
}

// remoteState starts a server that keeps a state, and returns the configuration of its backend.
func remoteState(b *testing.B) string {
	b.Helper()
	var mutex sync.Mutex
	var state []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		switch {
		case r.Method == http.MethodPost:
			state, _ = io.ReadAll(r.Body) // Terraform reads it again
		case state == nil:
			http.NotFound(w, r)
		default:
			_, _ = w.Write(state)
		}
	}))
	b.Cleanup(server.Close)
	return fmt.Sprintf("terraform {\n  backend \"http\" {\n    address = %q\n  }\n}\n", server.URL)
}
