// Package e2e tests Breakwater from outside, with real control planes, real processes and real storms.
package e2e

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/e2e-framework/klient"
	"sigs.k8s.io/e2e-framework/support"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// SharedFederation is a federation whose clusters are given to e2e-framework one by one. The first Create starts it, and the last Destroy
// stops it.
type SharedFederation struct {
	// Start starts the federation with any backend.
	Start func(ctx context.Context) (federation.Federation, error)

	mu         sync.Mutex
	federation federation.Federation
	references int
}

// Provider returns the provider of one cluster of the federation.
func (s *SharedFederation) Provider() support.E2EClusterProvider { return &provider{shared: s} }

// Federation returns the running federation, or nil before the first Create.
func (s *SharedFederation) Federation() federation.Federation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.federation
}

func (s *SharedFederation) acquire(ctx context.Context, name string) (federation.Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.federation == nil {
		started, err := s.Start(ctx)
		if err != nil {
			return nil, err
		}
		s.federation = started
	}
	cluster, ok := s.federation.Cluster(name)
	if !ok {
		return nil, fmt.Errorf("topology %s has no cluster %q", s.federation.Topology().Name, name)
	}
	s.references++
	return cluster, nil
}

func (s *SharedFederation) release(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.references--; s.references > 0 || s.federation == nil {
		return nil
	}
	stopping := s.federation
	s.federation = nil
	return stopping.Stop(ctx)
}

// provider implements the cluster provider of e2e-framework for one cluster of a shared federation.
type provider struct {
	shared  *SharedFederation
	name    string
	cluster federation.Cluster
}

var _ support.E2EClusterProvider = (*provider)(nil)

func (p *provider) WithName(name string) support.E2EClusterProvider {
	p.name = name
	return p
}

// The backend pins its own version and programs.
func (p *provider) WithVersion(string) support.E2EClusterProvider              { return p }
func (p *provider) WithPath(string) support.E2EClusterProvider                 { return p }
func (p *provider) WithOpts(...support.ClusterOpts) support.E2EClusterProvider { return p }
func (p *provider) SetDefaults() support.E2EClusterProvider                    { return p }

// Create returns the path of the cluster's kubeconfig once the cluster is usable.
func (p *provider) Create(ctx context.Context, _ ...string) (string, error) {
	cluster, err := p.shared.acquire(ctx, p.name)
	if err != nil {
		return "", err
	}
	p.cluster = cluster
	return cluster.Kubeconfig(), nil
}

func (p *provider) CreateWithConfig(context.Context, string) (string, error) {
	return "", fmt.Errorf("cluster %s is described by its topology, not by a configuration file", p.name)
}

func (p *provider) GetKubeconfig() string                        { return p.cluster.Kubeconfig() }
func (p *provider) GenerateKubeconfig(...string) (string, error) { return p.cluster.Kubeconfig(), nil }
func (p *provider) GetKubectlContext() string                    { return p.name }
func (p *provider) KubernetesRestConfig() *rest.Config           { return p.cluster.RESTConfig() }
func (p *provider) Destroy(ctx context.Context) error            { return p.shared.release(ctx) }

// WaitForControlPlane returns at once, because a started federation is usable.
func (p *provider) WaitForControlPlane(context.Context, klient.Client) error { return nil }

// ExportLogs returns an error that names the folder of the logs.
func (p *provider) ExportLogs(_ context.Context, dest string) error {
	return fmt.Errorf("the logs are already in %s, not copying them to %s", p.shared.Federation().Dir(), dest)
}
