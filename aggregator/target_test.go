package aggregator_test

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// setTarget makes the protector target a workload and tolerate three unavailable pods.
func setTarget(apiVersion, kind, name string) func(*v1alpha1.PodProtectorSpec) {
	return func(spec *v1alpha1.PodProtectorSpec) {
		missing := intstr.FromInt32(3)
		spec.MinAvailable, spec.MaxUnavailable, spec.Selector = nil, &missing, nil
		spec.TargetRef = &v1alpha1.TargetRef{APIVersion: apiVersion, Kind: kind, Name: name}
	}
}

// wantTarget waits until the condition TargetResolved has this reason and message text, and returns the cell's
// target.
func (l *fixture) wantTarget(reason, says string) *v1alpha1.Target {
	l.Helper()
	var p *v1alpha1.PodProtector
	l.eventually(func() string {
		p = l.protector()
		resolved := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
		if resolved == nil || resolved.Reason != reason || !strings.Contains(resolved.Message, says) {
			return fmt.Sprintf("want TargetResolved with %s and %q, status %+v", reason, says, p.Status)
		}
		return ""
	})
	return p.Status.Cells[0].Aggregation.Target
}

func TestTargetIsFoundByName(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	for i := range 4 {
		l.createPod(fmt.Sprint("web-", i), true)
	}
	l.createProtector(setTarget("apps/v1", "Deployment", "web"))
	l.run("a")
	if target := l.wantTarget(v1alpha1.ReasonTargetNotFound, "no pod is protected"); target != nil {
		t.Errorf("target %+v of a Deployment that does not exist, want none", target)
	}
	l.wantSummary(v1alpha1.Summary{})

	web := l.deployment("web", 10)
	if target := l.wantTarget(v1alpha1.ReasonTargetFound, "Deployment web"); target.Selector != "app=web" || target.UID != web.UID {
		t.Errorf("target %+v", target)
	}
	l.wantFloor(7, 10)
	l.wantSummary(v1alpha1.Summary{Total: 4, Available: 4, EstimatedAvailable: 4, Ready: 4, Running: 4, Scheduled: 4})
	l.scale(web, 5)
	l.wantFloor(2, 5)

	l.erase(web)
	if target := l.wantTarget(v1alpha1.ReasonTargetGone, "stay protected"); !target.Gone || target.Selector != "app=web" {
		t.Errorf("target %+v of a deleted Deployment", target)
	}
	l.wantFloor(2, 5) // an accidental deletion
	l.deployment("web", 6)
	l.wantTarget(v1alpha1.ReasonTargetFound, "Deployment web")
	l.wantFloor(3, 6)
}

func TestTargetDeletedOnPurposeIsReleased(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	web := l.deployment("web", 10)
	l.createPod("web-0", true)
	l.createProtector(func(spec *v1alpha1.PodProtectorSpec) {
		setTarget("apps/v1", "Deployment", "web")(spec)
		spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
	})
	l.run("a")
	l.wantFloor(7, 10)
	l.erase(web)
	if target := l.wantTarget(v1alpha1.ReasonTargetNotFound, "no pod is protected"); target != nil {
		t.Errorf("target %+v", target)
	}
	l.wantFloor(0, 0)
}

func TestLaterLeaderRetainsDeletedTarget(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	web := l.deployment("web", 10)
	l.createPod("web-0", true)
	l.createProtector(setTarget("apps/v1", "Deployment", "web"))
	stop := l.run("a")
	l.wantFloor(7, 10)
	stop()
	l.erase(web)
	l.run("b")
	l.wantTarget(v1alpha1.ReasonTargetGone, "stay protected")
	l.wantFloor(7, 10)
	l.wantSummary(v1alpha1.Summary{Total: 1, Available: 1, EstimatedAvailable: 1, Ready: 1, Running: 1, Scheduled: 1})

	// The criterion does not affect which pods are selected.
	l.updateDeployment(func(spec *v1alpha1.PodProtectorSpec) { spec.Criterion = v1alpha1.CriterionReady })
	l.eventually(func() string {
		if p := l.protector(); p.Status.Cells[0].Aggregation.CountedSpec != quota.CountedSpec(&p.Spec) {
			return "it is not counted by the new spec"
		}
		return ""
	})
	l.wantFloor(7, 10)
	l.confirmRelease()
	l.wantFloor(0, 0)
}

// A CRD may be lost together with all its objects.
func TestTargetOfDeletedKindIsRetained(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	l.createPod("web-0", true)
	definition, boat := l.createOfNewKind("boats", "Boat")
	l.createProtector(setTarget("targets.test/v1", "Boat", "web"))
	l.run("a")
	l.wantTarget(v1alpha1.ReasonTargetUnknown, "has no selector")
	if p := l.protector(); p.Status.Cells[0].Aggregation.CountedSpec != "" || p.Status.DisruptionsAllowed != 0 {
		t.Errorf("pods are counted although the target is unknown: %+v", p.Status)
	}

	status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"selector":"app=web"}}`))
	if err := l.client.Status().Patch(t.Context(), boat, status); err != nil {
		t.Fatal(err)
	}
	l.wantTarget(v1alpha1.ReasonTargetFound, "Boat web")
	l.wantFloor(1, 4)
	l.erase(definition)
	if target := l.wantTarget(v1alpha1.ReasonTargetGone, "stay protected"); target.Replicas != 4 {
		t.Errorf("target %+v", target)
	}
	l.wantFloor(1, 4)
}

// createOfNewKind defines a kind and creates a workload of it that wants four pods.
func (l *fixture) createOfNewKind(plural, kind string) (definition *apiextensionsv1.CustomResourceDefinition, object *unstructured.Unstructured) {
	l.Helper()
	definition = l.defineKind(plural, kind)
	object = &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": l.namespace, "name": "web"},
		"spec":     map[string]any{"replicas": int64(4)},
	}}
	object.SetAPIVersion("targets.test/v1")
	object.SetKind(kind)
	l.eventually(func() string { return text(l.client.Create(l.Context(), object)) })
	return definition, object
}

// defineKind creates a kind whose scale reports a selector once its controller has set it.
func (l *fixture) defineKind(plural, kind string) *apiextensionsv1.CustomResourceDefinition {
	l.Helper()
	preserve, selector := true, ".status.selector"
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + ".targets.test"}}
	definition.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "targets.test", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", XPreserveUnknownFields: &preserve,
			}},
			Subresources: &apiextensionsv1.CustomResourceSubresources{
				Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
				Scale: &apiextensionsv1.CustomResourceSubresourceScale{
					SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: &selector,
				},
			},
		}},
	}
	if err := apiextensionsv1.AddToScheme(l.scheme); err != nil {
		l.Fatal(err)
	}
	l.create(definition)
	l.Cleanup(func() { _ = l.client.Delete(l.Context(), definition) })
	return definition
}

func text(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
