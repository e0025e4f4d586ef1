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
	claim(t, "9 replicas are 3 in each of three zones, of which the scheduler would avoid two", func(l *lab) {
		policy(l, "spread", ofWeb+`topologySpreadConstraints: [
			{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]`)
		awaitHeeded(l)
		deploy(l, here(l), "web", 9)
		deploy(l, here(l), "other", 9)
		wantPlaces(l, here(l), "web", byZone, map[string]int{"zone a": 3, "zone b": 3, "zone c": 3})
		wantPlaces(l, here(l), "other", byZone, map[string]int{"zone a": 9})
	})
}

func TestAPolicyForProtectors(t *testing.T) {
	claim(t, "pods are spread that a protector with the label covers, by its own selector, and others are not", func(l *lab) {
		policy(l, "gold", `protectorSelector: {matchLabels: {tier: gold}}
topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]`)
		protect(l, "web", "gold")
		protect(l, "other", "silver")
		awaitHeeded(l)
		awaitAnswers(l, newPod("probe", "web"), "topologySpreadConstraints")
		deploy(l, here(l), "web", 9)
		deploy(l, here(l), "other", 3)
		wantPlaces(l, here(l), "web", byZone, map[string]int{"zone a": 3, "zone b": 3, "zone c": 3})
		wantPlaces(l, here(l), "other", byZone, map[string]int{"zone a": 3})
		for _, pod := range landed(l, here(l), "web", 9) {
			got := pod.Spec.TopologySpreadConstraints
			if len(got) != 1 || got[0].LabelSelector == nil || got[0].LabelSelector.MatchLabels["app"] != "web" {
				l.Errorf("pod %s has the constraints %+v, want the protector's selector in one", pod.Name, got)
			}
		}
	})
}

// protect makes a protector of an application, which allows all removals.
func protect(l *lab, of, tier string) {
	l.Helper()
	protectBy(l, of, nil, map[string]string{"tier": tier})
}

// protectBy makes one with a spread. Webhooks hear of protectors in the order in which they are made.
func protectBy(l *lab, of string, spread *v1alpha1.Spread, labels map[string]string) {
	l.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: of, Labels: labels}}
	p.Spec.Spread = spread
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: app(of)}
	p.Spec.MinAvailable = v1alpha1.Pods(0)
	l.Must(l.Core.Create(l.Context(), p))
}

// evenly is the constraint that a protector of the application gives the pods of a Deployment: those of each template are counted by themselves.
func evenly(of string) corev1.TopologySpreadConstraint {
	honor := corev1.NodeInclusionPolicyHonor
	return corev1.TopologySpreadConstraint{
		TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: app(of)}, NodeTaintsPolicy: &honor, MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
	}
}

// wantConstraints checks those of all pods of an application.
func wantConstraints(l *lab, of string, pods int, want ...corev1.TopologySpreadConstraint) {
	l.Helper()
	for _, pod := range landed(l, here(l), of, pods) {
		if diff := cmp.Diff(stored(&pod, want), pod.Spec.TopologySpreadConstraints); diff != "" {
			l.Errorf("constraints of pod %s (-want +got):\n%s", pod.Name, diff)
		}
	}
}

// stored are constraints as Kubernetes stores them: it writes the pod's values of matchLabelKeys into their selectors.
func stored(pod *corev1.Pod, constraints []corev1.TopologySpreadConstraint) (all []corev1.TopologySpreadConstraint) {
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

func TestAProtectorSpreadsNewPods(t *testing.T) {
	claim(t, "9 replicas whose template knows nothing of zones are 3 in each of three, and one that audits changes no pod", func(l *lab) {
		protectBy(l, "audited", zones(sharing(40), over(3)), nil)
		protectBy(l, "web", zones(scheduled, sharing(40), over(3)), nil)
		awaitAnswers(l, newPod("probe", "web"), "topologySpreadConstraints")
		for _, of := range []string{"web", "audited", "other"} {
			deploy(l, here(l), of, 9)
		}
		deploy(l, elsewhere(l), "web", 3)
		wantPlaces(l, here(l), "web", byZone, map[string]int{"zone a": 3, "zone b": 3, "zone c": 3})
		wantPlaces(l, elsewhere(l), "web", byZone, map[string]int{"zone a": 1, "zone b": 1, "zone c": 1})
		wantConstraints(l, "web", 9, evenly("web"))
		for _, of := range []string{"audited", "other"} {
			wantPlaces(l, here(l), of, byZone, map[string]int{"zone a": 9})
			for _, pod := range landed(l, here(l), of, 9) {
				wantPlain(l, pod)
			}
		}
		deployment, err := here(l).Client.AppsV1().Deployments(l.Namespace).Get(l.Context(), "web", metav1.GetOptions{})
		l.Must(err)
		if got := deployment.Spec.Template.Spec.TopologySpreadConstraints; len(got) > 0 {
			l.Errorf("the template became %+v", got)
		}
	})
}

// mild is a constraint that all pods in one zone meet.
func mild(when corev1.UnsatisfiableConstraintAction, of string) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		TopologyKey: corev1.LabelTopologyZone, MaxSkew: 20, WhenUnsatisfiable: when, LabelSelector: &metav1.LabelSelector{MatchLabels: app(of)},
	}
}

