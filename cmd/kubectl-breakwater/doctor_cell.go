package main

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/check"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/doctor"
)

// readCell reads the state of the cluster of a cell.
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
		func() { c.Mutating = read(mutatingConfigurations(ctx, at.Config)) },
		func() {
			spaces, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
			c.Spaces = read(spaces.Items, failure(at.Config, err))
		},
		func() { c.Pods = read(podsOfComponents(ctx, at.Config)) },
		func() { c.Rights = read(rightsAt(ctx, at.Config, false, wanted)) },
	)
	space := doctor.AskedAbout(&c)
	asker := &check.Checker{Namespace: space}
	together(
		func() { c.Asked = evictNobody(ctx, client, space) },
		func() {
			c.Hooks = askEach(doctor.Hooks(c.Name, c.Configurations.Value), func(hook *admissionregistrationv1.ValidatingWebhook) doctor.Hook {
				return readHook(ctx, hook.Name, doctor.OfRemovals, &hook.ClientConfig, func() error { return asker.Ask(ctx, hook) })
			})
		},
		func() {
			c.Scheduling = askEach(webhookconfig.Scheduling(c.Name, c.Mutating.Value), func(hook *admissionregistrationv1.MutatingWebhook) doctor.Hook {
				return readHook(ctx, hook.Name, doctor.OfScheduling, &hook.ClientConfig, func() error { return asker.AskScheduling(ctx, hook) })
			})
		},
	)
	return c
}

// evictNobody sends a dry-run eviction of a pod that does not exist. The API server calls webhooks before it looks up the pod.
func evictNobody(ctx context.Context, client kubernetes.Interface, namespace string) error {
	return client.CoreV1().Pods(namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "breakwater-doctor"}, DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
	})
}
