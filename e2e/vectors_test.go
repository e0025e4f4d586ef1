package e2e_test

import (
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
)

// fleetKind is a workload without a controller, so that its pods stay as a vector defines them. Only its scale subresource is used.
var fleetKind = schema.GroupVersionKind{Group: "vectors.test", Version: "v1", Kind: "Fleet"}

func fleetDefinition() *apiextensionsv1.CustomResourceDefinition {
	preserve := true
	definition := &apiextensionsv1.CustomResourceDefinition{}
	definition.Name = "fleets." + fleetKind.Group
	definition.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: fleetKind.Group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "fleets", Singular: "fleet", Kind: fleetKind.Kind, ListKind: "FleetList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: fleetKind.Version, Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", XPreserveUnknownFields: &preserve,
			}},
			Subresources: &apiextensionsv1.CustomResourceSubresources{
				Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
				Scale:  &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"},
			},
		}},
	}
	return definition
}

// createFleetPods creates pods in all cells, each owned by the Fleet of its cell. The Fleets together want the given number of replicas.
func createFleetPods(l *fixture, pods, replicas int) {
	l.Helper()
	scheme := runtime.NewScheme()
	l.Must(apiextensionsv1.AddToScheme(scheme))
	l.Must(l.Application(pods).DeployBare(l.Context(), l.Cells))
	for i, cell := range l.Cells {
		c, err := client.New(loopSuite.Federation().Workers()[i].RESTConfig(), client.Options{Scheme: scheme})
		l.Must(err)
		l.Must(client.IgnoreAlreadyExists(c.Create(l.Context(), fleetDefinition())))
		fleet := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": l.Namespace, "name": "web"},
			"spec":     map[string]any{"replicas": int64(replicas/len(l.Cells) + max(0, min(1, replicas%len(l.Cells)-i)))},
		}}
		fleet.SetGroupVersionKind(fleetKind)
		l.Eventually(func() string {
			return e2e.ErrorText(client.IgnoreAlreadyExists(c.Create(l.Context(), fleet.DeepCopy())))
		})
		l.Must(c.Get(l.Context(), client.ObjectKeyFromObject(fleet), fleet))
		for _, pod := range l.ExistingPods(cell) {
			owner := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":%q,"kind":%q,"name":"web","uid":%q,"controller":true}]}}`,
				fleetKind.GroupVersion(), fleetKind.Kind, fleet.GetUID())
			_, err := cell.Client.CoreV1().Pods(l.Namespace).Patch(l.Context(), pod.Name, types.MergePatchType, []byte(owner), metav1.PatchOptions{})
			l.Must(err)
		}
	}
}

