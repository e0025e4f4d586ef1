package generator

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

func TestFloorFollowsDeployment(t *testing.T) {
	p := newFixture(t)
	g := p.start()
	web := p.deployment("web", nil)
	p.create(web)

	got := p.waitForProtector("deployment-web", "10 replicas, 30 % of which may be unavailable, have the floor 7", func(got *v1alpha1.PodProtector) bool {
		return got.Spec.MinAvailable.IntVal == 7 && isSourceFound(got)
	})
	if got.Spec.MinReadySeconds != 15 || got.Spec.Selector.MatchLabels["app"] != "web" || !hasProtectorFinalizer(got) ||
		got.Annotations[v1alpha1.AnnotationSourceUID] != string(web.UID) {
		t.Errorf("protector does not match its Deployment:\n%s", dump(got))
	}
	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 20 })
	p.waitForProtector("deployment-web", "20 replicas have the floor 14", hasFloor(14))
	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 })
	p.waitForProtector("deployment-web", "the Deployment, scaled to 0, has the floor 0", hasFloor(0))

	p.eventually("traces", func() string { return g.missingSpan("web", protected) })
	p.eventually("metrics", func() string {
		count, writes := g.metric(t, "breakwater_generator_protected_sources", "Deployment"), g.metric(t, "breakwater_generator_protector_writes_total", "update")
		if count == 1 && writes >= 2 {
			return ""
		}
		return fmt.Sprintf("got %v protected and %v updates, want 1 and at least 2", count, writes)
	})
}

func TestProtectorDeletionIsHeldUntilDeploymentIsDeleted(t *testing.T) {
	p := newFixture(t)
	p.start()
	web := p.deployment("web", nil)
	p.create(web)
	protector := p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)

	p.delete(protector)
	got := p.waitForProtector("deployment-web", "the deletion is held, and the condition explains it", hasTargetResolved(metav1.ConditionTrue, v1alpha1.ReasonDeletionHeld))
	if got.UID != protector.UID || got.DeletionTimestamp == nil || got.Spec.MinAvailable.IntVal != 7 {
		t.Errorf("got another protector or one that is not in force, want the deleted one in force:\n%s", dump(got))
	}
	p.waitForEvent("PodProtector/deployment-web Warning DeletionHeld: ")
	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 20 })
	p.waitForProtector("deployment-web", "the floor still follows the Deployment", hasFloor(14))

	p.delete(web)
	p.waitUntilDeleted(protector)
	p.waitUntilDeleted(web)
}

func TestForceDeletedProtectorIsRecreated(t *testing.T) {
	p := newFixture(t)
	p.start()
	p.create(p.deployment("web", nil))
	first := p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)

	p.delete(first)
	p.waitForProtector("deployment-web", "the deletion is held", hasTargetResolved(metav1.ConditionTrue, v1alpha1.ReasonDeletionHeld))
	edit(p, first, func(got *v1alpha1.PodProtector) { got.Finalizers = nil })
	p.waitForProtector("deployment-web", "a new PodProtector is in force", func(got *v1alpha1.PodProtector) bool {
		return got.UID != first.UID && got.Spec.MinAvailable.IntVal == 7 && hasProtectorFinalizer(got) && isSourceFound(got)
	})
}

func TestGeneratorCorrectsDriftOfOwnedFields(t *testing.T) {
	for claim, change := range map[string]func(*v1alpha1.PodProtector){
		"a floor edited by hand": func(got *v1alpha1.PodProtector) { got.Spec.MinAvailable = v1alpha1.Pods(1) },
		"a floor of another type": func(got *v1alpha1.PodProtector) {
			all := intstr.FromString("100%")
			got.Spec.MinAvailable, got.Spec.MaxUnavailable = nil, &all
		},
		"a targetRef": func(got *v1alpha1.PodProtector) {
			got.Spec.Selector, got.Spec.TargetRef = nil, &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "shop"}
		},
		"minReadySeconds":                func(got *v1alpha1.PodProtector) { got.Spec.MinReadySeconds = 3600 },
		"another selector":               func(got *v1alpha1.PodProtector) { got.Spec.Selector.MatchLabels["app"] = "shop" },
		"a narrower selector":            func(got *v1alpha1.PodProtector) { got.Spec.Selector.MatchLabels["tier"] = "front" },
		"a removed finalizer":            func(got *v1alpha1.PodProtector) { got.Finalizers = nil },
		"a removed label":                func(got *v1alpha1.PodProtector) { delete(got.Labels, policy.LabelManagedBy) },
		"all labels removed":             func(got *v1alpha1.PodProtector) { got.Labels = nil },
		"all annotations removed":        func(got *v1alpha1.PodProtector) { got.Annotations = nil },
		"a wrong annotation":             func(got *v1alpha1.PodProtector) { got.Annotations[v1alpha1.AnnotationSourceName] = "shop" },
		"an annotation of another group": func(got *v1alpha1.PodProtector) { got.Annotations[v1alpha1.AnnotationSourceAPIVersion] = "v1" },
		"a label claimed by a tool":      func(got *v1alpha1.PodProtector) { got.Labels[policy.LabelManagedBy] = "Helm" },
	} {
		t.Run(claim, func(t *testing.T) {
			p := newFixture(t)
			p.start()
			p.create(p.deployment("web", func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 0 }))
			want := p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)

			edited := want.DeepCopy()
			edit(p, edited, change)
			p.waitForProtector("deployment-web", "the drift is corrected", func(got *v1alpha1.PodProtector) bool {
				return got.ResourceVersion != edited.ResourceVersion && cmp.Equal(got.Spec, want.Spec) && maps.Equal(got.Labels, want.Labels) &&
					maps.Equal(got.Annotations, want.Annotations) && hasProtectorFinalizer(got)
			})
		})
	}
}

