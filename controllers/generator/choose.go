package generator

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// policyChooser chooses the policy of a source.
type policyChooser struct {
	cache, live client.Reader
	kinds       *Kinds
	// selector selects the workloads that have protectors even without a policy.
	selector labels.Selector
}

// choose decides how an existing source is protected. If the choice could weaken its protectors, a cache that lags could be wrong about it,
// so choose decides again by what the API server returns.
func (c *policyChooser) choose(ctx context.Context, ref policy.Ref, source client.Object, protectors []*v1alpha1.PodProtector) (policy.Choice, error) {
	last := lastOrigin(protectors)
	choice, err := c.chooseFrom(ctx, c.cache, c.kinds.watches.namespaceLabels, ref, source, last)
	if err != nil {
		return policy.Choice{}, err
	}
	if last == nil || choice.Verdict == policy.Protect && choice.Origin.Policy == last.Policy {
		return choice, nil
	}
	return c.chooseLive(ctx, ref, source, last)
}

// chooseLive decides by the policies and the labels of the namespace that the API server returns.
func (c *policyChooser) chooseLive(ctx context.Context, ref policy.Ref, source client.Object, last *policy.Origin) (policy.Choice, error) {
	return c.chooseFrom(ctx, c.live, c.kinds.watches.liveNamespaceLabels, ref, source, last)
}

// labelReader returns the labels of a namespace.
type labelReader = func(ctx context.Context, namespace string) (map[string]string, error)

// chooseFrom decides by the policies that a reader returns.
func (c *policyChooser) chooseFrom(
	ctx context.Context, reader client.Reader, namespaceLabels labelReader, ref policy.Ref, source client.Object, last *policy.Origin,
) (policy.Choice, error) {
	policies, err := listPolicies(ctx, reader, ref.Namespace)
	if err != nil {
		return policy.Choice{}, err
	}
	if policies, err = c.omitPolicyOfDeletedCRD(ctx, policies, last); err != nil {
		return policy.Choice{}, err
	}
	candidate, err := candidateOf(ctx, ref, source, policies, namespaceLabels)
	if err != nil {
		return policy.Choice{}, err
	}
	return policy.Choose(policies, candidate, c.selector.Matches(labels.Set(source.GetLabels())), last), nil
}

// omitPolicyOfDeletedCRD omits the policy of the protectors if it is deleted only because its whole kind is: a user who deletes a CRD has not
// decided about each policy (rule 13).
func (c *policyChooser) omitPolicyOfDeletedCRD(ctx context.Context, policies []*policy.Policy, last *policy.Origin) ([]*policy.Policy, error) {
	if last == nil {
		return policies, nil
	}
	index := slices.IndexFunc(policies, func(p *policy.Policy) bool { return p.Deleted && p.String() == last.Policy })
	if index < 0 {
		return policies, nil
	}
	isDeleted, err := c.kinds.isResourceDeleted(ctx, policyResource(policies[index]))
	if err != nil || !isDeleted {
		return policies, err
	}
	return slices.Delete(policies, index, index+1), nil
}

// listPolicies returns the policies that may select workloads of a namespace, in order of precedence. Without their CRDs there are none:
// they have vanished.
func listPolicies(ctx context.Context, reader client.Reader, namespace string) ([]*policy.Policy, error) {
	var own v1alpha1.ProtectionPolicyList
	if err := reader.List(ctx, &own, client.InNamespace(namespace)); ignoreNotServed(err) != nil {
		return nil, fmt.Errorf("list ProtectionPolicies: %w", err)
	}
	var all v1alpha1.ClusterProtectionPolicyList
	if err := reader.List(ctx, &all); ignoreNotServed(err) != nil {
		return nil, fmt.Errorf("list ClusterProtectionPolicies: %w", err)
	}
	policies := make([]*policy.Policy, 0, len(own.Items)+len(all.Items))
	for i := range own.Items {
		policies = append(policies, policy.NewPolicy(&own.Items[i]))
	}
	for i := range all.Items {
		policies = append(policies, policy.NewPolicy(&all.Items[i]))
	}
	policy.SortByPrecedence(policies)
	return policies, nil
}

// lastOrigin returns what generated a source's protectors; nil if none is generated. A protector that names a policy takes precedence over
// one whose annotations a user removed.
func lastOrigin(protectors []*v1alpha1.PodProtector) *policy.Origin {
	var last *policy.Origin
	for _, p := range protectors {
		if !policy.IsGenerated(p) || isReleased(p) {
			continue
		}
		// A record that cannot be parsed leaves the rule unknown; protect handles that case.
		origin, _ := policy.OriginOf(p)
		if last == nil || last.Policy == "" {
			last = &origin
		}
	}
	return last
}

// candidateOf returns the properties of a source that policies use.
func candidateOf(
	ctx context.Context, ref policy.Ref, source client.Object, policies []*policy.Policy, namespaceLabels labelReader,
) (policy.Candidate, error) {
	c := policy.Candidate{Ref: ref, Labels: source.GetLabels()}
	if !slices.ContainsFunc(policies, func(p *policy.Policy) bool { return p.Namespaces != nil }) {
		return c, nil
	}
	var err error
	c.NamespaceLabels, err = namespaceLabels(ctx, ref.Namespace)
	return c, err
}