// TestBudgetVectors applies the test vectors of PodUnavailableBudget to a protector, which can express all of them.
func TestBudgetVectors(t *testing.T) {
	type vector struct {
		min, max                       string
		expected                       int32 // spec.expectedReplicas; 0 means none
		pods, unready, replicas        int
		updating, disrupted, deleting  int
		allowed, current, floor, total int32
	}
	for name, v := range map[string]vector{
		"expected 15":                             {max: "30%", expected: 15, pods: 10, allowed: 0, current: 10, floor: 10, total: 15},
		"surge, 13 pods of 10, 12 ready":          {max: "30%", pods: 13, unready: 1, replicas: 10, allowed: 5, current: 12, floor: 7, total: 10},
		"9 of 10 ready":                           {max: "30%", pods: 10, unready: 1, replicas: 10, allowed: 2, current: 9, floor: 7, total: 10},
		"none may be unavailable":                 {max: "0%", pods: 10, replicas: 10, allowed: 0, current: 10, floor: 10, total: 10},
		"all may be unavailable":                  {max: "100%", pods: 10, replicas: 10, allowed: 10, current: 10, floor: 0, total: 10},
		"more may be unavailable than exist":      {max: "100", pods: 10, replicas: 10, allowed: 10, current: 10, floor: 0, total: 10},
		"half, while only half of the pods exist": {min: "50%", pods: 5, replicas: 10, allowed: 0, current: 5, floor: 5, total: 10},
		"80 %":                                  {min: "80%", pods: 10, replicas: 10, allowed: 2, current: 10, floor: 8, total: 10},
		"10 % of 15 is 2 when it is rounded up": {max: "10%", pods: 15, replicas: 15, allowed: 2, current: 15, floor: 13, total: 15},
		"a number is not clamped to the replicas": {min: "100", pods: 5, replicas: 10, allowed: 0, current: 5, floor: 100, total: 0},
		"10 updating, 10 disrupted":               {max: "30%", pods: 100, replicas: 100, updating: 10, disrupted: 10, allowed: 10, current: 80, floor: 70, total: 100},
		"and 5 unready":                           {max: "30%", pods: 100, replicas: 100, updating: 10, disrupted: 10, unready: 5, allowed: 5, current: 75, floor: 70, total: 100},
		"or 5 terminating":                        {max: "30%", pods: 100, replicas: 100, updating: 10, disrupted: 10, deleting: 5, allowed: 5, current: 75, floor: 70, total: 100},
	} {
		t.Run(name, func(t *testing.T) {
			claim(t, name, func(l *fixture) {
				createFleetPods(l, v.pods, v.replicas)
				// Pods become unready or terminating before the protector exists.
				unready := map[string]bool{}
				for _, pod := range l.ExistingPods(l.Cells[0])[:v.unready] {
					l.SetReady(l.Cells[0], pod.Name, false)
					unready[pod.Name] = true
				}
				for _, pod := range l.ExistingPods(l.Cells[0])[:v.deleting] {
					l.Must(l.DeletePod(l.Cells[0], pod.Name))
				}
				l.CreateProtector(0, func(spec *v1alpha1.PodProtectorSpec) {
					spec.Operations = append(spec.Operations, v1alpha1.OperationDelete, v1alpha1.OperationEvict, v1alpha1.OperationUpdate)
					spec.MinAvailable, spec.MaxUnavailable = nil, nil
					for text, field := range map[string]**intstr.IntOrString{v.min: &spec.MinAvailable, v.max: &spec.MaxUnavailable} {
						if text != "" {
							value := intstr.Parse(text)
							*field = &value
						}
					}
					if v.expected > 0 {
						spec.ExpectedReplicas = &v.expected
					}
				})
				updateAndRemovePods(l, unready, v.updating, v.disrupted)
				want := fmt.Sprintf("%d/%d/%d/%d", v.allowed, v.current, v.floor, v.total)
				l.Eventually(func() string {
					s := l.GetProtector().Status
					total := int32(0)
					if s.ExpectedReplicas != nil {
						total = *s.ExpectedReplicas
					}
					got := fmt.Sprintf("%d/%d/%d/%d", s.DisruptionsAllowed, s.Summary.EstimatedAvailable, s.DesiredAvailable, total)
					if got != want {
						return fmt.Sprintf("allowed/current/desired/total %s, want %s\n%+v", got, want, s)
					}
					return ""
				})
				removeReadyPods(l, unready, int(v.allowed))
			})
		})
	}
}

// updateAndRemovePods updates some pods of the second cell and removes others. kwok does not notice the updates yet.
func updateAndRemovePods(l *fixture, unready map[string]bool, updating, disrupted int) {
	l.Helper()
	if updating+disrupted == 0 {
		return
	}
	l.Eventually(func() string {
		if s := l.GetProtector().Status; s.Summary.Ready == 0 || len(s.Cells) < len(l.Cells) || s.DesiredAvailable == 0 {
			return fmt.Sprintf("not counted yet: %+v", s)
		}
		return ""
	})
	cell := l.Cells[1]
	pods := l.ExistingPods(cell)
	for _, pod := range pods[:updating] {
		l.SetUpdatesHeld(cell, pod.Name, true)
		l.Must(l.SetImage(cell, pod.Name, "web:2"))
		unready[pod.Name] = true // its removal consumes no further budget
	}
	for _, pod := range pods[updating : updating+disrupted] {
		l.Must(l.DeletePod(cell, pod.Name))
	}
}

// removeReadyPods tries to remove all ready pods. It fails the test unless exactly the allowed number of removals is admitted.
func removeReadyPods(l *fixture, unready map[string]bool, allowed int) {
	l.Helper()
	removed := 0
	for _, cell := range l.Cells {
		for _, pod := range l.ExistingPods(cell) {
			if unready[pod.Name] {
				continue
			}
			err := l.DeletePod(cell, pod.Name)
			switch {
			case err == nil:
				removed++
			case apierrors.IsTooManyRequests(err):
			default:
				l.Fatalf("remove a pod: %v", err)
			}
		}
	}
	if removed != allowed {
		l.Errorf("%d removals were admitted, want %d", removed, allowed)
	}
}
