package convert

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// Policy is a scheduling policy and the object that it was converted from.
type Policy struct {
	// Object is a PodSchedulingPolicy or a ClusterPodSchedulingPolicy.
	Object metav1.Object
	From   Ref
}

// policyDraft is a policy that can still get warnings.
type policyDraft struct {
	Policy
	kind       Kind
	spec       v1alpha1.ClusterPodSchedulingPolicySpec
	conversion *conversion
}

// appendPolicy converts an object to a policy, or records why it cannot. Of several objects with the same name it keeps the first,
// because the meaning of several is ambiguous.
func (r *conversion) appendPolicy(made []policyDraft, kind Kind, object *unstructured.Unstructured) []policyDraft {
	fields, ok := r.specOf(kind, object)
	if !ok {
		return made
	}
	spec, ok := kind.policy(r, kind, fields)
	if !ok {
		return made
	}
	r.warnOwner(object, "the policy")
	draft := policyDraft{Policy: Policy{Object: policyOf(kind, object, &spec), From: r.from}, kind: kind, spec: spec, conversion: r}
	if len(made) == 0 || made[len(made)-1].From.compare(r.from) != 0 {
		return append(made, draft)
	}
	if first := made[len(made)-1]; !equality.Semantic.DeepEqual(first.spec, spec) {
		r.reject(Repeated, "it was read before%s, with a different spec; only the first was converted", first.From.originSuffix())
	}
	return made
}

func policyOf(kind Kind, object *unstructured.Unstructured, spec *v1alpha1.ClusterPodSchedulingPolicySpec) metav1.Object {
	of, metadata := metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind.Kind}, metadataOf(object)
	if kind.ClusterScoped {
		metadata.Namespace = ""
		return &v1alpha1.ClusterPodSchedulingPolicy{TypeMeta: of, ObjectMeta: metadata, Spec: *spec}
	}
	return &v1alpha1.PodSchedulingPolicy{TypeMeta: of, ObjectMeta: metadata, Spec: spec.PodSchedulingPolicySpec}
}

// warnContradictions warns about policies that contradict themselves, or contradict a policy that precedes them for some pods.
func warnContradictions(drafts []policyDraft) {
	byName := make(map[scheduling.Ref]*policyDraft, len(drafts))
	var compiled []*scheduling.Policy
	for i := range drafts {
		policy, err := scheduling.Compile("", drafts[i].Object)
		if err != nil {
			continue // its selectors were compiled before
		}
		if in := conflictingFields(policy); in != "" {
			drafts[i].conversion.warn(Contradicts, "it contradicts itself, so that no node would accept a pod with all of it: %s is left out", in)
			continue
		}
		byName[policy.Ref] = &drafts[i]
		compiled = append(compiled, policy)
	}
	ordered := scheduling.Order(compiled)
	for at, second := range ordered {
		for _, first := range ordered[:at] {
			a, b := byName[first.Ref], byName[second.Ref]
			if !policiesOverlap(a, b) {
				continue
			}
			if in := conflictingFields(first, second); in != "" {
				b.conversion.warn(Contradicts, "it contradicts %s in %s; for pods that match both, that one takes precedence, by kind and name; "+
					"in kupid the order is undefined. Set a priority to decide", a.From, in)
			}
		}
	}
}

// conflictingFields lists the fields of the last policy that cannot be added to a pod without scheduling fields of its own.
func conflictingFields(policies ...*scheduling.Policy) string {
	pod, err := scheduling.Read(schema.GroupKind{Kind: "Pod"}, false, []byte(`{"metadata": {}, "spec": {}}`))
	if err != nil {
		return ""
	}
	result, err := scheduling.Merge(pod, policies, nil)
	if err != nil {
		return ""
	}
	var in []string
	for _, clash := range result.Outcomes[len(policies)-1].Conflicts {
		in = append(in, clash.Field)
	}
	return strings.Join(in, ", ")
}

// policiesOverlap reports whether two policies can match the same pod.
func policiesOverlap(a, b *policyDraft) bool {
	if missingSelector(a.kind, &a.spec) != "" || missingSelector(b.kind, &b.spec) != "" {
		return false
	}
	if a.Object.GetNamespace() != b.Object.GetNamespace() && a.Object.GetNamespace() != "" && b.Object.GetNamespace() != "" {
		return false
	}
	return canMatchSame(a.spec.PodSelector, b.spec.PodSelector) && canMatchSame(a.spec.NamespaceSelector, b.spec.NamespaceSelector)
}

// canMatchSame reports whether two selectors can match the same labels. A nil selector, such as the namespaceSelector of a namespaced policy,
// matches all.
func canMatchSame(a, b *v1alpha1.PodSelector) bool {
	both := selectors.Everything()
	for _, each := range []*v1alpha1.PodSelector{a, b} {
		if each == nil {
			continue
		}
		if compiled, err := selectors.Compile(*each); err == nil { // it was compiled before
			both = both.Intersect(compiled)
		}
	}
	return both.CanMatch()
}
