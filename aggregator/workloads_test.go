package aggregator_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
}

func (l *fixture) deployment(name string, replicas int32) *appsv1.Deployment {
	l.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	d.Spec = appsv1.DeploymentSpec{
		Replicas: &replicas, Template: template(), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}
	l.create(d)
	return d
}

// replicaSet creates a ReplicaSet of a Deployment, or without an owner.
func (l *fixture) replicaSet(name string, replicas int32, of *appsv1.Deployment) *appsv1.ReplicaSet {
	l.Helper()
	s := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}}
	s.Spec = appsv1.ReplicaSetSpec{
		Replicas: &replicas, Template: template(), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}
	if of != nil {
		l.setOwner(of, s)
	}
	l.create(s)
	return s
}

func (l *fixture) setOwner(owner, object client.Object) {
	l.Helper()
	if err := controllerutil.SetControllerReference(owner, object, l.scheme); err != nil {
		l.Fatal(err)
	}
}

// ownedPods creates pods of a ReplicaSet.
func (l *fixture) ownedPods(s *appsv1.ReplicaSet, number int) {
	l.Helper()
	for i := range number {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: l.namespace, Name: fmt.Sprint(s.Name, "-", i), Labels: map[string]string{"app": "web"},
		}, Spec: template().Spec}
		p.Spec.NodeName = "node-1"
		l.setOwner(s, p)
		l.create(p)
		l.setReady(p, true)
	}
}

// wantFloor waits for a floor and the expected replicas from which it is computed.
func (l *fixture) wantFloor(floor, expected int32) *v1alpha1.PodProtector {
	l.Helper()
	var p *v1alpha1.PodProtector
	l.eventually(func() string {
		p = l.protector()
		if e := p.Status.ExpectedReplicas; e == nil || *e != expected || p.Status.DesiredAvailable != floor {
			return fmt.Sprintf("want a floor of %d of %d expected, status %+v", floor, expected, p.Status)
		}
		return ""
	})
	return p
}

func (l *fixture) scale(object client.Object, replicas int32) {
	l.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := l.client.Patch(l.Context(), object, patch); err != nil {
		l.Fatal(err)
	}
}

func (l *fixture) erase(object client.Object) {
	l.Helper()
	if err := l.client.Delete(l.Context(), object, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		l.Fatal(err)
	}
}

func (l *fixture) updateDeployment(updateDeployment func(*v1alpha1.PodProtectorSpec)) {
	l.Helper()
	l.eventually(func() string {
		p := l.protector()
		updateDeployment(&p.Spec)
		if err := l.client.Update(l.Context(), p); err != nil {
			return err.Error()
		}
		return ""
	})
}

func percentMissing(spec *v1alpha1.PodProtectorSpec) {
	missing := intstr.FromString("30%")
	spec.MinAvailable, spec.MaxUnavailable = nil, &missing
}

func TestFloorFollowsWorkloadReplicas(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	web := l.deployment("web", 10)
	l.ownedPods(l.replicaSet("web-old", 4, web), 4)
	l.ownedPods(l.replicaSet("web-new", 6, web), 6)
	l.createProtector(percentMissing)
	l.run("a")
	l.wantFloor(7, 10) // the Deployment counts once

	other := l.replicaSet("other", 5, nil)
	l.ownedPods(other, 5)
	l.wantFloor(10, 15)

	l.scale(web, 20)
	l.wantFloor(17, 25) // no pod has changed
	l.scale(other, 0)
	l.wantFloor(14, 20)

	l.scale(web, 10)
	l.wantFloor(7, 10)
	l.erase(web)
	p := l.wantFloor(7, 10) // an accidental deletion
	l.eventually(func() string {
		if p = l.protector(); len(deletedWorkloads(p)) != 1 {
			return fmt.Sprintf("the status does not have the deleted Deployment: %+v", p.Status)
		}
		return ""
	})
	if got := deletedWorkloads(p)[0]; got.Name != "web" || got.Kind != "Deployment" || got.Replicas != 10 {
		t.Errorf("retained %+v", got)
	}
	l.updateDeployment(func(spec *v1alpha1.PodProtectorSpec) { spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease })
	l.wantFloor(0, 0)
}

func TestLaterLeaderKeepsExpectation(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	web := l.deployment("web", 10)
	l.ownedPods(l.replicaSet("web-1", 10, web), 3)
	l.createProtector(percentMissing)
	stop := l.run("a")
	l.wantFloor(7, 10)
	l.erase(web)
	l.eventually(func() string {
		if p := l.protector(); len(deletedWorkloads(p)) != 1 {
			return fmt.Sprintf("%+v", p.Status)
		}
		return ""
	})
	stop()
	l.run("b")
	l.eventually(func() string {
		if p := l.protector(); p.Status.Cells[0].Aggregation.Holder != "b" {
			return "b does not lead yet"
		}
		return ""
	})
	l.wantFloor(7, 10)
}

