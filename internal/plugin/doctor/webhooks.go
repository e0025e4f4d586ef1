package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/check"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

// requestEach sends requests to all webhooks concurrently.
func requestEach[T any](hooks []T, request func(*T) findings.Hook) []findings.Hook {
	all := make([]findings.Hook, len(hooks))
	plugin.ForEachConcurrently(hooks, func(i int, _ T) { all[i] = request(&hooks[i]) })
	return all
}

// inspectWebhook reads the certificate of a webhook and sends it a request, if the webhook is reachable from this machine.
func inspectWebhook(
	ctx context.Context, name string, purpose findings.ReviewKind, clientConfig *admissionregistrationv1.WebhookClientConfig, request func() error,
) findings.Hook {
	found := findings.Hook{Name: name, Reviews: purpose, Bundle: clientConfig.CABundle}
	address := ""
	switch {
	case clientConfig.URL != nil:
		parsed, err := url.Parse(*clientConfig.URL)
		if err != nil {
			found.Chain.Err = err
			return found
		}
		found.Host, address = parsed.Hostname(), net.JoinHostPort(parsed.Hostname(), cmp.Or(parsed.Port(), "443"))
	case clientConfig.Service != nil:
		found.Host = clientConfig.Service.Name + "." + clientConfig.Service.Namespace + ".svc"
		// Names of Services resolve only within the cluster.
		found.InClusterOnly = true
		return found
	default:
		found.Chain.Err = errors.New("the configuration has neither a Service nor a URL")
		return found
	}
	if found.Chain = readResult(fetchCertificates(ctx, address, found.Host)); found.Chain.Err == nil {
		found.Answer = request()
	}
	return found
}

// fetchCertificates returns the certificates that are served at an address, trusted or not.
func fetchCertificates(ctx context.Context, address, name string) ([]*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, ServerName: name}} //nolint:gosec // Judge verifies the served chain
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates, nil
}

func mutatingConfigurations(ctx context.Context, config *rest.Config) ([]admissionregistrationv1.MutatingWebhookConfiguration, error) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	list, err := clientset.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, plugin.ListError(config, "MutatingWebhookConfigurations", err)
	}
	return list.Items, nil
}

// dryRunDuplicate creates a second protector for a workload as a dry run, which the webhook denies. It returns nil if there is no suitable
// protector.
func (f *doctorFlags) dryRunDuplicate(ctx context.Context, c plugin.Core, found *findings.Core) *findings.SecondProtectorAnswer {
	original := findings.TargetedProtector(found, f.Now())
	if original == nil {
		return nil
	}
	duplicate := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: original.Namespace, Name: "breakwater-doctor"}, Spec: *original.Spec.DeepCopy()}
	return &findings.SecondProtectorAnswer{Existing: original.Namespace + "/" + original.Name, Err: c.Create(ctx, duplicate, client.DryRunAll)}
}

// requestCoreWebhooks sends requests to the webhooks for protectors and for objects of rings from this machine.
func requestCoreWebhooks(ctx context.Context, found *findings.Core) []findings.Hook {
	checker := &check.Checker{Namespace: metav1.NamespaceDefault}
	all := requestEach(webhookconfig.ProtectorWebhooks(found.Validating.Value), func(w *webhookconfig.Webhook) findings.Hook {
		return inspectWebhook(ctx, w.Name, findings.ProtectorReviews, &w.Client, func() error {
			return checker.CallWebhook(ctx, &admissionregistrationv1.ValidatingWebhook{ClientConfig: w.Client, Rules: w.Rules})
		})
	})
	var ringWebhooks []webhookconfig.Webhook
	for i := range found.Rings.Value {
		ringWebhooks = append(ringWebhooks, webhookconfig.RingWebhooks(found.Rings.Value[i].Name, found.Mutating.Value)...)
	}
	return append(all, requestEach(ringWebhooks, func(w *webhookconfig.Webhook) findings.Hook {
		return inspectWebhook(ctx, w.Name+" in "+w.Configuration, findings.RingReviews, &w.Client, func() error {
			return checker.CallRingWebhook(ctx, &admissionregistrationv1.MutatingWebhook{ClientConfig: w.Client, Rules: w.Rules})
		})
	})...)
}
