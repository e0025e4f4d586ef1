package console

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/internal/console/access"
)

// Options configure the console.
type Options struct {
	// Core is the name of the core cluster of the manager.
	Core string
	// Others are the other core clusters, by name.
	Others map[string]*rest.Config
	// Listen is the address to serve on. The certificate files are reloaded when they change.
	Listen, CertFile, KeyFile string
	// Local serves one user of this machine instead of Listen with a certificate; nil if there is none.
	Local *Local
	// SessionIdle is how long an inactive session lasts, and SessionLifetime how long any session lasts.
	SessionIdle, SessionLifetime time.Duration
	// ReviewLifetime is how long answers of the API server about a visitor are cached.
	ReviewLifetime time.Duration
	// Sessions and Streams are the maximum numbers of each. StreamsEach is the maximum number of streams per visitor.
	Sessions, Streams, StreamsEach int
	// HistoryFile is a file that keeps histories across restarts; empty if there is none. HistoryInterval is how often it is saved.
	HistoryFile     string
	HistoryInterval time.Duration
	// RunbookURL is the base URL of the runbooks to which alarms link, without a final slash.
	RunbookURL string
	// ProbeInterval is how often cores are probed.
	ProbeInterval time.Duration
	// CheckInterval is how often a stream checks for changes. RefreshInterval is how often it renders the page without a change, because the page shows
	// elapsed times and the visitor may have lost permissions.
	CheckInterval, RefreshInterval time.Duration
	Registry                       prometheus.Registerer
}

// Default returns the default options.
func Default() Options {
	return Options{
		Core: "core", Listen: ":9443", RunbookURL: "https://github.com/breakwater-k8s/breakwater/blob/main/docs/runbooks",
		SessionIdle: time.Hour, SessionLifetime: 12 * time.Hour, ReviewLifetime: 30 * time.Second,
		Sessions: 1_000, Streams: 200, StreamsEach: 10, HistoryInterval: time.Minute, ProbeInterval: 3 * time.Second,
		CheckInterval: time.Second, RefreshInterval: 10 * time.Second,
	}
}

// Validate returns an error that names the flags with invalid values.
func (o *Options) Validate() error {
	var all []error
	if o.Local == nil && (o.CertFile == "" || o.KeyFile == "") {
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
	if _, ok := o.Others[o.Core]; ok {
		all = append(all, fmt.Errorf("--core %s: that is the name of the cluster of --kubeconfig: set --core-name", o.Core))
	}
	return errors.Join(all...)
}

// Setup adds the console to a manager of the core cluster.
func Setup(mgr manager.Manager, options Options) error {
	_, err := setup(mgr, options)
	return err
}

func setup(mgr manager.Manager, options Options) (*server, error) {
	pages, err := newPages(options.RunbookURL)
	if err != nil {
		return nil, err
	}
	s := &server{
		options: options, log: mgr.GetLogger(), now: time.Now, began: time.Now(), pages: pages, streams: newStreams(options.Streams, options.StreamsEach),
	}
	var gates []access.Core
	for _, name := range append([]string{options.Core}, slices.Sorted(maps.Keys(options.Others))...) {
		config := mgr.GetConfig()
		if name != options.Core {
			config = options.Others[name]
		}
		c, err := newCore(name, config, maxPoints/(1+len(options.Others)), &options, s.log)
		if err != nil {
			return nil, err
		}
		reviews := access.NewReviews(c.client, options.ReviewLifetime, time.Now)
		reviews.Unreachable, reviews.Self = c.unreachable, options.Local != nil
		s.cores, gates = append(s.cores, c), append(gates, access.Core{Name: name, Reviews: reviews})
		if err := mgr.Add(c); err != nil {
			return nil, err
		}
	}
	if err := s.addHistory(mgr); err != nil {
		return nil, err
	}
	sessions := access.NewSessions(options.SessionIdle, options.SessionLifetime, options.Sessions, time.Now)
	s.gate = access.NewGate(gates, sessions, time.Now)
	s.gate.Loopback = options.Local != nil
	s.metrics = newMetrics(options.Registry, sessions, s.streams)
	return s, errors.Join(mgr.Add(s), mgr.AddReadyzCheck("console", s.ready))
}

// addHistory adds the file of histories from before the start of the console, if there is one.
func (s *server) addHistory(mgr manager.Manager) error {
	if s.options.HistoryFile == "" {
		return nil
	}
	file := &historyFile{path: s.options.HistoryFile, interval: s.options.HistoryInterval, cores: s.cores, log: s.log, now: time.Now}
	if err := file.load(); err != nil {
		s.log.Error(err, "Ignored a part of the history file", "file", file.path)
	}
	if err := file.save(); err != nil {
		return fmt.Errorf("--history-file %s: %w", file.path, err)
	}
	return mgr.Add(file)
}
