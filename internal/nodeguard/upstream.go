package nodeguard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// Kubeconfig is what the guard needs of a kubelet's kubeconfig.
type Kubeconfig struct {
	// Server is the address of the API server, and ServerName the name in its certificate if that differs.
	Server     *url.URL
	ServerName string
	// Roots verify the API server.
	Roots *x509.CertPool
	// CertFile and KeyFile are the kubelet's client certificate, which it replaces before it expires. They may be one file.
	CertFile, KeyFile string
}

// ReadKubeconfig reads the kubeconfig that a kubelet had before the guard was installed.
func ReadKubeconfig(file string) (*Kubeconfig, error) { return ReadKubeconfigAt("", file) }

// ReadKubeconfigAt reads it from a node whose file system is mounted at root.
func ReadKubeconfigAt(root, file string) (*Kubeconfig, error) {
	raw, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	var config clientcmdapi.Config
	if err := yaml.Unmarshal(raw, &config); err != nil {
		return nil, fmt.Errorf("parse kubeconfig %s: %w", file, err)
	}
	at := slices.IndexFunc(config.Contexts, func(c clientcmdapi.NamedContext) bool { return c.Name == config.CurrentContext })
	if at < 0 {
		return nil, fmt.Errorf("kubeconfig %s: the current context %q does not exist", file, config.CurrentContext)
	}
	k := &Kubeconfig{Roots: x509.NewCertPool()}
	for _, c := range config.Clusters {
		if c.Name != config.Contexts[at].Context.Cluster {
			continue
		}
		if k.Server, err = url.Parse(c.Cluster.Server); err != nil || k.Server.Scheme != "https" {
			return nil, fmt.Errorf("kubeconfig %s: server %q must be an https address", file, c.Cluster.Server)
		}
		roots := c.Cluster.CertificateAuthorityData
		if len(roots) == 0 {
			if roots, err = os.ReadFile(filepath.Join(root, c.Cluster.CertificateAuthority)); err != nil {
				return nil, fmt.Errorf("kubeconfig %s: certificate-authority: %w", file, err)
			}
		}
		if !k.Roots.AppendCertsFromPEM(roots) {
			return nil, fmt.Errorf("kubeconfig %s: the certificate authority is not PEM", file)
		}
		k.ServerName = c.Cluster.TLSServerName
	}
	for _, u := range config.AuthInfos {
		if u.Name == config.Contexts[at].Context.AuthInfo {
			k.CertFile, k.KeyFile = u.AuthInfo.ClientCertificate, u.AuthInfo.ClientKey
		}
	}
	if k.Server == nil || k.CertFile == "" || k.KeyFile == "" {
		return nil, fmt.Errorf("kubeconfig %s: need a cluster, and a user with client-certificate and client-key as files, as kubeadm writes it", file)
	}
	return k, nil
}

// ErrOtherCluster means that the API server belongs to another cluster than the one that this node joined (rule N4: its pods may not
// disappear because of that).
var ErrOtherCluster = errors.New("the API server belongs to another cluster")

// Upstream sends requests to API servers. It asks each new connection for the identity of its cluster before anything else, because an
// address or a load balancer may lead to another cluster.
type Upstream struct {
	address   string
	transport *http.Transport
	// identity checks a connection: it returns an error if requests may not be sent there.
	identity func(context.Context, http.RoundTripper) error
	// certFile is the client certificate; empty without one.
	certFile string

	mu    sync.Mutex
	conns []*http.ClientConn
	// certTime is when the certificate of the connections was written.
	certTime time.Time
	// failed is the error of the last attempt to connect, at failedAt. The kubelet tries again many times a second.
	failed   error
	failedAt time.Time

	// refusal is why the last connection was refused as one to another cluster; empty if it was not.
	denial atomic.Pointer[string]
}

const (
	dialTimeout     = 10 * time.Second
	identityTimeout = 10 * time.Second
	// A dead connection must be noticed before the node's Lease expires, which takes 40 s by default.
	pingAfter, pingTimeout = 5 * time.Second, 5 * time.Second
	// connectPause is how long requests fail with the error of the last attempt to connect.
	connectPause = 200 * time.Millisecond
)

// NewUpstream returns an Upstream for the API server of a kubeconfig. It presents the kubelet's certificate if withCertificate is set.
func NewUpstream(k *Kubeconfig, withCertificate bool, identity func(context.Context, http.RoundTripper) error) *Upstream {
	config := &tls.Config{RootCAs: k.Roots, ServerName: k.ServerName, MinVersion: tls.VersionTLS12}
	if withCertificate {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(k.CertFile, k.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("read the kubelet's client certificate: %w", err)
			}
			return &pair, nil
		}
	}
	address := k.Server.Host
	if k.Server.Port() == "" {
		address = net.JoinHostPort(k.Server.Hostname(), "443")
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	u := &Upstream{address: address, identity: identity, transport: &http.Transport{
		TLSClientConfig: config, DisableCompression: true, Protocols: protocols, TLSHandshakeTimeout: dialTimeout,
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext,
		HTTP2:       &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}}
	if withCertificate {
		u.certFile = k.CertFile
	}
	return u
}