func TestGeneratorPreservesUserFields(t *testing.T) {
	p := newFixture(t)
	p.start()
	web := p.deployment("web", nil)
	p.create(web)
	protector := p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)

	threshold, rate, timeout := int32(7), int32(250), int32(60)
	tuned := v1alpha1.AdmissionHistorySpec{
		MaxConcurrentLag: 3, CompactThreshold: &threshold, AggregationRateMillis: &rate, UpdateTimeoutSeconds: &timeout,
	}
	edit(p, protector, func(got *v1alpha1.PodProtector) {
		got.Spec.AdmissionHistory = tuned
		got.Labels["team"] = "shop"
		got.Annotations["example.com/note"] = "tuned by hand"
		got.Finalizers = append(got.Finalizers, "example.com/also")
		got.Spec.MinAvailable = v1alpha1.Pods(2)
	})
	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 20 })
	got := p.waitForProtector("deployment-web", "the floor is corrected and follows the Deployment", hasFloor(14))
	if diff := cmp.Diff(tuned, got.Spec.AdmissionHistory); diff != "" {
		t.Errorf("spec.admissionHistory changed: %s", diff)
	}
	if got.Labels["team"] != "shop" || got.Annotations["example.com/note"] != "tuned by hand" || len(got.Finalizers) != 2 {
		t.Errorf("labels, annotations or finalizers of users were removed:\n%s", dump(got))
	}
	edit(p, protector, func(got *v1alpha1.PodProtector) { got.Finalizers = []string{v1alpha1.FinalizerProtector} })
}

func TestForeignStatusWritesCauseNoGeneratorWrite(t *testing.T) {
	p := newFixture(t)
	g := p.start()
	p.create(p.deployment("web", nil))
	protector := p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)
	condition := protector.Status.Conditions[0]

	protector.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "worker-1", Aggregation: v1alpha1.Aggregation{
		AvailableReplicas: 9, CountedSpec: "a", SnapshotVersion: "1", LastEventTime: metav1.NowMicro(), Epoch: 1, Holder: "aggregator"}}}
	if err := p.Status().Update(t.Context(), protector); err != nil {
		t.Fatal(err)
	}
	written := protector.ResourceVersion

	// The protector of a second Deployment proves that the generator has processed the event of the first.
	p.create(p.deployment("shop", nil))
	p.waitForProtector("deployment-shop", "the PodProtector is created", isSourceFound)
	got := p.waitForProtector("deployment-web", "the PodProtector exists", func(*v1alpha1.PodProtector) bool { return true })
	if got.ResourceVersion != written {
		t.Errorf("the generator wrote after an aggregator did:\n%s", dump(got))
	}
	if updates := g.metric(t, "breakwater_generator_protector_writes_total", "update"); updates != 0 {
		t.Errorf("got %v updates, want none", updates)
	}

	edit := got.DeepCopy()
	edit.Status.Conditions = nil
	if err := p.Status().Update(t.Context(), edit); err != nil {
		t.Fatal(err)
	}
	got = p.waitForProtector("deployment-web", "a removed condition is restored", isSourceFound)
	if len(got.Status.Cells) != 1 || got.Status.Cells[0].Aggregation.AvailableReplicas != 9 {
		t.Errorf("status fields of the aggregator were removed:\n%s", dump(got))
	}
	if got.Status.Conditions[0].Reason != condition.Reason {
		t.Errorf("got the condition %+v, want %+v", got.Status.Conditions[0], condition)
	}
}