func TestAConstraintThatWinsOverAProtectors(t *testing.T) {
	claim(t, "pods keep their own of the same key and kind, and that of a policy, and get the protector's beside one of another kind", func(l *lab) {
		policy(l, "mild", `podSelector: {matchLabels: {app: ruled}}
topologySpreadConstraints: [{maxSkew: 20, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: ruled}}}]`)
		for _, of := range []string{"own", "ruled", "soft"} {
			protectBy(l, of, zones(scheduled), nil)
		}
		awaitHeeded(l)
		awaitAnswers(l, newPod("probe", "soft"), "topologySpreadConstraints")
		asks := func(when corev1.UnsatisfiableConstraintAction, of string) func(*corev1.PodTemplateSpec) {
			return func(t *corev1.PodTemplateSpec) {
				t.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{mild(when, of)}
			}
		}
		deploy(l, here(l), "own", 6, asks(corev1.DoNotSchedule, "own"))
		deploy(l, here(l), "soft", 6, asks(corev1.ScheduleAnyway, "soft"))
		deploy(l, here(l), "ruled", 6)
		for _, of := range []string{"own", "ruled"} {
			wantPlaces(l, here(l), of, byZone, map[string]int{"zone a": 6})
			wantConstraints(l, of, 6, mild(corev1.DoNotSchedule, of))
		}
		wantPlaces(l, here(l), "soft", byZone, map[string]int{"zone a": 2, "zone b": 2, "zone c": 2})
		wantConstraints(l, "soft", 6, mild(corev1.ScheduleAnyway, "soft"), evenly("soft"))
	})
}

func TestARolloutOfASpread(t *testing.T) {
	claim(t, "an application that is in one zone is spread by its next rollout, and stays so in the ones after", func(l *lab) {
		deploy(l, here(l), "web", 9)
		wantPlaces(l, here(l), "web", byZone, map[string]int{"zone a": 9})
		protectBy(l, "web", zones(scheduled), nil)
		awaitAnswers(l, newPod("probe", "web"), "topologySpreadConstraints")
		for i := range 5 { // were the templates counted together, one of five would leave the pods uneven
			image := fmt.Sprint("registry.k8s.io/pause:", i)
			patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":%q}]}}}}`, image)
			_, err := here(l).Client.AppsV1().Deployments(l.Namespace).Patch(l.Context(), "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
			l.Must(err)
			awaitAll(l, "web", 9, func(pod *corev1.Pod) string {
				if got := pod.Spec.Containers[0].Image; got != image {
					return "it has image " + got
				}
				return ""
			})
			wantPlaces(l, here(l), "web", byZone, map[string]int{"zone a": 3, "zone b": 3, "zone c": 3})
			wantConstraints(l, "web", 9, evenly("web"))
		}
	})
}

func TestAZoneThatIsDown(t *testing.T) {
	// Another taint than those that controllers take away from a node that is well.
	const outage = "e2e.breakwater.dev/outage"
	claimAlone(t, "pods are shared out among the other zones while no node of one lets any in", func(l *lab) {
		protectBy(l, "web", zones(scheduled), nil)
		awaitAnswers(l, newPod("probe", "web"), "topologySpreadConstraints")
		l.Must(taint(l, "node-3", outage, true))
		defer func() { l.Must(taint(l, "node-3", outage, false)) }()
		deploy(l, here(l), "web", 6)
		wantPlaces(l, here(l), "web", byZone, map[string]int{"zone a": 3, "zone b": 3})
	})
}
