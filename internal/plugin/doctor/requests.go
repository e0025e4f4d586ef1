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

// readRings reads the ClusterRings. If their CRD does not exist, it returns none: the crds check reports that.
func readRings(ctx context.Context, c plugin.Core) (all []v1alpha1.ClusterRing, err error) {
	err = plugin.ListPages(ctx, c, &v1alpha1.ClusterRingList{}, func(l *v1alpha1.ClusterRingList) { all = append(all, l.Items...) })
	return all, ignoreNoMatch(err)
}

// readShards reads the Leases of shards in each namespace that a ring names.
func readShards(ctx context.Context, c plugin.Core, rings []v1alpha1.ClusterRing) (all []coordinationv1.Lease, err error) {
	var namespaces []string
	for i := range rings {
		if namespace := rings[i].Spec.ShardNamespace; !slices.Contains(namespaces, namespace) {
			namespaces = append(namespaces, namespace)
		}
	}
	for _, namespace := range namespaces {
		err := plugin.ListPages(ctx, c, &coordinationv1.LeaseList{}, func(l *coordinationv1.LeaseList) { all = append(all, l.Items...) },
			client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelRing})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readPolicies reads the names of scheduling policies. It returns none if their CRDs do not exist.
func readPolicies(ctx context.Context, c plugin.Core) (names []string, err error) {
	err = plugin.ListPages(ctx, c, &v1alpha1.PodSchedulingPolicyList{}, func(l *v1alpha1.PodSchedulingPolicyList) {
		for i := range l.Items {
			names = append(names, l.Items[i].Namespace+"/"+l.Items[i].Name)
		}
	})
	if err := ignoreNoMatch(err); err != nil {
		return nil, err
	}
	err = plugin.ListPages(ctx, c, &v1alpha1.ClusterPodSchedulingPolicyList{}, func(l *v1alpha1.ClusterPodSchedulingPolicyList) {
		for i := range l.Items {
			names = append(names, l.Items[i].Name)
		}
	})
	return names, ignoreNoMatch(err)
}

// ignoreNoMatch ignores the error that a kind does not exist.
func ignoreNoMatch(err error) error {
	if meta.IsNoMatchError(err) {
		return nil
	}
	return err
}
