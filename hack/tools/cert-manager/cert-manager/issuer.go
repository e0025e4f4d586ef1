package main

import (
	"context"
	"fmt"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"         // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned" // registers itself
	"golang.org/x/sync/errgroup"
)

// workers of each controller, as cert-manager's own default.
const workers = 5

// enabled names the controllers that take a Certificate from its issuer to its Secret, and renew it.
func enabled() []string {
	return []string{
		issuers.ControllerName, clusterissuers.ControllerName,
		trigger.ControllerName, keymanager.ControllerName, requestmanager.ControllerName, issuing.ControllerName,
		readiness.ControllerName, revisionmanager.ControllerName,
		approver.ControllerName, ca.CRControllerName, selfsigned.CRControllerName,
	}
}

// issue runs the controllers until ctx ends.
func issue(ctx context.Context, kubeconfig, namespace string) error {
	contexts, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig: kubeconfig, KubernetesAPIQPS: 100, KubernetesAPIBurst: 200,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: namespace},
		CertificateOptions: controller.CertificateOptions{
			CopiedAnnotationPrefixes:                 []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/"},
			CertificateRequestMinimumBackoffDuration: time.Second, CertificateRequestMaximumBackoffDuration: time.Minute,
		},
	})
	if err != nil {
		return fmt.Errorf("make the clients of the issuers: %w", err)
	}
	own, err := contexts.Build()
	if err != nil {
		return fmt.Errorf("make the clients of the issuers: %w", err)
	}
	running, ctx := errgroup.WithContext(ctx)
	for _, name := range enabled() {
		one, err := controller.Known()[name](contexts)
		if err != nil {
			return fmt.Errorf("set up the controller %s: %w", name, err)
		}
		running.Go(func() error { return one.Run(workers, ctx) })
	}
	own.SharedInformerFactory.Start(ctx.Done())
	own.KubeSharedInformerFactory.Start(ctx.Done())
	return running.Wait()
}
