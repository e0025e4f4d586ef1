package scheduling_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestReplicasAreSpreadOverZones(t *testing.T) {
	claim(t, "9 replicas run 3 in each of 3 zones, although the scheduler would avoid two of them", func(l *fixture) {
		createPolicy(l, "spread", selectsWeb+`topologySpreadConstraints: [
			{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]`)
		waitForPolicies(l)
		createDeployment(l, here(l), "web", 9)
		createDeployment(l, here(l), "other", 9)
		expectPlacement(l, here(l), "web", zoneOf, map[string]int{"zone a": 3, "zone b": 3, "zone c": 3})
		expectPlacement(l, here(l), "other", zoneOf, map[string]int{"zone a": 9})
	})
}

func TestPolicyForProtectors(t *testing.T) {
	claim(t, "only pods covered by a protector with the label are spread, by its own selector", func(l *fixture) {
		createPolicy(l, "gold", `protectorSelector: {matchLabels: {tier: gold}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]`)
		createProtector(l, "web", "gold")
		createProtector(l, "other", "silver")
		waitForPolicies(l)
		waitForPatches(l, newPod("probe", "web"), "topologySpreadConstraints")
		createDeployment(l, here(l), "web", 9)
		createDeployment(l, here(l), "other", 3)
		expectPlacement(l, here(l), "web", zoneOf, map[string]int{"zone a": 3, "zone b": 3, "zone c": 3})
		expectPlacement(l, here(l), "other", zoneOf, map[string]int{"zone a": 3})
		for _, pod := range waitForRunning(l, here(l), "web", 9) {
			got := pod.Spec.TopologySpreadConstraints
			if len(got) != 1 || got[0].LabelSelector == nil || got[0].LabelSelector.MatchLabels["app"] != "web" {
				l.Errorf("pod %s has the constraints %+v, want one with the protector's selector", pod.Name, got)
			}
		}
	})
}

// createProtector creates a protector of an application. Its floor is 0.
func createProtector(l *fixture, of, tier string) {
	l.Helper()
	createSpreadProtector(l, of, nil, map[string]string{"tier": tier})
}

// createSpreadProtector creates a protector with a spread. Webhooks receive protectors in the order of their creation.
func createSpreadProtector(l *fixture, of string, spread *v1alpha1.Spread, labels map[string]string) {
	l.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: of, Labels: labels}}
	p.Spec.Spread = spread
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: appLabels(of)}
	p.Spec.MinAvailable = v1alpha1.Pods(0)
	l.Must(l.Core.Create(l.Context(), p))
}

// evenConstraint returns the constraint that a protector of the application adds to the pods of a Deployment. It counts the pods of each
// template separately.
func evenConstraint(of string) corev1.TopologySpreadConstraint {
	honor := corev1.NodeInclusionPolicyHonor
	return corev1.TopologySpreadConstraint{
		TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: appLabels(of)}, NodeTaintsPolicy: &honor, MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
	}
}

// expectConstraints checks the topology spread constraints of all pods of an application.
func expectConstraints(l *fixture, of string, pods int, want ...corev1.TopologySpreadConstraint) {
	l.Helper()
	for _, pod := range waitForRunning(l, here(l), of, pods) {
		if diff := cmp.Diff(asStored(&pod, want), pod.Spec.TopologySpreadConstraints); diff != "" {
			l.Errorf("constraints of pod %s (-want +got):\n%s", pod.Name, diff)
		}
	}
}

// asStored returns constraints as Kubernetes stores them: it adds the values that the pod has for matchLabelKeys to their selectors.
func asStored(pod *corev1.Pod, constraints []corev1.TopologySpreadConstraint) (all []corev1.TopologySpreadConstraint) {
	for _, c := range constraints {
		c := *c.DeepCopy()
		for _, key := range c.MatchLabelKeys {
			c.LabelSelector.MatchExpressions = append(c.LabelSelector.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{pod.Labels[key]}})
		}
		all = append(all, c)
	}
	return all
}

func TestProtectorSpreadsNewPods(t *testing.T) {
	claim(t, "9 replicas without zones in their template run 3 in each of 3 zones, and a policy in audit mode changes no pod", func(l *fixture) {
		createSpreadProtector(l, "audited", zoneSpread(maxShare(40), overDomains(3)), nil)
		createSpreadProtector(l, "web", zoneSpread(requireScheduled, maxShare(40), overDomains(3)), nil)
		waitForPatches(l, newPod("probe", "web"), "topologySpreadConstraints")
		for _, of := range []string{"web", "audited", "other"} {
			createDeployment(l, here(l), of, 9)
		}
		createDeployment(l, elsewhere(l), "web", 3)
		expectPlacement(l, here(l), "web", zoneOf, map[string]int{"zone a": 3, "zone b": 3, "zone c": 3})
		expectPlacement(l, elsewhere(l), "web", zoneOf, map[string]int{"zone a": 1, "zone b": 1, "zone c": 1})
		expectConstraints(l, "web", 9, evenConstraint("web"))
		for _, of := range []string{"audited", "other"} {
			expectPlacement(l, here(l), of, zoneOf, map[string]int{"zone a": 9})
			for _, pod := range waitForRunning(l, here(l), of, 9) {
				expectDefaultsOnly(l, pod)
			}
		}
		deployment, err := here(l).Client.AppsV1().Deployments(l.Namespace).Get(l.Context(), "web", metav1.GetOptions{})
		l.Must(err)
		if got := deployment.Spec.Template.Spec.TopologySpreadConstraints; len(got) > 0 {
			l.Errorf("the template became %+v", got)
		}
	})
}

