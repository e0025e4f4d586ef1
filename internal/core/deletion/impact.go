package deletion

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// impact is the effect of a plan on a protector, before the brake decides.
type impact struct {
	// by is the target that affects the protector. It is nil if none does.
	by *rootguard.Object
	// request is the request to the brake. It is nil if the brake need not decide, and result, reason and text are set.
	request             *brake.Request
	result              Result
	reason, explanation string
}

func ownKind(kind string) schema.GroupKind {
	return schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: kind}
}

// impactOn returns the fate of a protector.
func (d *plan) impactOn(p *v1alpha1.PodProtector) impact {
	if by := d.kinds[ownKind("PodProtector")]; by != nil {
		return impact{by: by, result: Held, reason: v1alpha1.ReasonKindDeleted,
			explanation: "it is deleted with its kind, and stays in force until \"breakwater release --deleted\" removes its finalizer"}
	}
	decide := d.impactOnManual
	if policy.IsGenerated(p) {
		decide = d.impactOnGenerated
	}
	if f := decide(p); f.by != nil {
		return f
	}
	return d.impactOnKept(p)
}

func (d *plan) impactOnManual(p *v1alpha1.PodProtector) impact {
	by := d.deletedBy(ownKind("PodProtector"), p)
	if by == nil {
		return impact{}
	}
	return impact{by: by, request: &brake.Request{Protector: p, Deleted: p, Cause: fmt.Sprintf("PodProtector %s was deleted", p.Name)}}
}

// impactOnGenerated returns the fate of a protector that exists as long as its source.
func (d *plan) impactOnGenerated(p *v1alpha1.PodProtector) impact {
	self := d.deletedBy(ownKind("PodProtector"), p)
	ref, _, _ := policy.SourceOf(p)
	source := d.state.Sources[ref]
	if source == nil {
		return d.impactOnOrphan(p, ref, self)
	}
	if by := d.deletedBy(ref.GroupKind(), source); by != nil {
		request := &brake.Request{Protector: p, Source: source, Deleted: source, Cause: ref.String() + " was deleted"}
		if d.kinds[ref.GroupKind()] == by {
			request.Cascade = fmt.Sprintf("the CustomResourceDefinition of %s is being deleted", ref.Kind)
		}
		return impact{by: by, request: request}
	}
	if f := d.impactOfPolicyDeletion(p, ref, source); f.by != nil {
		return f
	}
	if self == nil {
		return impact{}
	}
	return impact{by: self, result: Held, reason: ReasonSourceExists,
		explanation: fmt.Sprintf("it stays in force as long as %s wants protection: delete that, or label it %s=false", ref, v1alpha1.LabelProtect)}
}

// impactOnOrphan returns the fate of a generated protector without a source. A protector that is released once the brake grants it stays
// pending. Only a confirmation releases one whose source vanished.
func (d *plan) impactOnOrphan(p *v1alpha1.PodProtector, ref policy.Ref, by *rootguard.Object) impact {
	vanished := &brake.Request{Protector: p, Cause: ref.String() + " no longer exists"}
	switch c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved); {
	case by == nil:
		return impact{}
	case c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonSourceDeleted:
		return impact{by: by, request: &brake.Request{Protector: p, Cause: ref.String() + " was deleted"}}
	case vanished.IsConfirmed(d.state.namespaceAnnotations(p.Namespace), d.state.Now):
		return impact{by: by, request: vanished}
	}
	return impact{by: by, result: Held, reason: v1alpha1.ReasonSourceVanished,
		explanation: ref.String() + " does not exist, but was not deleted on purpose: the generator keeps its protectors"}
}

// impactOfPolicyDeletion returns the fate of a protector whose policy is deleted.
func (d *plan) impactOfPolicyDeletion(p *v1alpha1.PodProtector, ref policy.Ref, source *metav1.PartialObjectMetadata) impact {
	origin, err := policy.OriginOf(p)
	kind, name, _ := strings.Cut(origin.Policy, "/")
	policyRef := policy.Ref{Group: v1alpha1.GroupVersion.Group, Kind: kind, Name: name}
	if kind == policy.NamespacedPolicy {
		policyRef.Namespace = p.Namespace
	}
	if by := d.kinds[ownKind(kind)]; by != nil {
		return impact{by: by, result: Kept, reason: v1alpha1.ReasonPolicyVanished, explanation: "the deletion of the kind of a policy releases no floor"}
	}
	by := d.objects[policyRef]
	if by == nil {
		return impact{}
	}
	if err != nil {
		return impact{by: by, result: Kept, reason: v1alpha1.ReasonPolicyDeleted, explanation: "the record of its policy cannot be read: " + err.Error()}
	}
	choice := policy.Choose(d.remainingPolicies(), d.candidate(ref, source), d.state.OptedIn.Matches(labels.Set(source.Labels)), &origin)
	switch choice.Verdict {
	case policy.Release:
		return impact{by: by, request: &brake.Request{
			Protector: p, Source: source, Deleted: choice.Deleted, Cause: fmt.Sprintf("%s is not to be protected (%s)", ref, choice.Message),
		}}
	case policy.Retain:
		return impact{by: by, result: Kept, reason: choice.Reason, explanation: choice.Message}
	}
	protecting := "the label of " + ref.String()
	if choice.Policy != nil {
		protecting = choice.Policy.String()
	}
	return impact{by: by, result: Kept, reason: ReasonProtected, explanation: protecting + " will protect it; a much lower floor is a large decrease as well"}
}

// remainingPolicies returns all policies in order of precedence. It marks those that are deleted.
func (d *plan) remainingPolicies() []*policy.Policy {
	all := make([]*policy.Policy, 0, len(d.state.Policies))
	for _, p := range d.state.Policies {
		one := *p
		kind, name, _ := strings.Cut(p.String(), "/")
		if d.objects[policy.Ref{Group: v1alpha1.GroupVersion.Group, Kind: kind, Namespace: p.Namespace, Name: name}] != nil {
			one.Deleted = true
		}
		all = append(all, &one)
	}
	policy.SortByPrecedence(all)
	return all
}

func (d *plan) candidate(ref policy.Ref, source *metav1.PartialObjectMetadata) policy.Candidate {
	c := policy.Candidate{Ref: ref, Labels: source.Labels}
	if namespace := d.state.Namespaces[ref.Namespace]; namespace != nil {
		c.NamespaceLabels = namespace.Labels
	}
	return c
}

// impactOnKept returns the fate of a floor that stays in force although an object that it depends on is deleted, such as the workload whose
// pods it covers.
func (d *plan) impactOnKept(p *v1alpha1.PodProtector) impact {
	const core = "core"
	targets := slices.Concat(d.affecting[p.Namespace], d.affecting[""])
	if len(targets) == 0 {
		return impact{}
	}
	floor, live := rootguard.FloorOf(core, p, rootguard.ClusterIdentity{Core: core, Cells: d.state.Cells}, d.state.Now)
	if !live {
		return impact{}
	}
	for _, o := range targets {
		if floor.DependsOn(o) {
			return impact{by: o, result: Kept, reason: ReasonNotReleased, explanation: "the deletion releases no PodProtector: the webhook denies removals of " +
				"pods beyond the budget"}
		}
	}
	return impact{}
}
