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

// fate is the effect of a plan on a protector, before the brake decides.
type fate struct {
	// by is the target that affects the protector. It is nil if none does.
	by *rootguard.Object
	// request is the request to the brake. It is nil if the brake need not decide, and result, reason and text are set.
	request      *brake.Request
	result       Result
	reason, text string
}

func own(kind string) schema.GroupKind {
	return schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: kind}
}

// fateOf returns the fate of a protector.
func (d *plan) fateOf(p *v1alpha1.PodProtector) fate {
	if by := d.kinds[own("PodProtector")]; by != nil {
		return fate{by: by, result: Held, reason: v1alpha1.ReasonKindDeleted,
			text: "it is deleted with its kind, and stays in force until \"breakwater release --deleted\" removes its finalizer"}
	}
	decide := d.handWritten
	if policy.IsGenerated(p) {
		decide = d.generated
	}
	if f := decide(p); f.by != nil {
		return f
	}
	return d.kept(p)
}

func (d *plan) handWritten(p *v1alpha1.PodProtector) fate {
	by := d.deletes(own("PodProtector"), p)
	if by == nil {
		return fate{}
	}
	return fate{by: by, request: &brake.Request{Protector: p, Deleted: p, Cause: fmt.Sprintf("PodProtector %s was deleted", p.Name)}}
}

// generated returns the fate of a protector that exists as long as its source.
func (d *plan) generated(p *v1alpha1.PodProtector) fate {
	self := d.deletes(own("PodProtector"), p)
	ref, _, _ := policy.SourceOf(p)
	source := d.world.Sources[ref]
	if source == nil {
		return orphan(p, ref, self)
	}
	if by := d.deletes(ref.GroupKind(), source); by != nil {
		request := &brake.Request{Protector: p, Source: source, Deleted: source, Cause: ref.String() + " was deleted"}
		if d.kinds[ref.GroupKind()] == by {
			request.Cascade = fmt.Sprintf("the CustomResourceDefinition of %s is being deleted", ref.Kind)
		}
		return fate{by: by, request: request}
	}
	if f := d.withoutPolicy(p, ref, source); f.by != nil {
		return f
	}
	if self == nil {
		return fate{}
	}
	return fate{by: self, result: Held, reason: ReasonSourceExists,
		text: fmt.Sprintf("it stays in force as long as %s wants protection: delete that, or label it %s=false", ref, v1alpha1.LabelProtect)}
}

// orphan returns the fate of a generated protector without a source. A protector that is released once the brake grants it stays
// pending.
func orphan(p *v1alpha1.PodProtector, ref policy.Ref, by *rootguard.Object) fate {
	switch c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved); {
	case by == nil:
		return fate{}
	case c != nil && c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonSourceDeleted:
		return fate{by: by, request: &brake.Request{Protector: p, Cause: ref.String() + " was deleted"}}
	}
	return fate{by: by, result: Held, reason: v1alpha1.ReasonSourceVanished,
		text: ref.String() + " does not exist, but was not deleted on purpose: the generator keeps its protectors"}
}

// withoutPolicy returns the fate of a protector whose policy is deleted.
func (d *plan) withoutPolicy(p *v1alpha1.PodProtector, ref policy.Ref, source *metav1.PartialObjectMetadata) fate {
	origin, err := policy.OriginOf(p)
	kind, name, _ := strings.Cut(origin.Policy, "/")
	policyRef := policy.Ref{Group: v1alpha1.GroupVersion.Group, Kind: kind, Name: name}
	if kind == policy.NamespacedPolicy {
		policyRef.Namespace = p.Namespace
	}
	if by := d.kinds[own(kind)]; by != nil {
		return fate{by: by, result: Kept, reason: v1alpha1.ReasonPolicyVanished, text: "a policy that is deleted with its kind releases nothing"}
	}
	by := d.objects[policyRef]
	if by == nil {
		return fate{}
	}
	if err != nil {
		return fate{by: by, result: Kept, reason: v1alpha1.ReasonPolicyDeleted, text: "the record of its policy cannot be read: " + err.Error()}
	}
	choice := policy.Choose(d.remainingPolicies(), d.candidate(ref, source), d.world.OptedIn.Matches(labels.Set(source.Labels)), &origin)
	switch choice.Verdict {
	case policy.Release:
		return fate{by: by, request: &brake.Request{
			Protector: p, Source: source, Cause: fmt.Sprintf("%s is not to be protected (%s)", ref, choice.Message),
		}}
	case policy.Retain:
		return fate{by: by, result: Kept, reason: choice.Reason, text: choice.Message}
	}
	then := "the label of " + ref.String()
	if choice.Policy != nil {
		then = choice.Policy.String()
	}
	return fate{by: by, result: Kept, reason: ReasonProtected, text: then + " protects it then; a floor that is much lower would be a large decrease as well"}
}

// remainingPolicies returns all policies in order of precedence. It marks those that are deleted.
func (d *plan) remainingPolicies() []*policy.Policy {
	all := make([]*policy.Policy, 0, len(d.world.Policies))
	for _, p := range d.world.Policies {
		one := *p
		kind, name, _ := strings.Cut(p.String(), "/")
		if d.objects[policy.Ref{Group: v1alpha1.GroupVersion.Group, Kind: kind, Namespace: p.Namespace, Name: name}] != nil {
			one.Deleted = true
		}
		all = append(all, &one)
	}
	policy.Rank(all)
	return all
}

func (d *plan) candidate(ref policy.Ref, source *metav1.PartialObjectMetadata) policy.Candidate {
	c := policy.Candidate{Ref: ref, Labels: source.Labels}
	if namespace := d.world.Namespaces[ref.Namespace]; namespace != nil {
		c.NamespaceLabels = namespace.Labels
	}
	return c
}

// kept returns the fate of a floor that stays in force although an object that it depends on is deleted, such as the workload whose
// pods it covers.
func (d *plan) kept(p *v1alpha1.PodProtector) fate {
	const core = "core"
	targets := slices.Concat(d.affecting[p.Namespace], d.affecting[""])
	if len(targets) == 0 {
		return fate{}
	}
	floor, live := rootguard.FloorOf(core, p, rootguard.Place{Core: core, Cells: d.world.Cells}, d.world.Now)
	if !live {
		return fate{}
	}
	for _, o := range targets {
		if floor.Depends(o) {
			return fate{by: o, result: Kept, reason: ReasonNotReleased, text: "this releases no PodProtector: the webhook denies removals of pods beyond the budget"}
		}
	}
	return fate{}
}