// oneZoneConstraint returns a constraint that is satisfied even if all pods are in one zone.
func oneZoneConstraint(when corev1.UnsatisfiableConstraintAction, of string) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		TopologyKey: corev1.LabelTopologyZone, MaxSkew: 20, WhenUnsatisfiable: when, LabelSelector: &metav1.LabelSelector{MatchLabels: appLabels(of)},
	}
}

func TestPodConstraintOverridesProtector(t *testing.T) {
	claim(t, "a constraint of the pod or a policy with the same key and kind replaces that of the protector; one of another kind does not", func(l *fixture) {
		createPolicy(l, "mild", `podSelector: {matchLabels: {app: ruled}}
topologySpreadConstraints: [{maxSkew: 20, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: ruled}}}]`)
		for _, of := range []string{"own", "ruled", "soft"} {
			createSpreadProtector(l, of, zoneSpread(requireScheduled), nil)
		}
		waitForPolicies(l)
		waitForPatches(l, newPod("probe", "soft"), "topologySpreadConstraints")
		asks := func(when corev1.UnsatisfiableConstraintAction, of string) func(*corev1.PodTemplateSpec) {
			return func(t *corev1.PodTemplateSpec) {
				t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{oneZoneConstraint(when, of)}
			}
		}
		createDeployment(l, here(l), "own", 6, asks(corev1.DoNotSchedule, "own"))
		createDeployment(l, here(l), "soft", 6, asks(corev1.ScheduleAnyway, "soft"))
		createDeployment(l, here(l), "ruled", 6)
		for _, of := range []string{"own", "ruled"} {
			expectPlacement(l, here(l), of, zoneOf, map[string]int{"zone a": 6})
			expectConstraints(l, of, 6, oneZoneConstraint(corev1.DoNotSchedule, of))
		}
		expectPlacement(l, here(l), "soft", zoneOf, map[string]int{"zone a": 2, "zone b": 2, "zone c": 2})
		expectConstraints(l, "soft", 6, oneZoneConstraint(corev1.ScheduleAnyway, "soft"), evenConstraint("soft"))
	})
}

func TestRolloutWithSpread(t *testing.T) {
	claim(t, "an application in one zone is spread by its next rollout, and stays spread in later ones", func(l *fixture) {
		createDeployment(l, here(l), "web", 9)
		expectPlacement(l, here(l), "web", zoneOf, map[string]int{"zone a": 9})
		createSpreadProtector(l, "web", zoneSpread(requireScheduled), nil)
		waitForPatches(l, newPod("probe", "web"), "topologySpreadConstraints")
		for i := range 5 { // if templates were counted together, one of five rollouts would leave the pods uneven
			image := fmt.Sprint("registry.k8s.io/pause:", i)
			patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":%q}]}}}}`, image)
			_, err := here(l).Client.AppsV1().Deployments(l.Namespace).Patch(l.Context(), "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			l.Must(err)
			waitForPods(l, "web", 9, func(pod *corev1.Pod) string {
				if got := pod.Spec.Containers[0].Image; got != image {
					return "it has image " + got
				}
				return ""
			})
			expectPlacement(l, here(l), "web", zoneOf, map[string]int{"zone a": 3, "zone b": 3, "zone c": 3})
			expectConstraints(l, "web", 9, evenConstraint("web"))
		}
	})
}

func TestZoneDown(t *testing.T) {
	// This taint differs from those that controllers remove from a healthy node.
	const outage = "e2e.breakwater.dev/outage"
	claimAlone(t, "pods are spread over the other zones while all nodes of one are tainted", func(l *fixture) {
		createSpreadProtector(l, "web", zoneSpread(requireScheduled), nil)
		waitForPatches(l, newPod("probe", "web"), "topologySpreadConstraints")
		l.Must(setTaint(l, "node-3", outage, true))
		defer func() { l.Must(setTaint(l, "node-3", outage, false)) }()
		createDeployment(l, here(l), "web", 6)
		expectPlacement(l, here(l), "web", zoneOf, map[string]int{"zone a": 3, "zone b": 3})
	})
}
