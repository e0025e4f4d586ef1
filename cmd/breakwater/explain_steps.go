package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// step is the result for one object that is created or updated.
type step struct {
	// title names the object: Pod shop/web-1, or pods of Deployment shop/web.
	title string
	// policyCount is the total number of policies.
	policyCount int
	scheduling.Result
	// skipReason is why the API server does not call the webhook. It is empty if it does.
	skipReason string
	// after is the patched object as JSON.
	after []byte
}

// explain returns the result for an object. If the object is a workload that is not denied, it also returns the result for the pods of
// the patched template.
func (r *rules) explain(o object, update bool) ([]step, error) {
	kind := o.Object.GroupVersionKind().GroupKind()
	raw, err := o.Object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	first, err := r.step(o.ref.String(), kind, update, raw)
	if err != nil || first.Refusal != "" || kind == podKind() {
		return []step{first}, err
	}
	pod, err := podOf(kind, first.after)
	if err != nil {
		return nil, err
	}
	second, err := r.step("pods of "+o.ref.String(), podKind(), false, pod)
	return []step{first, second}, err
}

func (r *rules) step(title string, kind schema.GroupKind, update bool, raw []byte) (step, error) {
	s := step{title: title, policyCount: len(r.policies), after: raw}
	o, err := scheduling.Read(kind, update, raw)
	if err != nil {
		return s, err
	}
	if s.skipReason = r.webhooks.skipReason(o.Namespace, r.labels[o.Namespace], o.Labels); s.skipReason != "" {
		return s, nil
	}
	cores := r.webhooks.coresOf(o.Namespace, o.Labels)
	protectors, err := r.covering(o, cores)
	if err != nil {
		return s, err
	}
	policies := slices.DeleteFunc(scheduling.NewSet(r.policies).For(o, r.labels[o.Namespace], protectors), func(p *scheduling.Policy) bool {
		return !slices.Contains(cores, p.Core)
	})
	if s.Result, err = scheduling.Merge(o, policies, protectors); err != nil || s.Patch == nil {
		return s, err
	}
	patch, err := jsonpatch.DecodePatch(s.Patch)
	if err != nil {
		return s, fmt.Errorf("read the patch: %w", err)
	}
	if s.after, err = patch.Apply(raw); err != nil {
		return s, fmt.Errorf("apply the patch: %w", err)
	}
	return s, nil
}

func podKind() schema.GroupKind { return schema.GroupKind{Kind: "Pod"} }

// podOf returns a pod as the controller of a workload would create it, with the fields that policies use.
func podOf(kind schema.GroupKind, workload []byte) ([]byte, error) {
	of := &unstructured.Unstructured{}
	if err := of.UnmarshalJSON(workload); err != nil {
		return nil, err
	}
	path, _ := scheduling.PathOf(kind)
	fields, _, err := unstructured.NestedMap(of.Object, path[:len(path)-1]...)
	if err != nil {
		return nil, err
	}
	template := &unstructured.Unstructured{Object: fields}
	pod := &unstructured.Unstructured{Object: map[string]any{"spec": fields["spec"]}}
	pod.SetGroupVersionKind(podKind().WithVersion("v1"))
	pod.SetNamespace(of.GetNamespace())
	pod.SetGenerateName(of.GetName() + "-")
	pod.SetLabels(template.GetLabels())
	if kind.Kind == "Deployment" {
		labels := map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: ""} // the value does not matter
		maps.Copy(labels, template.GetLabels())
		pod.SetLabels(labels)
	}
	pod.SetAnnotations(template.GetAnnotations())
	if kind.Kind == "DaemonSet" { // their pods have node affinities from the controller
		pod.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(of, of.GroupVersionKind())})
	}
	return pod.MarshalJSON()
}

func denialError(steps []step) error {
	var all []error
	for i := range steps {
		if s := &steps[i]; s.Refusal != "" {
			all = append(all, fmt.Errorf("%s would be denied: %s", s.title, s.Refusal))
		}
	}
	return errors.Join(all...)
}
