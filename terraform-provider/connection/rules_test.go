package connection_test

import (
	"encoding/base64"
	"maps"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/breakwater-k8s/breakwater/terraform-provider/connection"
)

func TestValidateReportsContradictions(t *testing.T) {
	p := newPairs(t)
	plugin := map[string]any{"api_version": "client.authentication.k8s.io/v1", "command": "c"}
	for claim, c := range map[string]struct {
		said     configuration
		at, want string
	}{
		"two kubeconfigs":                {configuration{"config_path": "a", "kubeconfig": twoContexts}, "config_path", "config_path and kubeconfig are mutually exclusive"},
		"several files and a text":       {configuration{"config_paths": []any{"a"}, "kubeconfig": twoContexts}, "config_paths", "config_paths and kubeconfig are mutually exclusive"},
		"a file and several":             {configuration{"config_paths": []any{"a"}, "config_path": "a"}, "config_paths", "config_paths and config_path are mutually exclusive"},
		"no files":                       {configuration{"config_paths": []any{}}, "config_paths", "config_paths is empty"},
		"a file without a name":          {configuration{"config_paths": []any{"a", ""}}, "config_paths[1]", "is empty"},
		"a file that is null":            {configuration{"config_paths": []any{nil}}, "config_paths[0]", "is empty"},
		"a plugin and a token":           {configuration{"exec": plugin, "token": "hidden"}, "exec", "exec and token are mutually exclusive"},
		"a plugin and a password":        {configuration{"exec": plugin, "username": "u", "password": "hidden"}, "exec", "exec and username are mutually exclusive"},
		"a password and a token":         {configuration{"username": "u", "password": "hidden", "token": "hidden"}, "username", "username and token are mutually exclusive"},
		"a name without a password":      {configuration{"username": "u"}, "username", "username needs password"},
		"a certificate without a key":    {configuration{"client_certificate": string(p.one.Certificate)}, "client_certificate", "client_certificate needs client_key: set both, or neither"},
		"a key without a certificate":    {configuration{"client_key": string(p.one.Key)}, "client_key", "client_key needs client_certificate"},
		"another's key":                  {configuration{"client_certificate": string(p.one.Certificate), "client_key": string(p.two.Key)}, "client_key", "client_key is not the key of client_certificate"},
		"an encrypted key":               {configuration{"client_certificate": string(p.one.Certificate), "client_key": p.encrypted}, "client_key", "client_key is encrypted"},
		"a key that is none":             {configuration{"client_certificate": string(p.one.Certificate), "client_key": "hidden"}, "client_key", "client_key is not a PEM private key"},
		"a certificate in base64":        {configuration{"cluster_ca_certificate": base64.StdEncoding.EncodeToString([]byte(p.ca))}, "cluster_ca_certificate", "base64decode(TEXT)"},
		"a certificate that is damaged":  {configuration{"cluster_ca_certificate": p.bad}, "cluster_ca_certificate", "contains a certificate that cannot be parsed"},
		"trust in all and in one":        {configuration{"insecure": true, "cluster_ca_certificate": p.ca}, "insecure", "insecure disables verification, but cluster_ca_certificate configures it"},
		"a host without a scheme":        {configuration{"host": "core.example:6443"}, "host", "host is not a URL: use a value like https://core.example:6443"},
		"a host with a password":         {configuration{"host": "https://me:hidden@core"}, "host", "host contains a user"},
		"a host with a query":            {configuration{"host": "https://core?a=b"}, "host", "host has a query or a fragment"},
		"a host that is empty":           {configuration{"host": ""}, "host", "host is empty: remove it, or set it to null"},
		"a proxy that is no URL":         {configuration{"proxy_url": "proxy:3128"}, "proxy_url", "proxy_url is not a proxy URL"},
		"a token with a line break":      {configuration{"token": "hid\nden"}, "token", "token is not a token"},
		"a kubeconfig that is a path":    {configuration{"kubeconfig": "~/.kube/config"}, "kubeconfig", "kubeconfig is not the content of a kubeconfig: use config_path for the path"},
		"a kubeconfig that is damaged":   {configuration{"kubeconfig": strings.Replace(twoContexts, "token-of-core", "[hidden]", 1)}, "kubeconfig", "is not the content of a kubeconfig"},
		"a kubeconfig that has nothing":  {configuration{"kubeconfig": "kind: Config\napiVersion: v1"}, "kubeconfig", "is not the content of a kubeconfig"},
		"a time in the past":             {configuration{"timeout": "-1s"}, "timeout", "timeout is negative"},
		"a time without a unit":          {configuration{"timeout": "30"}, "timeout", "timeout is not a duration"},
		"a pod and a host":               {configuration{"in_cluster": true, "host": "https://core"}, "host", "host has no effect with in_cluster"},
		"a pod and a context":            {configuration{"in_cluster": true, "config_context": "core"}, "config_context", "config_context has no effect with in_cluster"},
		"a pod and a plugin":             {configuration{"in_cluster": true, "exec": plugin}, "exec", "exec has no effect with in_cluster"},
		"a plugin of an unknown version": {configuration{"exec": map[string]any{"api_version": "client.authentication.k8s.io/v1alpha1", "command": "c"}}, "exec.api_version", "must be client.authentication.k8s.io/v1 or"},
		"a plugin without a version":     {configuration{"exec": map[string]any{"command": "c"}}, "exec.api_version", "must be client.authentication.k8s.io/v1 or"},
		"a plugin without a command":     {configuration{"exec": map[string]any{"api_version": "client.authentication.k8s.io/v1", "command": ""}}, "exec.command", "command of exec is missing"},
		"a plugin with an argument that is null": {configuration{"exec": map[string]any{"api_version": "client.authentication.k8s.io/v1", "command": "c", "args": []any{nil}}},
			"exec.args", "args of exec contains null"},
		"a plugin with a variable that is null": {configuration{"exec": map[string]any{"api_version": "client.authentication.k8s.io/v1", "command": "c", "env": map[string]any{"A": nil}}},
			"exec.env", "env of exec contains a variable without name or value"},
	} {
		t.Run(claim, func(t *testing.T) {
			d := c.said.model(t).Validate()
			if len(d) != 1 {
				t.Fatalf("%d problems: %v", len(d), d)
			}
			at, ok := d[0].(diag.DiagnosticWithPath)
			if !ok || at.Path().String() != c.at || !strings.Contains(d[0].Detail(), c.want) {
				t.Errorf("got %v, want %q at %s", d[0], c.want, c.at)
			}
			if strings.Contains(d[0].Detail(), "hidden") {
				t.Errorf("error contains a secret: %s", d[0].Detail())
			}
		})
	}
}

