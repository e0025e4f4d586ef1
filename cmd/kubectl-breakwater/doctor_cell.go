package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/internal/check"
	"github.com/breakwater-k8s/breakwater/internal/doctor"
)

// readCell looks at the cluster of a cell.
func (f *doctorFlags) readCell(ctx context.Context, c doctor.Cell, cores []core) doctor.Cell {
	at, err := f.clusters.Cell(ctx, c.Name, cores)
	if err != nil {
		c.Way = err
		return c
	}
	if c.Clock = read(clockOf(ctx, at.Config)); c.Clock.Err != nil {
		return c
	}
	client, err := kubernetes.NewForConfig(at.Config)
	if err != nil {
		c.Way = err
		return c
	}
	c.Lent = at.Found == bySecret
	wanted := doctor.Wanted(false)
	if c.Lent {
		wanted = nil
	}
	together(
		func() { c.Configurations = read(webhookConfigurations(ctx, at.Config)) },
		func() {
			spaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
			c.Spaces = read(spaces.Items, failure(at.Config, err))
		},
		func() { c.Pods = read(podsOfComponents(ctx, at.Config)) },
		func() { c.Rights = read(rightsAt(ctx, at.Config, false, wanted)) },
	)
	space := doctor.AskedAbout(&c)
	hooks := doctor.Hooks(c.Name, c.Configurations.Value)
	c.Hooks = make([]doctor.Hook, len(hooks))
	together(
		func() { c.Asked = evictNobody(ctx, client, space) },
		func() {
			each(hooks, func(i int, hook admissionregistrationv1.ValidatingWebhook) { c.Hooks[i] = readHook(ctx, &hook, space) })
		},
	)
	return c
}

// evictNobody evicts, as a dry run, a pod that is not there: the apiserver asks its webhooks before it looks.
func evictNobody(ctx context.Context, client kubernetes.Interface, namespace string) error {
	return client.CoreV1().Pods(namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "breakwater-doctor"}, DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
	})
}

// readHook asks a webhook from here, and looks at its certificate, if it can be reached from here.
func readHook(ctx context.Context, hook *admissionregistrationv1.ValidatingWebhook, namespace string) doctor.Hook {
	found := doctor.Hook{Name: hook.Name, Bundle: hook.ClientConfig.CABundle}
	address := ""
	switch at := hook.ClientConfig; {
	case at.URL != nil:
		parsed, err := url.Parse(*at.URL)
		if err != nil {
			found.Chain.Err = err
			return found
		}
		found.Host, address = parsed.Hostname(), net.JoinHostPort(parsed.Hostname(), portOf(parsed))
	case at.Service != nil:
		found.Host = at.Service.Name + "." + at.Service.Namespace + ".svc"
		// The names of Services are known within the cluster alone.
		found.Local = true
		return found
	default:
		found.Chain.Err = errors.New("it has neither a Service nor a URL")
		return found
	}
	if found.Chain = read(servedAt(ctx, address, found.Host)); found.Chain.Err == nil {
		found.Answer = (&check.Checker{Namespace: namespace}).Ask(ctx, hook)
	}
	return found
}

func portOf(address *url.URL) string {
	if port := address.Port(); port != "" {
		return port
	}
	return "443"
}

// servedAt are the certificates that are shown at an address, trusted or not.
func servedAt(ctx context.Context, address, name string) ([]*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: name}} //nolint:gosec // what is shown is what is judged
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates, nil
}
