package webhook_test

import (
	"context"
	"net/url"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/proxy"
)

// link is a connection to the API server that a test can interrupt.
type link struct {
	*fixture
	proxy  *proxy.Proxy
	config *rest.Config
}

func (l *fixture) proxied() *link {
	l.Helper()
	config := rest.CopyConfig(l.config)
	target, err := url.Parse(config.Host)
	if err != nil {
		l.Fatal(err)
	}
	p, err := proxy.Start(l.Context(), target.Host)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { p.Close() })
	config.Host = "https://" + p.Address()
	return &link{fixture: l, proxy: p, config: config}
}

func (k *link) asCore(s *replicaOptions) { s.cores[k.core] = k.config }
func (k *link) asCell(s *replicaOptions) { s.cell = k.config }

// stall makes the API server silent without closing any connection, until heal.
func (k *link) stall() {
	k.proxy.Stall(proxy.Both)
	// A webhook that stops at the end of a test must not wait for a silent core.
	k.Cleanup(k.heal)
}

// cut makes the API server unreachable, until heal.
func (k *link) cut() {
	k.Helper()
	if err := k.proxy.Cut(proxy.Both); err != nil {
		k.Errorf("cut the proxy: %v", err)
	}
	k.Cleanup(k.heal)
}

func (k *link) heal() {
	k.Helper()
	if err := k.proxy.Heal(context.Background()); err != nil {
		k.Errorf("heal the proxy: %v", err)
	}
}