func TestValidateIgnoresUnknownValues(t *testing.T) {
	p := newPairs(t)
	plugin := map[string]any{"api_version": unknown{}, "command": unknown{}, "args": []any{unknown{}}, "env": map[string]any{"A": unknown{}}}
	for claim, s := range map[string]configuration{
		"one of two kubeconfigs":            {"config_path": unknown{}, "kubeconfig": twoContexts},
		"the other one of them":             {"config_paths": []any{unknown{}}},
		"a list of files":                   {"config_paths": unknown{}, "config_path": "a"},
		"the key of a certificate":          {"client_certificate": string(p.one.Certificate), "client_key": unknown{}},
		"the certificate of a key":          {"client_certificate": unknown{}, "client_key": string(p.one.Key)},
		"a token beside a plugin":           {"exec": map[string]any{"api_version": "client.authentication.k8s.io/v1", "command": "c"}, "token": unknown{}},
		"a plugin beside a token":           {"exec": unknown{}, "token": "t"},
		"what a plugin is given":            {"exec": plugin},
		"a host, a proxy, a time":           {"host": unknown{}, "proxy_url": unknown{}, "timeout": unknown{}},
		"a pod beside a host":               {"in_cluster": unknown{}, "host": "https://core"},
		"a host beside a pod":               {"in_cluster": true, "host": unknown{}},
		"trust beside an authority":         {"insecure": unknown{}, "cluster_ca_certificate": p.ca},
		"an authority beside trust in all":  {"insecure": true, "cluster_ca_certificate": unknown{}},
		"a password, and the name of it":    {"username": unknown{}, "password": "p"},
		"everything that can log one in at": {"token": unknown{}, "username": unknown{}, "password": unknown{}, "exec": unknown{}},
	} {
		t.Run(claim, func(t *testing.T) {
			m := s.model(t)
			if d := m.Validate(); len(d) > 0 {
				t.Errorf("Validate() of unknown values: %v", d)
			}
			if !m.IsUnknown() {
				t.Error("IsUnknown() = false, want true")
			}
		})
	}
}

func TestIsUnknown(t *testing.T) {
	full := configuration{"host": "https://core", "config_paths": []any{"a"}, "exec": map[string]any{"api_version": "v", "command": "c", "env": map[string]any{"A": "B"}}}
	for claim, s := range map[string]configuration{"nothing": {}, "much": maps.Clone(full)} {
		if s.model(t).IsUnknown() {
			t.Errorf("IsUnknown() with a known %s = true", claim)
		}
	}
}

func TestSecretsAreSensitive(t *testing.T) {
	schema := connection.Schema()
	for _, at := range []path.Path{
		path.Root("token"), path.Root("client_key"), path.Root("password"), path.Root("kubeconfig"), path.Root("proxy_url"), path.Root("exec").AtName("env"),
	} {
		attribute, d := schema.AttributeAtPath(t.Context(), at)
		if d.HasError() {
			t.Fatal(d)
		}
		if !attribute.IsSensitive() {
			t.Errorf("%s is not", at)
		}
	}
}
