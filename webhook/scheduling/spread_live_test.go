package scheduling_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// spreadProtector returns a protector of the pods with app=web that spreads them by zone, over at least two zones.
func (p *fixture) spreadProtector(name string, change ...func(*v1alpha1.PodProtectorSpec)) *v1alpha1.PodProtector {
	of := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}
	of.Spec.Selector, of.Spec.MinAvailable = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}, v1alpha1.Pods(1)
	of.Spec.Spread = &v1alpha1.Spread{TopologyKey: corev1.LabelTopologyZone, MinDomains: ptr.To[int32](2), Enforcement: v1alpha1.SpreadSchedule}
	for _, c := range change {
		c(&of.Spec)
	}
	return of
}

// count stores that these cells have counted the pods of a protector. For a targetRef, they have found that the
// workload selects app in (web,www).
func (p *fixture) count(of *v1alpha1.PodProtector, cells ...string) {
	p.Helper()
	of.Status.Cells = nil
	for _, cell := range cells {
		target := &v1alpha1.Target{UID: "u", Replicas: 1, Selector: "app in (web,www)"}
		if of.Spec.TargetRef == nil {
			target = nil
		}
		of.Status.Cells = append(of.Status.Cells, v1alpha1.PodProtectorCell{CellID: cell, Aggregation: v1alpha1.Aggregation{
			CountedSpec: quota.CountedSpec(&of.Spec), Target: target, SnapshotVersion: "1", Epoch: 1, LastEventTime: metav1.NowMicro(),
		}})
	}
	if err := p.Status().Update(p.Context(), of); err != nil {
		p.Fatal(err)
	}
}

// awaitSpread creates pods with dry runs until they have the wanted constraints.
func (p *fixture) awaitSpread(pod *corev1.Pod, want ...corev1.TopologySpreadConstraint) {
	p.Helper()
	p.eventually(func() string {
		probe := pod.DeepCopy()
		if err := p.Create(p.Context(), probe, client.DryRunAll); err != nil {
			return err.Error()
		}
		if diff := cmp.Diff(want, probe.Spec.TopologySpreadConstraints); diff != "" {
			return fmt.Sprintf("constraints (-want +got):\n%s", diff)
		}
		return ""
	})
}

// byZone returns the constraint for pods that a selector selects.
func byZone(selector *metav1.LabelSelector, minDomains *int32) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: minDomains,
		NodeTaintsPolicy: ptr.To(corev1.NodeInclusionPolicyHonor), LabelSelector: selector,
	}
}

func TestNewPodsGetSpreadOfProtector(t *testing.T) {
	p := newFixture(t)
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	protector := p.spreadProtector("web")
	p.create(protector)
	p.configure()
	p.awaitSpread(p.pod("probe"), byZone(web, nil))
	p.count(protector, p.cell)
	p.awaitSpread(p.pod("probe"), byZone(web, ptr.To[int32](2)))
	p.count(protector, p.cell, "another")
	p.awaitSpread(p.pod("probe"), byZone(web, nil))

	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "web"}, Spec: appsv1.DeploymentSpec{
		Selector: web, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: web.MatchLabels}, Spec: p.pod("").Spec},
	}}
	p.create(deployment)
	if got := deployment.Spec.Template.Spec.TopologySpreadConstraints; len(got) > 0 {
		t.Errorf("a template got %+v, want none: a change of the protector would cause a rollout", got)
	}
	pod := p.pod("web")
	p.create(pod)
	if diff := cmp.Diff([]corev1.TopologySpreadConstraint{byZone(web, nil)}, pod.Spec.TopologySpreadConstraints); diff != "" {
		t.Errorf("constraints of a pod (-want +got):\n%s", diff)
	}

	protector.Spec.Spread.Enforcement = v1alpha1.SpreadAudit
	if err := p.Update(p.Context(), protector); err != nil {
		t.Fatal(err)
	}
	p.awaitSpread(p.pod("probe"))
	version := pod.ResourceVersion
	if err := p.Get(p.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.ResourceVersion != version {
		t.Errorf("an existing pod was updated or deleted: %v", err)
	}
}

// The cell's aggregator reports which pods a workload selects. Until then the protector covers none of them.
func TestSpreadUsesSelectorOfCell(t *testing.T) {
	p := newFixture(t)
	protector := p.spreadProtector("web", func(s *v1alpha1.PodProtectorSpec) {
		s.Selector, s.TargetRef = nil, &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	})
	p.create(protector)
	p.configure()
	p.awaitSpread(p.pod("probe"))
	p.count(protector, p.cell)
	p.awaitSpread(p.pod("probe"), byZone(&metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "www"}}},
	}, ptr.To[int32](2)))
	p.awaitSpread(p.pod("probe", func(pod *corev1.Pod) { pod.Labels["app"] = "api" }))
}

// The API server sets defaults in a constraint between two calls of the webhook. The webhook must recognize it as the
// same constraint.
func TestReinvocationAddsSpreadOnce(t *testing.T) {
	p := newFixture(t)
	front := &v1alpha1.PodSelector{MatchLabels: map[string]string{"tier": "front"}}
	p.create(p.spreadProtector("all", func(s *v1alpha1.PodProtectorSpec) { s.Selector = front }))
	p.create(p.spreadProtector("web"))
	p.configure()
	p.relabelPods()
	pod := p.pod("web", func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "unlabeled", "tier": "front"} })
	p.eventually(func() string {
		probe := pod.DeepCopy()
		if err := p.Create(p.Context(), probe, client.DryRunAll); err != nil {
			return err.Error()
		}
		if probe.Labels["app"] != "web" {
			return "the API server does not call the other webhook yet"
		}
		want := []corev1.TopologySpreadConstraint{byZone(&metav1.LabelSelector{MatchLabels: front.MatchLabels}, nil)}
		if diff := cmp.Diff(want, probe.Spec.TopologySpreadConstraints); diff != "" {
			return fmt.Sprintf("constraints (-want +got):\n%s", diff)
		}
		return ""
	})
}
