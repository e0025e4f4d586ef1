package doctor

import (
	"context"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/check"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

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

// readIfServed reads all objects of a kind, none if its CRD does not exist: the crds check reports that.
func readIfServed[T any](ctx context.Context, c plugin.Core, kind client.ObjectList) ([]T, error) {
	all, err := plugin.ReadAll[T](ctx, c, kind)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	return all, err
}

// readShards reads the Leases of shards in each namespace that a ring names.
func readShards(ctx context.Context, c plugin.Core, rings []v1alpha1.ClusterRing) (all []coordinationv1.Lease, err error) {
	var read []string
	for i := range rings {
		namespace := rings[i].Spec.ShardNamespace
		if slices.Contains(read, namespace) {
			continue
		}
		read = append(read, namespace)
		some, err := plugin.ReadAll[coordinationv1.Lease](ctx, c, &coordinationv1.LeaseList{}, client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelRing})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// readPolicies reads the names of scheduling policies.
func readPolicies(ctx context.Context, c plugin.Core) (names []string, err error) {
	namespaced, err := readIfServed[v1alpha1.PodSchedulingPolicy](ctx, c, &v1alpha1.PodSchedulingPolicyList{})
	if err != nil {
		return nil, err
	}
	for i := range namespaced {
		names = append(names, namespaced[i].Namespace+"/"+namespaced[i].Name)
	}
	all, err := readIfServed[v1alpha1.ClusterPodSchedulingPolicy](ctx, c, &v1alpha1.ClusterPodSchedulingPolicyList{})
	for i := range all {
		names = append(names, all[i].Name)
	}
	return names, err
}
