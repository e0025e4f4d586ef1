package main

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
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

// parseService parses the value of --service. The default port is 443.
func parseService(service string) (key client.ObjectKey, port int32, err error) {
	text, portText, hasPort := strings.Cut(service, ":")
	key, ok := parseNamespacedName(text)
	if !ok {
		return key, 0, fmt.Errorf("--service %q: want NAMESPACE/NAME[:PORT]", service)
	}
	if !hasPort {
		return key, 443, nil
	}
	number, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || number == 0 {
		return key, 0, fmt.Errorf("--service %q: %q is not a port", service, portText)
	}
	return key, int32(number), nil
}

// parseNamespacedName parses NAMESPACE/NAME.
func parseNamespacedName(text string) (key client.ObjectKey, ok bool) {
	namespace, name, ok := strings.Cut(text, "/")
	return client.ObjectKey{Namespace: namespace, Name: name},
		ok && len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
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
	rings    client.Reader
	queue    ringQueue
	log      logr.Logger
	interval time.Duration

	mu     sync.Mutex
	bundle []byte
}

// newEndpointCA reads the file and adds its watcher to the manager.
func (f *sharderFlags) newEndpointCA(mgr manager.Manager, queue ringQueue) (*endpointCA, error) {
	a := &endpointCA{config: f.client, file: f.caFile, rings: mgr.GetClient(), queue: queue, log: mgr.GetLogger(), interval: caPollInterval}
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

// Start polls the file until ctx ends.
func (a *endpointCA) Start(ctx context.Context) error {
	lastError := ""
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		changed, err := a.read()
		if err == nil && changed {
			a.log.Info("Updated CAs of the sharder", "file", a.file)
			err = a.enqueueAll(ctx)
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

// enqueueAll makes the sharder check all rings, and thereby their webhook configurations.
func (a *endpointCA) enqueueAll(ctx context.Context) error {
	rings := &v1alpha1.ClusterRingList{}
	if err := a.rings.List(ctx, rings); err != nil {
		return fmt.Errorf("list ClusterRings: %w", err)
	}
	for i := range rings.Items {
		a.queue.enqueue(rings.Items[i].Name)
	}
	return nil
}
