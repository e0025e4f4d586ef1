package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// addTokenRenewal adds loops to mgr that renew the tokens of the kubeconfigs of cores, which are in Secrets of the pod's own cluster and namespace.
func (f *webhookFlags) addTokenRenewal(mgr manager.Manager) error {
	if len(f.renewed) == 0 {
		return nil
	}
	config, err := clusters.Connection{Kubeconfig: f.home}.Config("webhook")
	if err != nil {
		return fmt.Errorf("--home: %w", err)
	}
	home, err := client.New(config, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return fmt.Errorf("--home: %w", err)
	}
	namespace, err := ownNamespace(inClusterNamespace)
	if err != nil {
		return err
	}
	renewer := &clusters.TokenRenewer{Home: home, Live: home, Component: "webhook", Now: time.Now, Spread: rand.Float64()} //nolint:gosec // not secret
	for _, renewed := range f.renewed {
		secret, key, _ := strings.Cut(renewed, "/")
		err := mgr.Add(&clusters.TokenRenewalLoop{
			Renewer: renewer, Secret: v1alpha1.KubeconfigSecretRef{Namespace: namespace, Name: secret, Key: key}, Log: mgr.GetLogger(),
			Interval: clusters.RenewalInterval,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