// deletedWorkloads returns the workloads of the first cell that are expected and no longer exist.
func deletedWorkloads(p *v1alpha1.PodProtector) (deleted []v1alpha1.ExpectedWorkload) {
	for _, w := range p.Status.Cells[0].Aggregation.Workloads {
		if w.Gone {
			deleted = append(deleted, w)
		}
	}
	return deleted
}

// A workload without pods still requests them (rule 13).
func TestFloorStaysWhenWorkloadHasNoPods(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	web := l.deployment("web", 10)
	set := l.replicaSet("web-1", 10, web)
	l.ownedPods(set, 3)
	l.createProtector(percentMissing)
	stop := l.run("a")
	l.wantFloor(7, 10)
	pods := &corev1.PodList{}
	if err := l.client.List(t.Context(), pods, client.InNamespace(l.namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		l.erase(&pods.Items[i]) // there is no kubelet, so they only terminate
	}
	l.eventually(func() string {
		if p := l.protector(); p.Status.Summary.Available != 0 {
			return fmt.Sprintf("pods are available that terminate: %+v", p.Status)
		}
		return ""
	})
	l.wantFloor(7, 10)
	for i := range pods.Items {
		if err := l.client.Delete(t.Context(), &pods.Items[i], client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	l.awaitTotal(0)
	l.wantFloor(7, 10)
	l.erase(set)
	stop()
	defer l.run("b")()
	l.eventually(func() string {
		if p := l.protector(); p.Status.Cells[0].Aggregation.Holder != "b" {
			return "b does not lead yet"
		}
		return ""
	})
	l.updateDeployment(func(spec *v1alpha1.PodProtectorSpec) { spec.MinReadySeconds = 1 })
	l.wantFloor(7, 10)
	l.scale(web, 20)
	l.wantFloor(14, 20)
	l.erase(web)
	l.eventually(func() string {
		if p := l.protector(); len(deletedWorkloads(p)) != 1 {
			return fmt.Sprintf("the status does not have the deleted Deployment: %+v", p.Status)
		}
		return ""
	})
	l.wantFloor(14, 20)
	l.deployment("web", 5)
	l.wantFloor(3, 5)
	again := &appsv1.Deployment{}
	again.Namespace, again.Name = l.namespace, "web"
	l.erase(again)
	l.wantFloor(3, 5)
	l.confirmRelease()
	l.wantFloor(0, 0)
}

func (l *fixture) confirmRelease() {
	l.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.AnnotationConfirmRelease))
	if err := l.client.Patch(l.Context(), l.protector(), patch); err != nil {
		l.Fatal(err)
	}
}

func (l *fixture) awaitTotal(pods int32) {
	l.Helper()
	l.eventually(func() string {
		if p := l.protector(); p.Status.Summary.Total != pods {
			return fmt.Sprintf("%d pods are counted, want %d", p.Status.Summary.Total, pods)
		}
		return ""
	})
}

func TestPodsWithoutOwnerGiveNoExpectation(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	l.createPod("web-0", true)
	l.createProtector(percentMissing)
	l.run("a")
	l.eventually(func() string {
		p := l.protector()
		ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Reason != v1alpha1.ReasonFloorUnknown || !strings.Contains(ready.Message, "1 pod: no controller states") ||
			p.Status.DisruptionsAllowed != 0 || p.Status.ExpectedReplicas != nil {
			return fmt.Sprintf("status %+v", p.Status)
		}
		return ""
	})
	expected := int32(4)
	l.updateDeployment(func(spec *v1alpha1.PodProtectorSpec) { spec.ExpectedReplicas = &expected })
	l.wantFloor(2, 4)
}

func TestUnprotectedPodsMayCount(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	for i := range 3 {
		l.createPod(fmt.Sprint("web-", i), true)
	}
	canary := l.createPod("canary", true)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"app":"canary"}}}`))
	if err := l.client.Patch(t.Context(), canary, patch); err != nil {
		t.Fatal(err)
	}
	l.createProtector(func(spec *v1alpha1.PodProtectorSpec) {
		spec.AggregationSelector = &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "canary"}},
		}}
	})
	l.run("a")
	l.wantSummary(v1alpha1.Summary{Total: 4, Available: 4, EstimatedAvailable: 4, Ready: 4, Running: 4, Scheduled: 4})

	l.updateDeployment(func(spec *v1alpha1.PodProtectorSpec) {
		spec.AggregationSelector.MatchExpressions[0].Values = []string{"canary"}
	})
	p := l.wantSummary(v1alpha1.Summary{Total: 3, Available: 3, EstimatedAvailable: 3, Ready: 3, Running: 3, Scheduled: 3})
	ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "does not select all pods") {
		t.Errorf("Ready is %+v", ready)
	}
}
