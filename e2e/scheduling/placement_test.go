package scheduling_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const ofWeb = "podSelector: {matchLabels: {app: web}}\n"

func TestPodsLandWherePoliciesSay(t *testing.T) {
	type place struct {
		claim, policy string
		pod           func(*corev1.Pod)
		by            func(site) string
		want          map[string]int
	}
	for name, p := range map[string]place{
		"nodeSelector": {
			claim: "pods go to the nodes that have the label", by: byZone, want: map[string]int{"zone b": 4},
			policy: "nodeSelector: {topology.kubernetes.io/zone: b}",
		},
		"required node affinity": {
			claim: "pods go to the only node that meets a term", by: byName, want: map[string]int{"node-3": 4},
			policy: `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
				{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [c]}, {key: worker.gardener.cloud/pool, operator: Exists}]}]}}}`,
		},
		"required node affinity of a pod that has some": {
			claim: "the pod's own terms hold as well", by: byName, want: map[string]int{"node-2": 4},
			pod: needs(corev1.LabelTopologyZone, "b", "c"),
			policy: `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
				{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a, b]}]}]}}}`,
		},
		"preferred node affinity": {
			claim: "pods go to the node that is preferred to another one as good", by: byName, want: map[string]int{"fast": 4},
			policy: `affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [
				{weight: 100, preference: {matchExpressions: [{key: worker.gardener.cloud/pool, operator: In, values: [fast]}]}}]}}`,
		},
		"pod anti-affinity": {
			claim: "no two pods are on one node", by: byName, want: map[string]int{"node-1": 1, "fast": 1, "node-2": 1, "node-3": 1},
			policy: `affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}`,
		},
		"a toleration": {
			claim: "pods that ask for a pool with a taint are let in", by: byPool, want: map[string]int{"pool etcd-main": 4},
			pod:    func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{poolKey: "etcd-main"} },
			policy: "tolerations: [{key: worker.gardener.cloud/pool, operator: Equal, value: etcd-main, effect: NoSchedule}]",
		},
		"nodeName": {
			claim: "pods are on the node without the scheduler", by: byName, want: map[string]int{"node-2": 4},
			policy: "nodeName: worker-1-node-2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			claim(t, p.claim+", and others stay as they are", func(l *lab) {
				policy(l, "places", ofWeb+p.policy)
				awaitHeeded(l)
				asks := func(pod *corev1.Pod) {
					if p.pod != nil {
						p.pod(pod)
					}
				}
				run(l, here(l), "web", 4, asks)
				run(l, here(l), "other", 1)
				wantPlaces(l, here(l), "web", p.by, p.want)
				wantPlain(l, landed(l, here(l), "other", 1)[0])
			})
		})
	}
}

// needs makes a pod require one of some values of a label of nodes.
func needs(key string, values ...string) func(*corev1.Pod) {
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}}
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}},
		}}
	}
}

// wantPlain checks that a pod has what Kubernetes gives to all, and nothing else.
func wantPlain(l *lab, pod corev1.Pod) {
	l.Helper()
	s := pod.Spec
	if len(s.NodeSelector)+len(s.TopologySpreadConstraints) > 0 || s.Affinity != nil || len(s.Tolerations) != 2 || s.SchedulerName != corev1.DefaultSchedulerName {
		l.Errorf("pod %s, which no policy is for, became %+v", pod.Name, s)
	}
}

func TestAPolicyForNamespaces(t *testing.T) {
	claim(t, "pods of the namespaces that have the label land in both cells as a policy of the core says, and those of others do not", func(l *lab) {
		other := scheduling.Lab(t, map[string]string{"team": "other"})
		team := scheduling.Lab(t, map[string]string{"team": l.Namespace})
		clusterPolicy(l, "team", "namespaceSelector: {matchLabels: {team: "+l.Namespace+"}}\n"+ofWeb+"nodeSelector: {topology.kubernetes.io/zone: c}")
		awaitHeeded(l)
		for _, cell := range []storm.Cell{here(l), elsewhere(l)} {
			run(team, cell, "web", 3)
			run(other, cell, "web", 3)
			wantPlaces(team, cell, "web", byZone, map[string]int{"zone c": 3})
			wantPlaces(other, cell, "web", byZone, map[string]int{"zone a": 3})
		}
	})
}
