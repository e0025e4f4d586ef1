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

// kupidPolicy converts a policy of kupid. The namespaced kind has no namespaceSelector.
func kupidPolicy(r *reading, kind Kind, fields map[string]any) (v1alpha1.ClusterPodSchedulingPolicySpec, bool) {
	var to v1alpha1.ClusterPodSchedulingPolicySpec
	from, ok := decode[kupidSpec](r, fields)
	if !ok {
		return to, false
	}
	if to.PodSelector, ok = r.chosen("podSelector", from.PodSelector); !ok {
		return to, false
	}
	if kind.Cluster {
		if to.NamespaceSelector, ok = r.chosen("namespaceSelector", from.NamespaceSelector); !ok {
			return to, false
		}
	} else if from.NamespaceSelector != nil {
		r.differs(Ignored, "it has a namespaceSelector, which kupid does not read in a policy of a namespace")
	}
	if to.SchedulingCriteria, ok = r.kupidCriteria(&from); !ok {
		return to, false
	}
	if without := unselective(kind, &to); without != "" {
		r.differs(ChoosesNothing, "it has no %s, so that it is for no pods, as in kupid; %s: {} would be for all", without, without)
		return to, true
	}
	r.tellKupid(&to.SchedulingCriteria)
	return to, true
}

// unselective names the selector whose absence makes a policy match nothing. It is empty if no selector is missing. In kupid and in
// Breakwater, a missing selector matches nothing.
func unselective(kind Kind, of *v1alpha1.ClusterPodSchedulingPolicySpec) string {
	switch {
	case of.PodSelector == nil:
		return "podSelector"
	case kind.Cluster && of.NamespaceSelector == nil:
		return "namespaceSelector"
	}
	return ""
}

// chosen converts a selector of pods or namespaces; nil stays nil.
func (r *reading) chosen(field string, from *metav1.LabelSelector) (*v1alpha1.PodSelector, bool) {
	if from == nil {
		return nil, true
	}
	to, ok := r.selector(field, from)
	if !ok {
		return nil, false
	}
	if compiled, err := selectors.Compile(*to); err == nil && !compiled.Possible() {
		r.lost(ChoosesNothing, "nothing can match its %s", field)
		return nil, false
	}
	return to, true
}

// kupidCriteria converts the scheduling criteria. It drops those without effect and records those that a policy must not have.
func (r *reading) kupidCriteria(from *kupidSpec) (v1alpha1.SchedulingCriteria, bool) {
	to := v1alpha1.SchedulingCriteria{
		NodeName: from.NodeName, SchedulerName: from.SchedulerName, NodeSelector: from.NodeSelector, Tolerations: distinct(from.Tolerations),
	}
	var ok bool
	if to.Affinity, ok = r.tidyAffinity(from.Affinity); !ok {
		return to, false
	}
	asks := to.Affinity != nil || len(to.NodeSelector) > 0 || to.SchedulerName != ""
	switch {
	case !asks && to.NodeName == "" && len(to.Tolerations) == 0:
		r.lost(AddsNothing, "it adds nothing to pods")
		return to, false
	case asks && to.NodeName != "":
		r.lost(NotPossible, "it has nodeName, which goes around the scheduler, and beside that what the scheduler is to heed: "+
			"take one of the two out, or put the node's name into a required node affinity by matchFields")
		return to, false
	}
	return to, r.areCriteria(&to)
}

// tellKupid warns about the differences of every policy, and about those of policies that restrict nodes.
func (r *reading) tellKupid(of *v1alpha1.SchedulingCriteria) {
	r.differs(OneCluster, "it is for the pods of its own cluster; the policy is for those of all cells")
	r.differs(PodsAlone, "kupid changes templates of workloads, each time that they are created or updated, which can roll them, and of CronJobs "+
		"those of batch/v1beta1 alone; the policy changes pods when they are created, whatever makes them, and leaves templates as they are. "+
		"targets: [Pods, PodTemplates] is for new templates too, and templateUpdates: Inject for those that are updated")
	asksNodes := of.Affinity != nil && of.Affinity.NodeAffinity != nil && of.Affinity.NodeAffinity.Required != nil || len(of.NodeSelector) > 0
	if asksNodes {
		r.differs(DaemonSets, "pods of DaemonSets have their nodes when they are created, so that what it asks of nodes does not reach them; "+
			"it reaches templates of new DaemonSets with targets: [Pods, PodTemplates]")
		r.differs(KeepsOwn, "where no node could meet what the pod and the policy ask for together, the pod keeps its own, which is told as a conflict; "+
			"kupid adds to it all the same, and it finds no node")
	}
	if of.NodeName != "" {
		r.differs(KeepsOwn, "pods that ask the scheduler for something, and those of DaemonSets, are not given the nodeName; kupid gives it to all that have none")
	}
}
