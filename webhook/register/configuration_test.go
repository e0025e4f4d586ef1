package register_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Users apply these files to their clusters: each change of a file changes what is guarded.
func TestConfiguration(t *testing.T) {
	for name, endpoint := range map[string]register.Endpoint{
		"url":     {URL: "https://breakwater.example:9443/", CABundle: []byte("PEM")},
		"service": {ServiceNamespace: "breakwater-system", ServiceName: "webhook", ServicePort: 443},
	} {
		t.Run(name, func(t *testing.T) {
			configuration, err := register.Configuration(register.Options{
				Name: "breakwater", Cell: "worker-1", Endpoint: endpoint, TimeoutSeconds: 10,
				ExemptNamespaces: webhookconfig.DefaultExemptNamespaces(),
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(configuration)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join("testdata", "configuration-"+name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("configuration (-want +got):\n%s\n%s", diff, got)
			}
		})
	}
}

func TestSchedulingConfiguration(t *testing.T) {
	configuration, err := register.SchedulingConfiguration(register.Options{
		Name: "breakwater-scheduling", Cell: "worker-1", Namespaces: []string{"shop"}, TimeoutSeconds: 2,
		Endpoint: register.Endpoint{URL: "https://breakwater.example:9443", CABundle: []byte("PEM")}, ExemptNamespaces: webhookconfig.DefaultExemptNamespaces(),
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := yaml.Marshal(configuration)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "configuration-scheduling.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("configuration (-want +got):\n%s\n%s", diff, got)
	}
}

func TestRootConfiguration(t *testing.T) {
	configuration, err := register.RootConfiguration(register.RootOptions{
		Options: register.Options{
			Name: "breakwater-roots", Core: "core", TimeoutSeconds: 2, ExemptNamespaces: webhookconfig.DefaultExemptNamespaces(),
			Endpoint: register.Endpoint{URL: "https://breakwater.example:9443", CABundle: []byte("PEM")},
		},
		Cells: []string{"local"}, Kinds: []schema.GroupResource{{Group: "argoproj.io", Resource: "rollouts"}}, OwnNamespace: "breakwater-system",
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := yaml.Marshal(configuration)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "configuration-roots.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestConfigurationNeedsOneAddress(t *testing.T) {
	for claim, test := range map[string]struct {
		endpoint register.Endpoint
		want     string
	}{
		"none":             {register.Endpoint{}, "set --url or --service"},
		"two":              {register.Endpoint{URL: "https://a", ServiceName: "b"}, "exclude each other"},
		"without TLS":      {register.Endpoint{URL: "http://a"}, `--url "http://a": want https://HOST:PORT`},
		"without a scheme": {register.Endpoint{URL: "a:9443"}, "want https://HOST:PORT"},
		"without a host":   {register.Endpoint{URL: "https:///cells"}, "want https://HOST:PORT"},
		"that is invalid":  {register.Endpoint{URL: "https://a b:%"}, "want https://HOST:PORT"},
		"with a path":      {register.Endpoint{URL: "https://a/cells/b/validate"}, "want no path, query or user"},
		"with a query":     {register.Endpoint{URL: "https://a?cell=b"}, "want no path, query or user"},
		"with a user":      {register.Endpoint{URL: "https://user@a"}, "want no path, query or user"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, err := register.Configuration(register.Options{Cell: "worker-1", Endpoint: test.endpoint})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want it to say %q", err, test.want)
			}
		})
	}
}
