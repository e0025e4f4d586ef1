package chaos

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-logr/logr"
	clientv3 "go.etcd.io/etcd/client/v3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// The API servers time out requests sooner than usual. The admission deadline follows from that timeout, so it is short enough to wait
// for. Leases are short for the same reason.
const (
	requestTimeout    = 10 * time.Second
	admissionDeadline = 12 * time.Second
	leaseDuration     = 4 * time.Second
	startTimeout      = 2 * time.Minute
	stopTimeout       = 20 * time.Second
)

// Stage is a federation with Breakwater beside it, on which scenarios run one after the other.
type Stage struct {
	Breakwater *install.Installation
	Core       *local.Cluster
	Workers    []*local.Cluster
	Cells      []storm.Cell

	federation *local.Federation
	dir        string
	protectors client.Client
	etcds      []*clientv3.Client // of the workers
	shares     []client.Client    // of the workers
	proxies    map[connection]*federation.Proxy
}

// connection is the connection of one component to one cluster.
type connection struct{ component, cluster string }

// StageOptions configure the programs and folders of a stage.
type StageOptions struct {
	// Program is the path of breakwater. Binaries are the folders of the control planes' programs.
	Program  string
	Binaries []string
	// Dir takes data, logs and certificates. It must exist and be empty.
	Dir string
	Log logr.Logger
	// Shares installs what the scenarios need that outlive the core.
	Shares bool
}

// OpenStage starts everything and returns when the webhooks deny what they should.
func OpenStage(ctx context.Context, options StageOptions) (*Stage, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	topology, err := federation.Embedded("federated")
	if err != nil {
		return nil, err
	}
	s := &Stage{dir: options.Dir, proxies: map[connection]*federation.Proxy{}}
	s.federation, err = local.Start(ctx, topology, local.Options{
		Binaries: options.Binaries, Dir: filepath.Join(options.Dir, "federation"), Log: options.Log,
		APIServerArguments: slices.Concat(keepHistory(), forgetEvents(), []string{"--request-timeout=" + requestTimeout.String()}),
		EtcdArguments:      limitCore,
	})
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx, options); err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	return s, nil
}

// forgetEvents returns the arguments of API servers that keep Events for less time than the warm-up of the shortest soak, not for an
// hour. Otherwise an etcd grows for an hour, however the components behave.
func forgetEvents() []string { return []string{"--event-ttl=20s", "--lease-reuse-duration-seconds=10"} }

func (s *Stage) open(ctx context.Context, options StageOptions) error {
	s.Core, s.Workers = s.federation.Members[0], s.federation.Members[1:] // the topology lists the core first
	var err error
	if s.protectors, err = install.Client(s.Core); err != nil {
		return err
	}
	for _, worker := range s.Workers {
		cell, err := storm.NewCell(worker.Name(), worker.RESTConfig())
		if err != nil {
			return err
		}
		etcd, err := worker.DialEtcd()
		if err != nil {
			return err
		}
		shares, err := install.Client(worker)
		if err != nil {
			return err
		}
		s.Cells, s.etcds, s.shares = append(s.Cells, cell), append(s.etcds, etcd), append(s.shares, shares)
	}
	if err := s.putProxies(ctx); err != nil {
		return err
	}
	s.Breakwater, err = install.Start(ctx, install.Options{
		Program: options.Program, Dir: options.Dir, Cores: s.federation.Cores(), Workers: s.federation.Workers(),
		AdmissionDeadline: admissionDeadline, Kubeconfig: s.kubeconfig, Metrics: true, Shares: options.Shares,
		AggregatorArguments: []string{"--lease-duration=" + leaseDuration.String()},
	})
	if err != nil {
		return err
	}
	return s.Breakwater.EnableWebhooks(ctx)
}

// webhooks returns the names of the webhook components, which answer the API servers.
func webhooks() []string { return []string{install.WebhookName(0), install.WebhookName(1)} }

// putProxies puts one proxy between each webhook and the core, and two at each aggregator: to the core and to its cell.
func (s *Stage) putProxies(ctx context.Context) error {
	put := func(component string, cluster *local.Cluster) (err error) {
		s.proxies[connection{component, cluster.Name()}], err = cluster.Proxy(ctx)
		return err
	}
	for _, webhook := range webhooks() {
		if err := put(webhook, s.Core); err != nil {
			return err
		}
	}
	for _, worker := range s.Workers {
		for _, cluster := range []*local.Cluster{s.Core, worker} {
			if err := put(s.aggregator(worker), cluster); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Stage) kubeconfig(component string, cluster federation.Cluster) string {
	if proxy, ok := s.proxies[connection{component, cluster.Name()}]; ok {
		return proxy.Kubeconfig()
	}
	return cluster.Kubeconfig()
}

func (s *Stage) aggregator(worker *local.Cluster) string {
	return install.AggregatorName(s.Core.Name(), worker.Name())
}

// deaths returns the components that have exited by themselves since the last call.
func (s *Stage) deaths() error {
	var all []error
	for {
		select {
		case death := <-s.federation.Deaths():
			all = append(all, death)
		case death := <-s.Breakwater.Died():
			all = append(all, death)
		default:
			return errors.Join(all...)
		}
	}
}

// Close stops everything.
func (s *Stage) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	for _, etcd := range s.etcds {
		_ = etcd.Close()
	}
	if s.Breakwater != nil {
		s.Breakwater.Stop()
	}
	return s.federation.Stop(ctx)
}
