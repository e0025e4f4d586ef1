package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenTimeout is the timeout of a token request. The caller waits while an ephemeral resource opens, and a plan opens it too.
const tokenTimeout = time.Minute

// workerKubeconfig is an ephemeral resource: short-lived credentials for the worker cluster that the provider points to.
type workerKubeconfig struct{ cluster *cluster }

// Metadata sets the name of the ephemeral resource.
func (e *workerKubeconfig) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_worker_kubeconfig"
}

// Configure stores the cluster.
func (e *workerKubeconfig) Configure(_ context.Context, req ephemeral.ConfigureRequest, _ *ephemeral.ConfigureResponse) {
	e.cluster, _ = req.ProviderData.(*cluster)
}

// Open requests a token and writes a kubeconfig with it. There is no Close: such a token cannot be revoked.
func (e *workerKubeconfig) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var m kubeconfigModel
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	m.setDefaults()
	if e.cluster.isUnknown() {
		// Only a plan runs before the cluster's address is known, and a plan can do without the kubeconfig. OpenTofu reports a
		// provider error in this case.
		resp.Diagnostics.AddWarning("The cluster of a worker kubeconfig is not known yet", "The kubeconfig is created in the apply. "+
			"OpenTofu needs depends_on in the ephemeral resource for that, with the resource that creates the cluster.")
		m.setUnknown()
		resp.Diagnostics.Append(resp.Result.Set(ctx, &m)...)
		return
	}
	if !e.cluster.isUsable("ask for a token", &resp.Diagnostics) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	way := e.clusterEntry(&m, &resp.Diagnostics)
	request := m.request(ctx, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	granted, err := e.cluster.token(ctx, m.account("namespace"), m.account("name"), request)
	if err != nil {
		m.explain(&resp.Diagnostics, err)
		return
	}
	if asked, got := *request.Spec.ExpirationSeconds, granted.Spec.ExpirationSeconds; got != nil && *got < asked {
		resp.Diagnostics.AddWarning("The token expires earlier than requested",
			fmt.Sprintf("The cluster grants %d seconds at most, not %d: see expires_at.", *got, asked))
	}
	raw, err := m.encode(way, granted.Status.Token)
	if err != nil {
		resp.Diagnostics.AddError("The kubeconfig could not be written", sentence(err.Error()))
		return
	}
	m.Server, m.CertificateAuthority = types.StringValue(way.Server), types.StringValue(string(way.CertificateAuthorityData))
	m.Kubeconfig, m.Token = types.StringValue(string(raw)), types.StringValue(granted.Status.Token)
	m.ExpiresAt = types.StringValue(granted.Status.ExpirationTimestamp.UTC().Format(time.RFC3339))
	resp.Diagnostics.Append(resp.Result.Set(ctx, &m)...)
}

// clusterEntry returns how other clients reach the cluster: like the provider, unless the configuration says otherwise. The provider's
// proxy is not passed on to them.
func (e *workerKubeconfig) clusterEntry(m *kubeconfigModel, d *diag.Diagnostics) *clientcmdapi.Cluster {
	config := rest.CopyConfig(e.cluster.config)
	if err := rest.LoadTLSFiles(config); err != nil {
		d.AddError("The certificates of the provider could not be read", sentence(err.Error()))
		return nil
	}
	way := &clientcmdapi.Cluster{Server: config.Host, TLSServerName: config.ServerName, CertificateAuthorityData: config.CAData}
	if said := m.Server.ValueString(); said != "" {
		way.Server, way.TLSServerName = said, ""
	} else if !httpsURL.MatchString(way.Server) {
		d.AddAttributeError(path.Root("server"), "Other clients could not use the kubeconfig",
			"The provider does not connect by https, which a token requires: set server to an https address that other clients can reach.")
	}
	if said := m.CertificateAuthority.ValueString(); said != "" {
		way.CertificateAuthorityData = []byte(said)
	} else if config.Insecure {
		d.AddAttributeError(path.Root("certificate_authority"), "The cluster cannot be verified",
			"The provider does not verify the API server (insecure), but other clients should: set certificate_authority to its CA certificates.")
	}
	return way
}

// token requests a token of a ServiceAccount.
func (c *cluster) token(ctx context.Context, namespace, name string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(request)
	if err != nil {
		return nil, err
	}
	asked := &unstructured.Unstructured{Object: fields}
	asked.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"))
	asked.SetName(name)
	granted := &authenticationv1.TokenRequest{}
	return granted, retryTransient(ctx, func(ctx context.Context) error {
		accounts := c.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("serviceaccounts")).Namespace(namespace)
		answer, err := accounts.Create(ctx, asked, metav1.CreateOptions{}, "token")
		if err != nil {
			return err
		}
		return runtime.DefaultUnstructuredConverter.FromUnstructured(answer.Object, granted)
	})
}

// explain adds an error that says why there is no token.
func (m *kubeconfigModel) explain(d *diag.Diagnostics, err error) {
	const summary = "No token of the ServiceAccount"
	prefix := fmt.Sprintf("ServiceAccount %s/%s: ", m.account("namespace"), m.account("name"))
	switch {
	case apierrors.IsNotFound(err):
		d.AddAttributeError(path.Root("service_account"), summary, prefix+"The cluster has no such ServiceAccount: install the chart breakwater there with "+
			"role: worker (or single) and access.enabled: true, or name another. If it exists, check that the provider is configured for the worker cluster.")
	case apierrors.IsForbidden(err):
		d.AddError(summary, prefix+sentence(err.Error())+" The provider's user needs permission to create serviceaccounts/token there.")
	default:
		addErrorWithRemedy(d, summary, prefix, err)
	}
}

// encode encodes a kubeconfig for the cluster. The kubeconfig refers to no files.
func (m *kubeconfigModel) encode(entry *clientcmdapi.Cluster, token string) ([]byte, error) {
	const name = "worker"
	user := m.account("name")
	return clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: entry},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user, Namespace: m.account("namespace")}},
		CurrentContext: name,
	})
}
