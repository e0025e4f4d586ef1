package doctor

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/check"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

// readCell reads the state of the cluster of a cell.
func (f *doctorFlags) readCell(ctx context.Context, c findings.Cell, cores plugin.CoreFuture) findings.Cell {
	at, err := f.Clusters.Cell(ctx, c.Name, cores)
	if err != nil {
		c.ConnectErr = err
		return c
	}
	if c.Clock = readResult(measureClock(ctx, at.Config)); c.Clock.Err != nil {
		return c
	}
	client, err := kubernetes.NewForConfig(at.Config)
	if err != nil {
		c.ConnectErr = err
		return c
	}
	c.UsesCellKubeconfig = at.Source == plugin.FromSecret
	wanted := findings.UserPermissions(false)
	if c.UsesCellKubeconfig {
		wanted = nil
	}
	plugin.RunConcurrently(
		func() { c.Configurations = readResult(plugin.WebhookConfigurations(ctx, at.Config)) },
		func() { c.Mutating = readResult(mutatingConfigurations(ctx, at.Config)) },
		func() {
			namespaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
			c.NamespaceObjects = readResult(namespaces.Items, plugin.WithRemedy(at.Config, err))
		},
		func() { c.Requesting = readResult(readLabeled(ctx, at.Config, v1alpha1.LabelProtect)) },
		func() { c.JobPods = readResult(readJobPods(ctx, at.Config)) },
		func() { c.Pods = readResult(readComponentPods(ctx, at.Config)) },
		func() { c.Permissions = readResult(readPermissions(ctx, at.Config, false, wanted)) },
	)
	namespace := findings.ReviewedNamespace(&c)
	checker := &check.Checker{Namespace: namespace}
	plugin.RunConcurrently(
		func() { c.EvictionAnswer = evictMissingPod(ctx, client, namespace) },
		func() {
			c.Hooks = requestEach(findings.RemovalWebhooks(c.Name, c.Configurations.Value), func(hook *admissionregistrationv1.ValidatingWebhook) findings.Hook {
				return inspectWebhook(ctx, hook.Name, findings.RemovalReviews, &hook.ClientConfig, func() error { return checker.CallWebhook(ctx, hook) })
			})
		},
		func() {
			c.Scheduling = requestEach(webhookconfig.SchedulingWebhooks(c.Name, c.Mutating.Value), func(hook *admissionregistrationv1.MutatingWebhook) findings.Hook {
				return inspectWebhook(ctx, hook.Name, findings.SchedulingReviews, &hook.ClientConfig, func() error { return checker.CallSchedulingWebhook(ctx, hook) })
			})
		},
	)
	return c
}

// evictMissingPod sends a dry-run eviction of a pod that does not exist. The API server calls webhooks before it looks up the pod.
func evictMissingPod(ctx context.Context, client kubernetes.Interface, namespace string) error {
	return client.CoreV1().Pods(namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "breakwater-doctor"}, DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
	})
}
