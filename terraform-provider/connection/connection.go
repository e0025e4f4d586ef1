// Package connection converts the configuration of the provider into a client configuration. The attributes are those that users
// know from other Kubernetes providers.
package connection

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Model is the configuration of the provider.
type Model struct {
	Host                  types.String `tfsdk:"host"`
	ClusterCACertificate  types.String `tfsdk:"cluster_ca_certificate"`
	Insecure              types.Bool   `tfsdk:"insecure"`
	TLSServerName         types.String `tfsdk:"tls_server_name"`
	Token                 types.String `tfsdk:"token"`
	ClientCertificate     types.String `tfsdk:"client_certificate"`
	ClientKey             types.String `tfsdk:"client_key"`
	Username              types.String `tfsdk:"username"`
	Password              types.String `tfsdk:"password"`
	Exec                  types.Object `tfsdk:"exec"`
	Kubeconfig            types.String `tfsdk:"kubeconfig"`
	ConfigPath            types.String `tfsdk:"config_path"`
	ConfigPaths           types.List   `tfsdk:"config_paths"`
	ConfigContext         types.String `tfsdk:"config_context"`
	ConfigContextCluster  types.String `tfsdk:"config_context_cluster"`
	ConfigContextAuthInfo types.String `tfsdk:"config_context_auth_info"`
	InCluster             types.Bool   `tfsdk:"in_cluster"`
	ProxyURL              types.String `tfsdk:"proxy_url"`
	Timeout               types.String `tfsdk:"timeout"`
	RequireCluster        types.Bool   `tfsdk:"require_cluster"`
	FieldManager          types.String `tfsdk:"field_manager"`
	ClusterUID            types.String `tfsdk:"cluster_uid"`
}

// defaultTimeout is the API server's own request timeout. It answers no request later.
const defaultTimeout = time.Minute

// values returns the attributes that select a cluster, by name.
func (m *Model) values() map[string]attr.Value {
	all := map[string]attr.Value{
		"insecure": m.Insecure, "in_cluster": m.InCluster, "config_paths": m.ConfigPaths, "exec": m.Exec,
	}
	for _, t := range m.stringAttributes() {
		all[t.attribute] = *t.value
	}
	return all
}

// IsUnknown reports whether some attribute only becomes known during the apply.
func (m *Model) IsUnknown() bool {
	for _, v := range m.values() {
		if !isKnown(v) {
			return true
		}
	}
	return false
}

// isKnown reports whether a value is completely known. A null value is known.
func isKnown(v attr.Value) bool {
	if v.IsNull() || v.IsUnknown() {
		return v.IsNull()
	}
	raw, err := v.ToTerraformValue(context.Background())
	return err == nil && raw.IsFullyKnown()
}

var errNoCluster = errors.New("no cluster is configured: set config_path, kubeconfig or host in the configuration of the provider, " +
	"or KUBE_CONFIG_PATH, KUBE_HOST or KUBECONFIG in the environment (~/.kube/config is not read unless one of them names it)")

// Config returns the client configuration. Environment variables replace attributes that are not set. No error contains secrets.
func (m *Model) Config(getenv func(string) string) (*rest.Config, error) {
	s := m.withVariables(getenv)
	if wrong := s.problems(); len(wrong) > 0 {
		texts := make([]string, len(wrong))
		for i, p := range wrong {
			texts[i] = p.text
		}
		return nil, errors.New(strings.Join(texts, "; "))
	}
	config, err := s.clientConfig(getenv)
	if err != nil {
		return nil, err
	}
	if config.ExecProvider != nil {
		config.ExecProvider.StdinUnavailable = true
		config.ExecProvider.StdinUnavailableMessage = "Terraform has no terminal for it; log in first"
	}
	config.Timeout = defaultTimeout
	if !s.Timeout.IsNull() {
		config.Timeout, err = time.ParseDuration(s.Timeout.ValueString())
	}
	return config, err
}

// ClusterRequired returns whether a plan fails without the cluster; nil if that depends on whether there is state.
func (m *Model) ClusterRequired(getenv func(string) string) (*bool, error) {
	if isSet(m.RequireCluster) {
		return m.RequireCluster.ValueBoolPointer(), nil
	}
	text := getenv("KUBE_REQUIRE_CLUSTER")
	if text == "" {
		return nil, nil //nolint:nilnil // nil is a third value
	}
	required, ok := parseBool(text)
	if !ok {
		return nil, errors.New("KUBE_REQUIRE_CLUSTER is neither true nor false")
	}
	return &required, nil
}

// clientConfig returns the client configuration of the first source that is configured.
func (s *settings) clientConfig(getenv func(string) string) (*rest.Config, error) {
	switch {
	case s.InCluster.ValueBool():
		return podConfig()
	case !s.Kubeconfig.IsNull() || len(s.paths) > 0:
		kubeconfig, err := s.load(getenv)
		if err != nil {
			return nil, err
		}
		return s.override(kubeconfig)
	case !s.Host.IsNull():
		return s.override(clientcmdapi.NewConfig())
	}
	if name := s.anyOf("config_context", "config_context_cluster", "config_context_auth_info"); name != "" {
		return nil, fmt.Errorf("%s selects from a kubeconfig, but no kubeconfig is configured: set config_path or kubeconfig, or KUBE_CONFIG_PATH or KUBECONFIG in the environment", name)
	}
	if name := s.anyOf(append(credentialAttributes(), serverAttributes()...)...); name != "" {
		return nil, fmt.Errorf("%s is set, but no cluster is configured: set host, config_path or kubeconfig", name)
	}
	if s.InCluster.IsNull() && runsInPod(getenv) {
		return podConfig()
	}
	return nil, errNoCluster
}

// runsInPod reports whether the kubelet has mounted the credentials of a ServiceAccount.
func runsInPod(getenv func(string) string) bool {
	_, err := os.Stat("/var/run/secrets/kubernetes.io/serviceaccount/token")
	return err == nil && getenv("KUBERNETES_SERVICE_HOST") != ""
}

// podConfig returns the configuration for the cluster of the pod that Terraform runs in.
func podConfig() (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, errors.New("in_cluster is true, but Terraform does not run in a pod: KUBERNETES_SERVICE_HOST is not set")
	case err != nil:
		return nil, fmt.Errorf("in_cluster is true, but the pod has no ServiceAccount token (see automountServiceAccountToken): %w", err)
	}
	return config, nil
}
