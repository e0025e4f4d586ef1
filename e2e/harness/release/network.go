package release

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// Network carries connections of an API server to Services, as konnectivity does where API servers are outside of the network of the pods. All of them
// reach the webhooks of a Kubelet: the API server calls no other Service of a release.
type Network struct {
	configuration string
	server        *http.Server
	serving       sync.WaitGroup
	replicas      atomic.Pointer[install.Replicas]
}

// egress is the EgressSelectorConfiguration of the API server. It does not apply to webhooks that have a URL.
const egress = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: %s}}}
`

// NewNetwork starts a network with its files in dir, whose path must be short enough for a Unix socket (about 90 characters).
func NewNetwork(dir string) (*Network, error) {
	socket := filepath.Join(dir, "network.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen for the API server: %w", err)
	}
	n := &Network{configuration: filepath.Join(dir, "network.yaml")}
	n.server = &http.Server{Handler: http.HandlerFunc(n.connect), ReadHeaderTimeout: time.Minute}
	n.serving.Go(func() { _ = n.server.Serve(listener) }) // it ends by Close
	if err := os.WriteFile(n.configuration, fmt.Appendf(nil, egress, socket), 0o600); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// APIServerArgument returns the flag by which kube-apiserver uses the network.
func (n *Network) APIServerArgument() string {
	return "--egress-selector-config-file=" + n.configuration
}

// Route sends the connections from now on to the webhooks of k. Before the first call, the network refuses them.
func (n *Network) Route(k *Kubelet) { n.replicas.Store(install.NewReplicas(k.Webhooks)) }

// Close accepts no connections any more. Open ones end with their API server or webhook.
func (n *Network) Close() error {
	err := n.server.Close()
	n.serving.Wait()
	return err
}

// connect answers one CONNECT request, and then copies data until the API server or the webhook closes the connection.
func (n *Network) connect(w http.ResponseWriter, r *http.Request) {
	replicas := n.replicas.Load()
	if replicas == nil {
		http.Error(w, r.Host+" has no webhooks yet", http.StatusBadGateway)
		return
	}
	webhook, err := replicas.Dial()
	if err != nil {
		http.Error(w, fmt.Sprintf("%s: %v", r.Host, err), http.StatusBadGateway)
		return
	}
	defer webhook.Close()
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the API server has closed the connection
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	install.Join(client, webhook)
}