// RoundTrip implements http.RoundTripper. A read that meets a connection that has just ended is sent again on another one.
func (u *Upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	for attempt := 0; ; attempt++ {
		conn, err := u.conn(r.Context())
		if err != nil {
			return nil, err
		}
		response, err := conn.RoundTrip(r)
		if err == nil || conn.Err() == nil || attempt > 0 || r.Method != http.MethodGet || r.Context().Err() != nil {
			return response, err
		}
	}
}

// conn returns a connection on which a request is reserved.
func (u *Upstream) conn(ctx context.Context) (*http.ClientConn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closeOutdated()
	u.conns = slices.DeleteFunc(u.conns, func(c *http.ClientConn) bool { return c.Err() != nil })
	for _, c := range u.conns {
		if c.Reserve() == nil {
			return c, nil
		}
	}
	if u.failed != nil && time.Since(u.failedAt) < connectPause {
		return nil, u.failed
	}
	var c *http.ClientConn
	if c, u.failed = u.connect(ctx); u.failed != nil {
		u.failedAt = time.Now()
		return nil, u.failed
	}
	u.conns = append(u.conns, c)
	return c, c.Reserve()
}

// closeOutdated closes all connections when the kubelet has replaced its certificate, as the kubelet does. An API server checks the certificate of a
// connection at each request: on one that outlives its certificate, it answers every request with 401. mu is held.
func (u *Upstream) closeOutdated() {
	if u.certFile == "" {
		return
	}
	file, err := os.Stat(u.certFile)
	if err != nil || file.ModTime().Equal(u.certTime) {
		return
	}
	for _, c := range u.conns {
		_ = c.Close()
	}
	u.conns, u.certTime = nil, file.ModTime()
}

// connect opens a connection, and checks where it leads.
func (u *Upstream) connect(ctx context.Context) (*http.ClientConn, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout+identityTimeout)
	defer cancel()
	c, err := u.transport.NewClientConn(ctx, "https", u.address)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	err = u.identity(ctx, c)
	denial := ""
	if errors.Is(err, ErrOtherCluster) {
		denial = err.Error()
	}
	u.denial.Store(&denial)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Denial returns why the last connection was refused as one to another cluster; empty if it was not.
func (u *Upstream) Denial() string {
	if denial := u.denial.Load(); denial != nil {
		return *denial
	}
	return ""
}

// Pin holds the identity of the node's cluster: the UID of its namespace kube-system. If the kubelet may not read that, the UID of its own
// Node counts.
type Pin struct {
	server *url.URL
	node   string
	// store keeps the identity between runs.
	store *store
}

// Identity identifies a cluster.
type Identity struct {
	// System is the UID of the namespace kube-system; Node is the UID of the node.
	System types.UID `json:"system,omitempty"`
	Node   types.UID `json:"node,omitempty"`
}

// Check returns ErrOtherCluster if the API server behind a connection belongs to another cluster. It records the identity of the first.
func (p *Pin) Check(ctx context.Context, conn http.RoundTripper) error {
	var pinned Identity
	if err := p.store.readJSON(identityFile, &pinned); err != nil {
		return fmt.Errorf("read the identity of the cluster: %w", err)
	}
	var namespace corev1.Namespace
	status, err := p.get(ctx, conn, "/api/v1/namespaces/kube-system", &namespace)
	if err != nil {
		return err
	}
	if status == http.StatusOK {
		switch {
		case pinned.System == "":
			pinned.System = namespace.UID
			return p.store.writeJSON(identityFile, pinned)
		case pinned.System != namespace.UID:
			return fmt.Errorf("%w: its namespace kube-system has UID %s, that of the node's cluster has %s", ErrOtherCluster, namespace.UID, pinned.System)
		}
		return nil
	}
	return p.checkNode(ctx, conn, pinned)
}

func (p *Pin) checkNode(ctx context.Context, conn http.RoundTripper, pinned Identity) error {
	var node corev1.Node
	status, err := p.get(ctx, conn, "/api/v1/nodes/"+p.node, &node)
	switch {
	case err != nil:
		return err
	case status == http.StatusOK && pinned.Node == "" && pinned.System == "":
		pinned.Node = node.UID
		return p.store.writeJSON(identityFile, pinned)
	case status == http.StatusOK && pinned.Node == node.UID:
		return nil
	case status == http.StatusOK:
		return fmt.Errorf("%w: node %s has UID %s there, and %s in the node's cluster", ErrOtherCluster, p.node, node.UID, pinned.Node)
	default:
		return fmt.Errorf("%w, or does not accept this kubelet: status %d for node %s", ErrOtherCluster, status, p.node)
	}
}

func (p *Pin) get(ctx context.Context, conn http.RoundTripper, path string, into any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.server.JoinPath(path).String(), http.NoBody)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Accept", "application/json")
	response, err := conn.RoundTrip(r)
	if err != nil {
		return 0, fmt.Errorf("ask the API server for its identity: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusInternalServerError {
		return 0, fmt.Errorf("ask the API server for its identity: status %d", response.StatusCode)
	}
	if response.StatusCode != http.StatusOK {
		return response.StatusCode, nil
	}
	return response.StatusCode, json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(into)
}
