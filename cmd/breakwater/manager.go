package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

// manager creates the controller-runtime manager of a component. It serves metrics and health checks, and watches the cluster of
// config. A component uses change to add its settings, such as controller-runtime's leader election.
func (f *componentFlags) manager(
	component string, config *rest.Config, change ...func(*manager.Options),
) (manager.Manager, error) {
	if err := f.checkAddresses(); err != nil {
		return nil, err
	}
	log, err := f.logger(component)
	if err != nil {
		return nil, err
	}
	options := manager.Options{
		Scheme:                 clusters.Scheme(),
		Logger:                 log,
		Metrics:                f.metrics(component),
		HealthProbeBindAddress: f.healthAddress,
		PprofBindAddress:       f.profileAddress,
		Cache:                  clusters.CacheOptions(),
	}
	for _, c := range change {
		c(&options)
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("set up %s for %s: %w", component, config.Host, err)
	}
	return mgr, errors.Join(mgr.AddHealthzCheck("process", healthz.Ping), registerBuildInfo(component))
}

// metrics configures /metrics: for any client, or with TLS for clients that the API server of --metrics-auth authorizes. That can be a
// different cluster from the one that the component manages: a scraper has an account in its own cluster.
func (f *componentFlags) metrics(component string) metricsserver.Options {
	options := metricsserver.Options{BindAddress: f.metricsAddress}
	if f.metricsAuth == "" {
		return options
	}
	options.SecureServing = true
	options.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} }}
	options.FilterProvider = func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
		config, err := clusters.Connection{Kubeconfig: f.metricsAuth}.Config(component)
		if err != nil {
			return nil, fmt.Errorf("--metrics-auth: %w", err)
		}
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, fmt.Errorf("--metrics-auth: %w", err)
		}
		return filters.WithAuthenticationAndAuthorization(config, client)
	}
	return options
}

// registerBuildInfo registers a metric with the component and its version.
func registerBuildInfo(component string) error {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "breakwater_build_info", Help: "Always 1, with the component and its version as labels.",
		ConstLabels: prometheus.Labels{"component": component, "version": version.String()},
	})
	build.Set(1)
	err := metrics.Registry.Register(build)
	if errors.As(err, &prometheus.AlreadyRegisteredError{}) {
		return nil // tests run a component several times
	}
	return err
}

// addReloaders adds the reloaders of kubeconfig files to the manager. It ignores nil.
func addReloaders(mgr manager.Manager, reloaders ...*clusters.KubeconfigReloader) error {
	for _, reloader := range reloaders {
		if reloader == nil {
			continue
		}
		reloader.Log = mgr.GetLogger()
		if err := mgr.Add(reloader); err != nil {
			return err
		}
	}
	return nil
}

func (f *componentFlags) checkAddresses() error {
	return errors.Join(checkAddress("metrics-listen", f.metricsAddress), checkAddress("health-listen", f.healthAddress),
		checkAddress("profile-listen", f.profileAddress))
}

// checkAddress validates an address. The manager would not name the flag in its error.
func checkAddress(flag, address string) error {
	if address == "0" {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("--%s %q: %w: want [HOST]:PORT, or 0 to disable it", flag, address, err)
	}
	return nil
}

// processIdentity returns a unique identity for leader election. Host name and process ID are not unique: processes in the network of their
// node have its host name, and each may have process ID 1.
func processIdentity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return host + "_" + string(uuid.NewUUID())
}
