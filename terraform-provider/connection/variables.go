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
	credentials
	kubeconfigs
	contexts
	proxies
)

// stringAttribute is an attribute with a string value.
type stringAttribute struct {
	topic     topic
	attribute string
	// variable is the environment variable that replaces it; empty if there is none.
	variable string
	value    *types.String
	// validate returns what is wrong with a text; nil if every text is valid.
	validate func(string) string
	isSecret bool
	// text describes the attribute, without the variable.
	text string
}

func (m *Model) stringAttributes() []stringAttribute {
	const secret = true
	return []stringAttribute{
		{server, "host", "KUBE_HOST", &m.Host, hostProblem, !secret, "URL of the API server, such as `https://core.example:6443`."},
		{server, "cluster_ca_certificate", "KUBE_CLUSTER_CA_CERT_DATA", &m.ClusterCACertificate, certificatesProblem, !secret,
			"PEM CA certificates that verify the API server. Default: those of the kubeconfig, or of the system."},
		{server, "tls_server_name", "KUBE_TLS_SERVER_NAME", &m.TLSServerName, nil, !secret,
			"Name for which the certificate of the API server must be valid. Default: the host in its URL."},
		{credentials, "token", "KUBE_TOKEN", &m.Token, tokenProblem, secret, "Bearer token, such as that of a ServiceAccount."},
		{credentials, "client_certificate", "KUBE_CLIENT_CERT_DATA", &m.ClientCertificate, certificatesProblem, !secret,
			"PEM client certificate, used with `client_key`."},
		{credentials, "client_key", "KUBE_CLIENT_KEY_DATA", &m.ClientKey, keyProblem, secret, "PEM private key of `client_certificate`."},
		{credentials, "username", "KUBE_USER", &m.Username, nil, !secret,
			"User name for basic authentication, which a proxy in front of an API server may require."},
		{credentials, "password", "KUBE_PASSWORD", &m.Password, nil, secret, "Password for basic authentication."},
		{kubeconfigs, "config_path", "KUBE_CONFIG_PATH", &m.ConfigPath, nil, !secret, "Path of a kubeconfig; `~` is the home directory."},
		{kubeconfigs, "kubeconfig", "", &m.Kubeconfig, kubeconfigProblem, secret, "Content of a kubeconfig, such as an output of another resource."},
		{contexts, "config_context", "KUBE_CTX", &m.ConfigContext, nil, !secret, "Context of the kubeconfig. Default: its current context."},
		{contexts, "config_context_cluster", "KUBE_CTX_CLUSTER", &m.ConfigContextCluster, nil, !secret,
			"Cluster of the kubeconfig, instead of that of the context."},
		{contexts, "config_context_auth_info", "KUBE_CTX_AUTH_INFO", &m.ConfigContextAuthInfo, nil, !secret,
			"User of the kubeconfig, instead of that of the context."},
		{proxies, "proxy_url", "KUBE_PROXY_URL", &m.ProxyURL, proxyProblem, secret,
			"URL of a proxy for connections to the cluster, with `http`, `https` or `socks5`. Default: that of the kubeconfig or `HTTPS_PROXY`."},
		{server, "field_manager", "", &m.FieldManager, fieldManagerProblem, !secret,
			"Field manager of the provider's server-side applies. Set it if several configurations of Terraform write to the same " +
				"objects. If you change it, each object keeps its former manager until it changes the next time, and the new manager then takes over " +
				"its fields. The Secret of `kubeconfig_wo` always has the default. Default: `" + DefaultFieldManager + "`."},
		{server, "timeout", "", &m.Timeout, timeoutProblem, !secret,
			"Timeout of one request, such as `30s`; `0s` means no timeout. A request that times out is retried until the `timeouts` of the " +
				"resource expire, or until the cluster has been unreachable for 30 seconds. Default: `1m`."},
	}
}

// credentialAttributes returns the credentials; serverAttributes returns the attributes that identify a server.
func credentialAttributes() []string {
	return []string{"token", "client_certificate", "client_key", "username", "password", "exec"}
}

func serverAttributes() []string {
	return []string{"cluster_ca_certificate", "insecure", "tls_server_name"}
}

// settings is a configuration that environment variables have completed.
type settings struct {
	Model
	// from maps the attributes that variables have completed to these variables.
	from map[string]string
	// paths are the kubeconfig files, and pathsFrom is the attribute or variable that names them.
	paths     []string
	pathsFrom string
	// invalidInsecure is the value of KUBE_INSECURE if it is neither true nor false.
	invalidInsecure string
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

// openTopics returns the topics for which environment variables are read. A variable in the user's shell must not point an alias of the
// provider to another cluster than its attributes, nor change its user there.
func (s *settings) openTopics() map[topic]bool {
	kubeconfig := s.anyOf("kubeconfig", "config_path", "config_paths") != ""
	selected := s.anyOf("config_context", "config_context_cluster", "config_context_auth_info") != ""
	pod := s.InCluster.ValueBool()
	chosen := kubeconfig || selected || pod
	return map[topic]bool{
		server:      !chosen,
		credentials: !chosen && s.anyOf(credentialAttributes()...) == "",
		kubeconfigs: !kubeconfig && !pod && (selected || s.Host.IsNull()),
		contexts:    !selected && !pod && s.Host.IsNull(),
		proxies:     !pod,
	}
}

// withVariables sets the attributes that the configuration leaves open from environment variables. An attribute of the configuration
// takes precedence over the variable of an attribute that contradicts it.
func (m *Model) withVariables(getenv func(string) string) *settings {
	s := &settings{Model: *m, from: map[string]string{}}
	open := s.openTopics()
	insecure, hasCA := s.Insecure.ValueBool(), !s.ClusterCACertificate.IsNull()
	for _, t := range s.stringAttributes() {
		if t.variable == "" || !open[t.topic] || !t.value.IsNull() || t.attribute == "cluster_ca_certificate" && insecure {
			continue
		}
		if text := getenv(t.variable); text != "" {
			*t.value = types.StringValue(text)
			s.from[t.attribute] = t.variable
		}
	}
	if text := getenv("KUBE_INSECURE"); text != "" && open[server] && s.Insecure.IsNull() && !hasCA {
		s.setInsecure(text)
	}
	s.resolvePaths(getenv, open[kubeconfigs])
	return s
}

func (s *settings) setInsecure(text string) {
	s.from["insecure"] = "KUBE_INSECURE"
	insecure, ok := parseBool(text)
	if !ok {
		s.invalidInsecure = text
		return
	}
	s.Insecure = types.BoolValue(insecure)
}

// resolvePaths finds the kubeconfig files: those of the attributes, of the provider's own variables, or of KUBECONFIG.
func (s *settings) resolvePaths(getenv func(string) string, open bool) {
	switch {
	case !s.ConfigPath.IsNull():
		s.paths, s.pathsFrom = []string{s.ConfigPath.ValueString()}, s.name("config_path")
	case !s.ConfigPaths.IsNull():
		s.paths, s.pathsFrom = elements(s.ConfigPaths), "config_paths"
	case !open:
	case getenv("KUBE_CONFIG_PATHS") != "":
		s.paths, s.pathsFrom = splitList(getenv("KUBE_CONFIG_PATHS")), "KUBE_CONFIG_PATHS"
	case s.from["host"] == "":
		s.paths, s.pathsFrom = splitList(getenv("KUBECONFIG")), "KUBECONFIG"
	}
}

func splitList(list string) []string {
	return slices.DeleteFunc(filepath.SplitList(list), func(s string) bool { return s == "" })
}
