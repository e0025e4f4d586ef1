package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/console/access"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

// Options configure the console.
type Options struct {
	// Core is the display name of the core cluster.
	Core string
	// Listen is the address to serve on. The certificate files are reloaded when they change.
	Listen, CertFile, KeyFile string
	// SessionIdle is how long an inactive session lasts, and SessionLifetime how long any session lasts.
	SessionIdle, SessionLifetime time.Duration
	// ReviewLifetime is how long answers of the API server about a visitor are cached.
	ReviewLifetime time.Duration
	// Sessions and Streams are the maximum numbers of each. StreamsEach is the maximum number of streams per visitor.
	Sessions, Streams, StreamsEach int
	// CheckInterval is how often a stream checks for changes. Again is how often it renders the page without a change, because the page shows
	// elapsed times and the visitor may have lost permissions.
	CheckInterval, RefreshInterval time.Duration
	Registry                       prometheus.Registerer
}

// Default returns the default options.
func Default() Options {
	return Options{
		Core: "core", Listen: ":9443", SessionIdle: time.Hour, SessionLifetime: 12 * time.Hour, ReviewLifetime: 30 * time.Second,
		Sessions: 1_000, Streams: 200, StreamsEach: 10, CheckInterval: time.Second, RefreshInterval: 10 * time.Second,
	}
}

// Validate returns an error that names the flags with invalid values.
func (o *Options) Validate() error {
	var all []error
	if o.CertFile == "" || o.KeyFile == "" {
		all = append(all, errors.New("--tls-cert and --tls-key are required: tokens are sent over TLS only"))
	}
	if o.SessionIdle < time.Minute || o.SessionIdle > o.SessionLifetime {
		all = append(all, fmt.Errorf("--session-idle %s: want from 1m to --session-lifetime", o.SessionIdle))
	}
	if o.SessionLifetime > 7*24*time.Hour {
		all = append(all, fmt.Errorf("--session-lifetime %s: want at most 168h", o.SessionLifetime))
	}
	if o.ReviewLifetime < 0 || o.ReviewLifetime > 10*time.Minute {
		all = append(all, fmt.Errorf("--reviews-for %s: want from 0s to 10m", o.ReviewLifetime))
	}
	return errors.Join(all...)
}

// Setup adds the console to a manager of the core cluster, whose cache must use CacheOptions.
func Setup(ctx context.Context, mgr manager.Manager, options Options) error {
	_, err := setup(ctx, mgr, options)
	return err
}

func setup(ctx context.Context, mgr manager.Manager, options Options) (*server, error) {
	client, err := kubernetes.NewForConfig(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("connect to the core cluster: %w", err)
	}
	pages, err := newPages()
	if err != nil {
		return nil, err
	}
	store := newStore(time.Now)
	if err := store.addEventHandlers(ctx, mgr.GetCache()); err != nil {
		return nil, err
	}
	sessions := access.NewSessions(options.SessionIdle, options.SessionLifetime, options.Sessions, time.Now)
	s := &server{
		options: options, log: mgr.GetLogger(), now: time.Now, store: store, core: mgr.GetCache(), pages: pages,
		gate:    access.NewGate(access.NewReviews(client, options.ReviewLifetime, time.Now), sessions, time.Now),
		streams: newStreams(options.Streams, options.StreamsEach),
	}
	s.metrics = newMetrics(options.Registry, sessions, s.streams)
	for _, part := range []manager.Runnable{s, &denials{client: client, store: store, reader: denial.NewReader()}} {
		if err := mgr.Add(part); err != nil {
			return nil, err
		}
	}
	if err := mgr.AddReadyzCheck("console", s.ready); err != nil {
		return nil, err
	}
	return s, clusters.AddReadiness(ctx, mgr, "the console", &v1alpha1.PodProtector{}, &v1alpha1.Cell{})
}
