package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// caPollInterval is how often the CA file is read. The kubelet needs a minute or more to update it.
const caPollInterval = 10 * time.Second

// sharderEndpoint returns the address at which API servers reach the sharder, without a path.
func sharderEndpoint(service, address string) (admissionregistrationv1.WebhookClientConfig, error) {
	config := admissionregistrationv1.WebhookClientConfig{}
	switch {
	case service == "" && address == "":
		return config, errors.New("--service or --url is required: set the address at which the API server reaches the sharder")
	case service != "" && address != "":
		return config, errors.New("--service and --url exclude each other")
	case address != "":
		base, err := url.Parse(address)
		if err != nil || base.Scheme != "https" || base.Host == "" || strings.Trim(base.Path, "/") != "" || base.RawQuery != "" || base.Fragment != "" || base.User != nil {
			return config, fmt.Errorf("--url %q: want only https://HOST:PORT; each ring has its own path", address)
		}
		plain := "https://" + base.Host
		config.URL = &plain
		return config, nil
	}
	key, port, err := parseService(service)
	config.Service = &admissionregistrationv1.ServiceReference{Namespace: key.Namespace, Name: key.Name, Port: &port}
	return config, err
}

// ringQueue is a queue of rings whose objects the sharder should check soon.
type ringQueue chan string

// newRingQueue returns a queue with a capacity that is sufficient while a leader receives from it.
func newRingQueue() ringQueue { return make(ringQueue, 1024) }

// enqueue never blocks. It drops a ring if the queue is full: the sharder checks all rings periodically, and when a replica becomes leader.
func (k ringQueue) enqueue(ring string) {
	select {
	case k <- ring:
	default:
	}
}

// endpointCA is the sharder's endpoint, with the current CA bundle of its file.
type endpointCA struct {
	config   admissionregistrationv1.WebhookClientConfig
	file     string // empty if there is no file
	log      logr.Logger
	interval time.Duration

	mu     sync.Mutex
	bundle []byte
}

// newEndpointCA reads the file and adds its watcher to the manager.
func (f *sharderFlags) newEndpointCA(mgr manager.Manager) (*endpointCA, error) {
	a := &endpointCA{config: f.client, file: f.caFile, log: mgr.GetLogger(), interval: caPollInterval}
	if a.file == "" {
		return a, nil
	}
	if _, err := a.read(); err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	return a, mgr.Add(a)
}

// clientConfig returns the current webhook client configuration for API servers.
func (a *endpointCA) clientConfig() admissionregistrationv1.WebhookClientConfig {
	a.mu.Lock()
	defer a.mu.Unlock()
	config := *a.config.DeepCopy()
	config.CABundle = bytes.Clone(a.bundle)
	return config
}

// read reads the file and reports whether it changed. A file without certificates is an error and changes nothing.
func (a *endpointCA) read() (bool, error) {
	raw, err := os.ReadFile(a.file)
	if err != nil {
		return false, err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(raw) {
		return false, fmt.Errorf("%s holds no PEM certificate", a.file)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := !bytes.Equal(a.bundle, raw)
	a.bundle = raw
	return changed, nil
}

// NeedLeaderElection returns false: a replica that becomes leader needs the current file.
func (a *endpointCA) NeedLeaderElection() bool { return false }

// Start polls the file until ctx ends. The sharder soon writes a changed bundle into the webhook configurations, which it compares periodically.
func (a *endpointCA) Start(ctx context.Context) error {
	lastError := ""
	wait.NonSlidingUntilWithContext(ctx, func(context.Context) {
		changed, err := a.read()
		if err == nil && changed {
			a.log.Info("Updated CAs of the sharder", "file", a.file)
		}
		if text := fmt.Sprint(err); err != nil && text != lastError {
			a.log.Error(err, "Failed to update CAs of the sharder")
			lastError = text
		} else if err == nil {
			lastError = ""
		}
	}, a.interval)
	return nil
}
