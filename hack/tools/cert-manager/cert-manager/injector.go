package main

import (
	"context"
	"errors"
	"fmt"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/util"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// newInjector gives the manager that writes the CA of certificates into webhook configurations.
func newInjector(ctx context.Context, config *rest.Config) (ctrl.Manager, error) {
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), certmanagerv1.AddToScheme(known),
		apiextensionsv1.AddToScheme(known), apiregistrationv1.AddToScheme(known)); err != nil {
		return nil, err
	}
	// It applies as the owner that its user agent names.
	mgr, err := ctrl.NewManager(util.RestConfigWithUserAgent(config, "cainjector"), ctrl.Options{
		Scheme: known, Metrics: metricsserver.Options{BindAddress: "0"},
		// It watches the metadata of Secrets and reads each when it needs it.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager of the cainjector: %w", err)
	}
	err = cainjector.RegisterAllInjectors(ctx, mgr, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the cainjector: %w", err)
	}
	return mgr, nil
}
