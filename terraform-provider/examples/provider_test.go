package examples_test

import (
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// Every provider configuration on the provider's page connects to a cluster.
func TestProviderExamplesConnect(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		createFixture(t)
		for _, path := range matching(t, "provider/provider*.tf") {
			t.Run(path, func(t *testing.T) {
				d := terraform.New(t, program, "")
				prepareDir(t, d)
				example := strings.ReplaceAll(read(t, path), "https://core.example:6443", testplane.Config(t).Host)
				if strings.Contains(example, "required_providers") {
					d.Write("main.tf", "")
				}
				d.Write("example.tf", example)
				d.Write("look.tf", "data \"breakwater_topology\" \"here\" {}\noutput \"server\" {\n  value = data.breakwater_topology.here.core.server\n}\n")
				d.Run("apply", "-auto-approve")
				if got := d.Run("output", "-raw", "server"); !strings.HasSuffix(got, testplane.Config(t).Host) {
					t.Errorf("it led to %s, want %s", got, testplane.Config(t).Host)
				}
				d.Run("destroy", "-auto-approve")
			})
		}
	})
}
