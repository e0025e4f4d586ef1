package convert

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

const kupidGroup = "kupid.gardener.cloud"

// kupidSpec is the spec of both kinds of kupid. Its criteria have the form of the pod spec, as in Breakwater's policies.
type kupidSpec struct {
	PodSelector       *metav1.LabelSelector `json:"podSelector,omitempty"`
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	Affinity      *v1alpha1.Affinity    `json:"affinity,omitempty"`
	NodeName      string                `json:"nodeName,omitempty"`
	NodeSelector  v1alpha1.NodeLabels   `json:"nodeSelector,omitempty"`
	SchedulerName string                `json:"schedulerName,omitempty"`
	Tolerations   []v1alpha1.Toleration `json:"tolerations,omitempty"`
}

// convertKupidPolicy converts a policy of kupid. The namespaced kind has no namespaceSelector.
func convertKupidPolicy(r *conversion, kind Kind, fields map[string]any) (v1alpha1.ClusterPodSchedulingPolicySpec, bool) {
	var to v1alpha1.ClusterPodSchedulingPolicySpec
	from, ok := decode[kupidSpec](r, fields)
	if !ok {
		return to, false
	}
	if to.PodSelector, ok = r.optionalSelector("podSelector", from.PodSelector); !ok {
		return to, false
	}
	if kind.ClusterScoped {
		if to.NamespaceSelector, ok = r.optionalSelector("namespaceSelector", from.NamespaceSelector); !ok {
			return to, false
		}
	} else if from.NamespaceSelector != nil {
		r.warn(Ignored, "it has a namespaceSelector, which kupid ignores in a namespaced policy")
	}
	if to.SchedulingCriteria, ok = r.copyKupidCriteria(&from); !ok {
		return to, false
	}
	if without := missingSelector(kind, &to); without != "" {
		r.warn(ChoosesNothing, "it has no %s, so that it applies to no pods, as in kupid; %s: {} would apply to all", without, without)
		return to, true
	}
	r.warnKupid(&to.SchedulingCriteria)
	return to, true
}

// missingSelector names the selector whose absence makes a policy match nothing. It is empty if no selector is missing. In kupid and in
// Breakwater, a missing selector matches nothing.
func missingSelector(kind Kind, of *v1alpha1.ClusterPodSchedulingPolicySpec) string {
	switch {
	case of.PodSelector == nil:
		return "podSelector"
	case kind.ClusterScoped && of.NamespaceSelector == nil:
		return "namespaceSelector"
	}
	return ""
}

// optionalSelector converts a selector of pods or namespaces; nil stays nil.
func (r *conversion) optionalSelector(field string, from *metav1.LabelSelector) (*v1alpha1.PodSelector, bool) {
	if from == nil {
		return nil, true
	}
	to, ok := r.selector(field, from)
	if !ok {
		return nil, false
	}
	if compiled, err := selectors.Compile(*to); err == nil && !compiled.CanMatch() {
		r.reject(ChoosesNothing, "nothing can match its %s", field)
		return nil, false
	}
	return to, true
}

// copyKupidCriteria converts the scheduling criteria. It drops those without effect and records those that a policy must not have.
func (r *conversion) copyKupidCriteria(from *kupidSpec) (v1alpha1.SchedulingCriteria, bool) {
	to := v1alpha1.SchedulingCriteria{
		NodeName: from.NodeName, SchedulerName: from.SchedulerName, NodeSelector: from.NodeSelector, Tolerations: uniqueTolerations(from.Tolerations),
	}
	var ok bool
	if to.Affinity, ok = r.normalizeAffinity(from.Affinity); !ok {
		return to, false
	}
	usesScheduler := to.Affinity != nil || len(to.NodeSelector) > 0 || to.SchedulerName != ""
	switch {
	case !usesScheduler && to.NodeName == "" && len(to.Tolerations) == 0:
		r.reject(AddsNothing, "it adds nothing to pods")
		return to, false
	case usesScheduler && to.NodeName != "":
		r.reject(NotPossible, "it has both nodeName, which bypasses the scheduler, and other scheduling criteria: "+
			"remove one of the two, or move the node's name to a required node affinity with matchFields")
		return to, false
	}
	return to, criteriaValidation{of: r}.isValidCriteria(&to)
}

// warnKupid warns about the differences of every policy, and about those of policies that restrict nodes.
func (r *conversion) warnKupid(of *v1alpha1.SchedulingCriteria) {
	r.warn(OneCluster, "it applies to the pods of its own cluster; the policy applies to the pods of all cells")
	r.warn(PodsAlone, "kupid changes templates of workloads whenever they are created or updated, which can start rollouts, and of CronJobs "+
		"only those of batch/v1beta1; the policy changes pods when they are created, by any client, and leaves templates unchanged. "+
		"targets: [Pods, PodTemplates] also applies to new templates, and templateUpdates: Inject to updated ones")
	requiresNodes := of.Affinity != nil && of.Affinity.NodeAffinity != nil && of.Affinity.NodeAffinity.Required != nil || len(of.NodeSelector) > 0
	if requiresNodes {
		r.warn(DaemonSets, "pods of DaemonSets already have a node when they are created, so that node constraints do not affect them; "+
			"targets: [Pods, PodTemplates] also applies to templates of new DaemonSets")
		r.warn(KeepsOwn, "if no node can satisfy both the pod and the policy, the pod keeps its own constraints, which is reported as a conflict; "+
			"kupid adds its constraints anyway, and the pod is not scheduled")
	}
	if of.NodeName != "" {
		r.warn(KeepsOwn, "pods with other scheduling criteria, and pods of DaemonSets, do not get the nodeName; kupid sets it for all pods without one")
	}
}
