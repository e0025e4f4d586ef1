package connection

import (
	"path/filepath"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/types"
)

// topic is the subject of an attribute.
type topic int

const (
	server topic = iota
	login
	kubeconfigs
	contexts
	proxies
)

// text is an attribute with a string value.
type text struct {
	topic     topic
	attribute string
	// variable is the environment variable that replaces it; empty if there is none.
	variable string
	value    *types.String
	// wrong returns what is wrong with a text; nil if every text is valid.
	wrong func(string) string
}

func (m *Model) texts() []text {
	return []text{
		{server, "host", "KUBE_HOST", &m.Host, wrongHost},
		{server, "cluster_ca_certificate", "KUBE_CLUSTER_CA_CERT_DATA", &m.ClusterCACertificate, wrongCertificates},
		{server, "tls_server_name", "KUBE_TLS_SERVER_NAME", &m.TLSServerName, nil},
		{login, "token", "KUBE_TOKEN", &m.Token, wrongToken},
		{login, "client_certificate", "KUBE_CLIENT_CERT_DATA", &m.ClientCertificate, wrongCertificates},
		{login, "client_key", "KUBE_CLIENT_KEY_DATA", &m.ClientKey, wrongKey},
		{login, "username", "KUBE_USER", &m.Username, nil},
		{login, "password", "KUBE_PASSWORD", &m.Password, nil},
		{kubeconfigs, "config_path", "KUBE_CONFIG_PATH", &m.ConfigPath, nil},
		{kubeconfigs, "kubeconfig", "", &m.Kubeconfig, wrongKubeconfig},
		{contexts, "config_context", "KUBE_CTX", &m.ConfigContext, nil},
		{contexts, "config_context_cluster", "KUBE_CTX_CLUSTER", &m.ConfigContextCluster, nil},
		{contexts, "config_context_auth_info", "KUBE_CTX_AUTH_INFO", &m.ConfigContextAuthInfo, nil},
		{proxies, "proxy_url", "KUBE_PROXY_URL", &m.ProxyURL, wrongProxy},
	}
}

// loginAttributes returns the credentials; serverAttributes returns the attributes that identify a server.
func loginAttributes() []string {
	return []string{"token", "client_certificate", "client_key", "username", "password", "exec"}
}

func serverAttributes() []string {
	return []string{"cluster_ca_certificate", "insecure", "tls_server_name"}
}

// settings is a configuration that environment variables have completed.
type settings struct {
	Model
	// from maps attributes to the variables that replace them.
	from map[string]string
	// paths are the kubeconfig files, and pathsFrom is the attribute or variable that names them.
	paths     []string
	pathsFrom string
	// insecure is the value of a variable that is neither true nor false.
	insecure string
}

// anyOf returns the first of the attributes that is set, by the name that the user set.
func (s *settings) anyOf(attributes ...string) string {
	all := s.values()
	for _, name := range attributes {
		if !all[name].IsNull() {
			return s.name(name)
		}
	}
	return ""
}

// name returns the name that the user set: the attribute, or the variable that replaces it.
func (s *settings) name(attribute string) string {
	if variable, ok := s.from[attribute]; ok {
		return variable
	}
	return attribute
}

// open returns the topics for which environment variables are read. A variable in the user's shell must not point an alias of the
// provider to another cluster than its attributes, nor change its user there.
func (s *settings) open() map[topic]bool {
	kubeconfig := s.anyOf("kubeconfig", "config_path", "config_paths") != ""
	context := s.anyOf("config_context", "config_context_cluster", "config_context_auth_info") != ""
	pod := s.InCluster.ValueBool()
	chosen := kubeconfig || context || pod
	return map[topic]bool{
		server:      !chosen,
		login:       !chosen && s.anyOf(loginAttributes()...) == "",
		kubeconfigs: !kubeconfig && !pod && (context || s.Host.IsNull()),
		contexts:    !context && !pod && s.Host.IsNull(),
		proxies:     !pod,
	}
}

// complete replaces attributes that are not set by environment variables.
func (m *Model) complete(getenv func(string) string) *settings {
	s := &settings{Model: *m, from: map[string]string{}}
	open := s.open()
	trusting, trusted := s.Insecure.ValueBool(), !s.ClusterCACertificate.IsNull()
	for _, t := range s.texts() {
		said := ""
		if t.variable != "" && open[t.topic] && t.value.IsNull() {
			said = getenv(t.variable)
		}
		if said == "" || t.attribute == "cluster_ca_certificate" && trusting {
			continue
		}
		*t.value = types.StringValue(said)
		s.from[t.attribute] = t.variable
	}
	if said := getenv("KUBE_INSECURE"); said != "" && open[server] && s.Insecure.IsNull() && !trusted {
		s.trust(said)
	}
	s.findPaths(getenv, open[kubeconfigs])
	return s
}

func (s *settings) trust(said string) {
	s.from["insecure"] = "KUBE_INSECURE"
	insecure, ok := boolean(said)
	if !ok {
		s.insecure = said
		return
	}
	s.Insecure = types.BoolValue(insecure)
}

// findPaths finds the kubeconfig files: those of the attributes, of the provider's own variables, or of KUBECONFIG.
func (s *settings) findPaths(getenv func(string) string, open bool) {
	switch {
	case !s.ConfigPath.IsNull():
		s.paths, s.pathsFrom = []string{s.ConfigPath.ValueString()}, s.name("config_path")
	case !s.ConfigPaths.IsNull():
		s.paths, s.pathsFrom = elements(s.ConfigPaths), "config_paths"
	case !open:
	case getenv("KUBE_CONFIG_PATHS") != "":
		s.paths, s.pathsFrom = split(getenv("KUBE_CONFIG_PATHS")), "KUBE_CONFIG_PATHS"
	case s.from["host"] == "":
		s.paths, s.pathsFrom = split(getenv("KUBECONFIG")), "KUBECONFIG"
	}
}

func split(list string) []string {
	return slices.DeleteFunc(filepath.SplitList(list), func(s string) bool { return s == "" })
}
