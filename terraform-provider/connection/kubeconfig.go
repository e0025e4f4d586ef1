package connection

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// load reads the kubeconfig: the text, or the files, merged as kubectl merges them. It does not return the parser's error,
// because that can contain the text that the parser could not read.
func (s *settings) load(getenv func(string) string) (*clientcmdapi.Config, error) {
	if !s.Kubeconfig.IsNull() {
		kubeconfig, err := clientcmd.Load([]byte(s.Kubeconfig.ValueString()))
		if err != nil {
			return nil, errors.New("kubeconfig is not the text of a kubeconfig")
		}
		return kubeconfig, nil
	}
	rules := &clientcmd.ClientConfigLoadingRules{}
	for _, path := range s.paths {
		path = expand(path, getenv)
		_, err := clientcmd.LoadFromFile(path)
		var reading *fs.PathError
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case errors.As(err, &reading):
			return nil, fmt.Errorf("cannot read %s, which %s names: %w", path, s.pathsFrom, reading.Err)
		case err != nil:
			return nil, fmt.Errorf("%s is not a kubeconfig, but %s names it", path, s.pathsFrom)
		}
		rules.Precedence = append(rules.Precedence, path)
	}
	if len(rules.Precedence) == 0 {
		return nil, fmt.Errorf("no file %s exists, but %s names it", strings.Join(s.paths, " or "), s.pathsFrom)
	}
	kubeconfig, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfigs that %s names cannot be merged", s.pathsFrom)
	}
	return kubeconfig, nil
}

// source describes where the kubeconfig comes from, for error messages.
func (s *settings) source() string {
	if s.pathsFrom == "" {
		return "kubeconfig"
	}
	return "the kubeconfig of " + s.pathsFrom
}

// expand replaces ~ in a path by the home directory, as shells do.
func expand(path string, getenv func(string) string) string {
	if path != "~" && !strings.HasPrefix(path, "~/") && !strings.HasPrefix(path, `~\`) {
		return path
	}
	home := getenv("HOME")
	if home == "" {
		home = getenv("USERPROFILE")
	}
	return filepath.Join(home, path[1:])
}

// override creates a client configuration from a kubeconfig, which may be empty, and the other attributes. The attributes take
// precedence.
func (s *settings) override(kubeconfig *clientcmdapi.Config) (*rest.Config, error) {
	if err := s.selectContext(kubeconfig); err != nil {
		return nil, err
	}
	overrides := &clientcmd.ConfigOverrides{
		Context: clientcmdapi.Context{Cluster: s.ConfigContextCluster.ValueString(), AuthInfo: s.ConfigContextAuthInfo.ValueString()},
		ClusterInfo: clientcmdapi.Cluster{
			Server: s.Host.ValueString(), TLSServerName: s.TLSServerName.ValueString(), ProxyURL: s.ProxyURL.ValueString(),
			InsecureSkipTLSVerify: s.Insecure.ValueBool(), CertificateAuthorityData: []byte(s.ClusterCACertificate.ValueString()),
		},
	}
	if user := s.user(); user != nil {
		// This needs a separate user: an API server that gets a token and the kubeconfig's certificate authenticates by the
		// certificate.
		const own = "the configuration of the provider"
		kubeconfig.AuthInfos[own] = user
		overrides.Context.AuthInfo = own
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*kubeconfig, s.context(kubeconfig), overrides, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the configuration does not describe a cluster: %w", err)
	}
	if isSet(s.Insecure) {
		config.Insecure = s.Insecure.ValueBool()
	}
	return config, nil
}

// user returns the credentials of the provider configuration; nil if it has none, and the kubeconfig's user applies.
func (s *settings) user() *clientcmdapi.AuthInfo {
	if s.anyOf(credentialAttributes()...) == "" {
		return nil
	}
	return &clientcmdapi.AuthInfo{
		Token:                 strings.TrimSpace(s.Token.ValueString()),
		ClientCertificateData: []byte(s.ClientCertificate.ValueString()), ClientKeyData: []byte(s.ClientKey.ValueString()),
		Username: s.Username.ValueString(), Password: s.Password.ValueString(),
		Exec: s.execConfig(),
	}
}

func (s *settings) context(kubeconfig *clientcmdapi.Config) string {
	if name := s.ConfigContext.ValueString(); name != "" {
		return name
	}
	return kubeconfig.CurrentContext
}

// selectContext checks that the selected context, cluster and user exist in the kubeconfig. clientcmd would continue without a context,
// or as an anonymous user.
func (s *settings) selectContext(kubeconfig *clientcmdapi.Config) error {
	name, context := s.context(kubeconfig), &clientcmdapi.Context{}
	cluster, user := s.ConfigContextCluster.ValueString(), s.ConfigContextAuthInfo.ValueString()
	switch found := kubeconfig.Contexts[name]; {
	case found != nil:
		context = found
	case name != "":
		return fmt.Errorf("%s has no context %q: it has %s", s.source(), name, joinNames(kubeconfig.Contexts))
	case cluster == "" && s.Host.IsNull():
		return fmt.Errorf("%s has no current-context: set config_context; it has %s", s.source(), joinNames(kubeconfig.Contexts))
	}
	if cluster == "" {
		cluster = context.Cluster
	}
	if user == "" {
		user = context.AuthInfo
	}
	if found := kubeconfig.Clusters[cluster]; found == nil && s.Host.IsNull() {
		return fmt.Errorf("%s has no cluster %q: it has %s", s.source(), cluster, joinNames(kubeconfig.Clusters))
	} else if found != nil && found.ProxyURL != "" && proxyProblem(found.ProxyURL) != "" && s.ProxyURL.IsNull() {
		return fmt.Errorf("the proxy-url of cluster %q in %s %s", cluster, s.source(), proxyProblem(found.ProxyURL))
	}
	if kubeconfig.AuthInfos[user] == nil && user != "" && s.user() == nil {
		return fmt.Errorf("%s has no user %q: it has %s", s.source(), user, joinNames(kubeconfig.AuthInfos))
	}
	return nil
}

func joinNames[T any](of map[string]T) string {
	if len(of) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(of)), ", ")
}
