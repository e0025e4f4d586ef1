package scheduling_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const selectsWeb = "podSelector: {matchLabels: {app: web}}\n"

func TestPodsRunWherePoliciesRequire(t *testing.T) {
	type place struct {
		claim, policy string
		pod           func(*corev1.Pod)
		by            func(nodeSpec) string
		want          map[string]int
	}
	for name, p := range map[string]place{
		"nodeSelector": {
			claim: "pods run on the nodes that have the label", by: zoneOf, want: map[string]int{"zone b": 4},
			policy: "nodeSelector: {topology.kubernetes.io/zone: b}",
		},
		"required node affinity": {
			claim: "pods run on the only node that meets a term", by: nameOf, want: map[string]int{"node-3": 4},
			policy: `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
				{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [c]}, {key: worker.gardener.cloud/pool, operator: Exists}]}]}}}`,
		},
		"required node affinity of a pod that has some": {
			claim: "the pod's own terms hold as well", by: nameOf, want: map[string]int{"node-2": 4},
			pod: requireNodeLabel(corev1.LabelTopologyZone, "b", "c"),
			policy: `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
				{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a, b]}]}]}}}`,
		},
		"preferred node affinity": {
			claim: "pods run on the preferred one of two equal nodes", by: nameOf, want: map[string]int{"fast": 4},
			policy: `affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
				{weight: 100, preference: {matchExpressions: [{key: worker.gardener.cloud/pool, operator: In, values: [fast]}]}}]}}`,
		},
		"pod anti-affinity": {
			claim: "no two pods are on one node", by: nameOf, want: map[string]int{"node-1": 1, "fast": 1, "node-2": 1, "node-3": 1},
			policy: `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}`,
		},
		"a toleration": {
			claim: "pods that request a tainted pool run there", by: poolOf, want: map[string]int{"pool etcd-main": 4},
			pod:    func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{poolKey: "etcd-main"} },
			policy: "tolerations: [{key: worker.gardener.cloud/pool, operator: Equal, value: etcd-main, effect: NoSchedule}]",
		},
		"nodeName": {
			claim: "pods run on the node without the scheduler", by: nameOf, want: map[string]int{"node-2": 4},
			policy: "nodeName: worker-1-node-2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			claim(t, p.claim+", and other pods are unchanged", func(l *fixture) {
				createPolicy(l, "places", selectsWeb+p.policy)
				waitForPolicies(l)
				asks := func(pod *corev1.Pod) {
					if p.pod != nil {
						p.pod(pod)
					}
				}
				createPods(l, here(l), "web", 4, asks)
				createPods(l, here(l), "other", 1)
				expectPlacement(l, here(l), "web", p.by, p.want)
				expectDefaultsOnly(l, waitForRunning(l, here(l), "other", 1)[0])
			})
		})
	}
}

// requireNodeLabel makes a pod require one of the values of a node label.
func requireNodeLabel(key string, values ...string) func(*corev1.Pod) {
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}}
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
		}}
	}
}

// expectDefaultsOnly checks that a pod has only those scheduling fields that Kubernetes sets for all pods.
func expectDefaultsOnly(l *fixture, pod corev1.Pod) {
	l.Helper()
	s := pod.Spec
	if len(s.NodeSelector)+len(s.TopologySpreadConstraints) > 0 || s.Affinity != nil || len(s.Tolerations) != 2 || s.SchedulerName != corev1.DefaultSchedulerName {
		l.Errorf("pod %s, which matches no policy, became %+v", pod.Name, s)
	}
}

func TestPolicyForNamespaces(t *testing.T) {
	claim(t, "a policy of the core places only pods of the labeled namespaces, in both cells", func(l *fixture) {
		other := schedulingSuite.NewFixture(t, map[string]string{"team": "other"})
		team := schedulingSuite.NewFixture(t, map[string]string{"team": l.Namespace})
		createClusterPolicy(l, "team", "namespaceSelector: {matchLabels: {team: "+l.Namespace+"}}\n"+selectsWeb+"nodeSelector: {topology.kubernetes.io/zone: c}")
		waitForPolicies(l)
		for _, cell := range []storm.Cell{here(l), elsewhere(l)} {
			createPods(team, cell, "web", 3)
			createPods(other, cell, "web", 3)
			expectPlacement(team, cell, "web", zoneOf, map[string]int{"zone c": 3})
			expectPlacement(other, cell, "web", zoneOf, map[string]int{"zone a": 3})
		}
	})
}
