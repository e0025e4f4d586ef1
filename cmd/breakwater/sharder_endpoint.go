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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// authorityEvery is how often the CA file is read. The kubelet needs a minute or more to update it.
const authorityEvery = 10 * time.Second

// sharderEndpoint returns the address at which API servers reach the sharder, without a path.
func sharderEndpoint(service, address string) (admissionregistrationv1.WebhookClientConfig, error) {
	config := admissionregistrationv1.WebhookClientConfig{}
	switch {
	case service == "" && address == "":
		return config, errors.New("say by which address the apiserver reaches the sharder: --service or --url is required")
	case service != "" && address != "":
		return config, errors.New("--service and --url exclude each other")
	case address != "":
		base, err := url.Parse(address)
		if err != nil || base.Scheme != "https" || base.Host == "" || strings.Trim(base.Path, "/") != "" || base.RawQuery != "" || base.Fragment != "" || base.User != nil {
			return config, fmt.Errorf("--url %q: want https://HOST:PORT and nothing more; the path is that of each ring", address)
		}
		plain := "https://" + base.Host
		config.URL = &plain
		return config, nil
	}
	name, port, hasPort := strings.Cut(service, ":")
	if !isNamespacedName(name) {
		return config, fmt.Errorf("--service %q: want NAMESPACE/NAME[:PORT]", service)
	}
	number := int64(443)
	if hasPort {
		var err error
		if number, err = strconv.ParseInt(port, 10, 32); err != nil || number < 1 || number > 65535 {
			return config, fmt.Errorf("--service %q: %q is not a port", service, port)
		}
	}
	namespace, name, _ := strings.Cut(name, "/")
	short := int32(number)
	config.Service = &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: name, Port: &short}
	return config, nil
}

// isNamespacedName reports whether a text is NAMESPACE/NAME.
func isNamespacedName(text string) bool {
	namespace, name, ok := strings.Cut(text, "/")
	return ok && len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
}

// kicks is a queue of rings whose objects the sharder should check soon.
type kicks chan string

// newKicks returns kicks with a capacity that is sufficient while a leader receives from it.
func newKicks() kicks { return make(kicks, 1024) }

// kick never blocks. It drops a ring if the queue is full: the sharder checks all rings periodically, and when a replica becomes leader.
func (k kicks) kick(ring string) {
	select {
	case k <- ring:
	default:
	}
}

// authority is the sharder's endpoint, with the current CA bundle of its file.
type authority struct {
	config admissionregistrationv1.WebhookClientConfig
	file   string // empty if there is no file
	rings  client.Reader
	kicks  kicks
	log    logr.Logger
	every  time.Duration

	mu     sync.Mutex
	bundle []byte
}

// authority reads the file and adds its watcher to the manager.
func (f *sharderFlags) authority(mgr manager.Manager, kicks kicks) (*authority, error) {
	a := &authority{config: f.client, file: f.authorityFile, rings: mgr.GetClient(), kicks: kicks, log: mgr.GetLogger(), every: authorityEvery}
	if a.file == "" {
		return a, nil
	}
	if _, err := a.read(); err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	return a, mgr.Add(a)
}

// clientConfig returns the current webhook client configuration for API servers.
func (a *authority) clientConfig() admissionregistrationv1.WebhookClientConfig {
	a.mu.Lock()
	defer a.mu.Unlock()
	config := *a.config.DeepCopy()
	config.CABundle = bytes.Clone(a.bundle)
	return config
}

// read reads the file and reports whether it changed. A file without certificates is an error and changes nothing.
func (a *authority) read() (bool, error) {
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
func (a *authority) NeedLeaderElection() bool { return false }

// Start polls the file until ctx ends.
func (a *authority) Start(ctx context.Context) error {
	ticker := time.NewTicker(a.every)
	defer ticker.Stop()
	for said := ""; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		changed, err := a.read()
		if err == nil && changed {
			a.log.Info("Webhook configurations of rings are to trust other authorities", "file", a.file)
			err = a.kickAll(ctx)
		}
		if text := fmt.Sprint(err); err != nil && text != said {
			a.log.Error(err, "The authorities of the sharder are as they were")
			said = text
		} else if err == nil {
			said = ""
		}
	}
}

// kickAll makes the sharder check all rings, and thereby their webhook configurations.
func (a *authority) kickAll(ctx context.Context) error {
	rings := &v1alpha1.ClusterRingList{}
	if err := a.rings.List(ctx, rings); err != nil {
		return fmt.Errorf("list ClusterRings: %w", err)
	}
	for i := range rings.Items {
		a.kicks.kick(rings.Items[i].Name)
	}
	return nil
}
