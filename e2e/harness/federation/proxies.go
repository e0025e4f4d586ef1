package federation

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
)

// ErrStopped is the error of a fault in a stopped federation.
var ErrStopped = errors.New("the federation was stopped")

// Proxies are the proxies of one cluster. They are for backends. The zero value is usable.
type Proxies struct {
	mu      sync.Mutex // guards the following fields
	running []*proxy.Proxy
	closed  bool
}

// Start starts a proxy in front of the cluster's API server. It writes the proxy's kubeconfig beside the administrator's.
func (p *Proxies) Start(ctx context.Context, c Cluster) (*Proxy, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrStopped
	}
	// The certificate is still the API server's: the proxy does not terminate TLS.
	config := c.RESTConfig()
	started, err := proxy.Start(ctx, strings.TrimPrefix(config.Host, "https://"))
	if err != nil {
		return nil, fmt.Errorf("start a proxy for cluster %s: %w", c.Name(), err)
	}
	p.running = append(p.running, started)
	config.Host = "https://" + started.Address()
	kubeconfig, err := clientcmd.LoadFromFile(c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of cluster %s: %w", c.Name(), err)
	}
	for _, cluster := range kubeconfig.Clusters {
		cluster.Server = config.Host
	}
	file := filepath.Join(filepath.Dir(c.Kubeconfig()), fmt.Sprintf("proxy-%d.kubeconfig", len(p.running)))
	if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
		return nil, fmt.Errorf("write the kubeconfig of a proxy: %w", err)
	}
	return &Proxy{Proxy: started, kubeconfig: file, config: config}, nil
}

// Close closes all proxies. Start then fails.
func (p *Proxies) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, running := range p.running {
		errs = append(errs, running.Close())
	}
	return errors.Join(errs...)
}