func TestRecreateStrategyHasFloorZeroWithReason(t *testing.T) {
	p := newFixture(t)
	p.start()
	p.create(p.deployment("web", func(d *appsv1.Deployment) {
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}))
	p.waitForProtector("deployment-web", "the floor is 0, and the condition states the reason", func(got *v1alpha1.PodProtector) bool {
		return got.Spec.MinAvailable.IntVal == 0 && hasTargetResolved(metav1.ConditionTrue, v1alpha1.ReasonRecreateStrategy)(got)
	})
	p.waitForEvent("PodProtector/deployment-web Warning RecreateStrategy: Deployment web has the strategy Recreate")
}

func TestDeploymentWithLongNameIsProtected(t *testing.T) {
	p := newFixture(t)
	p.start()
	web := p.deployment(strings.Repeat("a.b-", 62)+"web", nil)
	p.create(web)
	protector := p.waitForProtector(policy.ProtectorName(p.ref(web.Name)), "the PodProtector is created", isSourceFound)
	p.waitForEvent("PodProtector/" + protector.Name + " Normal SourceFound: ")
	edit(p, protector, func(got *v1alpha1.PodProtector) { got.Spec.MinAvailable = v1alpha1.Pods(1) })
	p.waitForProtector(protector.Name, "the floor is corrected", hasFloor(7))
	p.delete(web)
	p.waitUntilDeleted(protector)
	p.waitUntilDeleted(web)
}

func TestForeignProtectorIsNotChanged(t *testing.T) {
	p := newFixture(t)
	theirs := &v1alpha1.PodProtector{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-web", Labels: map[string]string{policy.LabelManagedBy: "Helm"}},
		Spec:       v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "mine"}}, MinAvailable: v1alpha1.Pods(3)},
	}
	p.create(theirs)
	g := p.start()
	web := p.deployment("web", nil)
	p.create(web)
	p.waitForEvent("Deployment/web Warning NameTaken: The generator did not create PodProtector deployment-web")

	got := p.waitForProtector("deployment-web", "the PodProtector exists", func(*v1alpha1.PodProtector) bool { return true })
	if got.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("protector was changed:\n%s", dump(got))
	}
	if taken := g.metric(t, "breakwater_generator_unprotected_sources", "NameTaken"); taken != 1 {
		t.Errorf("NameTaken = %v, want 1", taken)
	}
	p.delete(theirs)
	p.waitForProtector("deployment-web", "once the name is free, the Deployment has a PodProtector", func(got *v1alpha1.PodProtector) bool {
		return got.UID != theirs.UID && got.Spec.MinAvailable.IntVal == 7 && isSourceFound(got)
	})
	p.eventually("the metric decreases", func() string {
		if taken := g.metric(t, "breakwater_generator_unprotected_sources", "NameTaken"); taken != 0 {
			return fmt.Sprint("NameTaken = ", taken)
		}
		return ""
	})
}

func TestDeletedDeploymentLeavesForeignProtector(t *testing.T) {
	p := newFixture(t)
	theirs := &v1alpha1.PodProtector{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-web"},
		Spec:       v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{}, MinAvailable: v1alpha1.Pods(3)},
	}
	p.create(theirs)
	p.start()
	web := p.deployment("web", func(d *appsv1.Deployment) { d.Finalizers = []string{v1alpha1.FinalizerSource} })
	p.create(web)
	p.waitForEvent("Deployment/web Warning NameTaken: ")
	p.delete(web)
	p.waitUntilDeleted(web)
	got := p.waitForProtector("deployment-web", "the PodProtector exists", func(*v1alpha1.PodProtector) bool { return true })
	if got.DeletionTimestamp != nil || got.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("protector was changed:\n%s", dump(got))
	}
}

func TestRejectedSelectorIsReportedWithAPIServerMessage(t *testing.T) {
	p := newFixture(t)
	g := p.start()
	web := p.deployment("web", func(d *appsv1.Deployment) {
		for i := range 65 {
			d.Spec.Selector.MatchLabels[fmt.Sprintf("label-%d", i)] = "x"
		}
		d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	})
	p.create(web)
	p.waitForEvent("Deployment/web Warning Refused: ")
	for _, e := range p.events() {
		if strings.Contains(e, "Refused") && !strings.Contains(e, "spec.selector.matchLabels: Too many: 66: must have at most 64 items") {
			t.Errorf("event does not contain the message of the API server: %s", e)
		}
	}
	if count := g.metric(t, "breakwater_generator_unprotected_sources", "Refused"); count != 1 {
		t.Errorf("Refused = %v, want 1", count)
	}
	p.delete(web)
	p.waitUntilDeleted(web)
	err := p.Get(t.Context(), client.ObjectKey{Namespace: p.namespace, Name: "deployment-web"}, &v1alpha1.PodProtector{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("get the protector: %v, want not found", err)
	}
}
