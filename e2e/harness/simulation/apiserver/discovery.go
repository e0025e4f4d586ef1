package apiserver

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// scaleSubresource is served for workloads.
const scaleSubresource = "scale"

// isDiscovery reports whether a path asks which kinds are served: /api, /apis, /api/v1 or /apis/GROUP/VERSION.
func isDiscovery(path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	return parts[0] == "api" && len(parts) <= 2 || parts[0] == "apis" && len(parts) <= 3
}

// discover answers which kinds are served, as API servers without aggregated discovery do.
func discover(path string) (any, error) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case path == "/api":
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}, nil
	case path == "/apis":
		return groups(), nil
	case parts[0] == "api":
		return resources(schema.GroupVersion{Version: parts[1]}), nil
	case len(parts) == 3:
		return resources(schema.GroupVersion{Group: parts[1], Version: parts[2]}), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, path)
}

func groups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, k := range Kinds() {
		isListed := slices.ContainsFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == k.Group })
		if k.Group == "" || isListed {
			continue
		}
		version := metav1.GroupVersionForDiscovery{GroupVersion: k.GroupVersion().String(), Version: k.Version}
		list.Groups = append(list.Groups, metav1.APIGroup{
			Name: k.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
		})
	}
	return list
}

func resources(version schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version.String()}
	for _, k := range Kinds() {
		if k.GroupVersion() != version {
			continue
		}
		verbs := metav1.Verbs{"get", "list", "watch"}
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: k.Resource, Kind: k.Kind, Namespaced: k.Namespaced, Verbs: verbs})
	}
	return list
}

// scale returns the scale of a workload. API servers answer 404 for a kind without scale, as for an object that does not exist.
func (h handler) scale(c *call) (any, error) {
	object, err := h.store.Get(c.kind.Resource, c.key)
	if err != nil {
		return nil, err
	}
	replicas, selector := (*int32)(nil), ""
	switch w := object.(type) {
	case *appsv1.Deployment:
		replicas, selector = w.Spec.Replicas, metav1.FormatLabelSelector(w.Spec.Selector)
	case *appsv1.StatefulSet:
		replicas, selector = w.Spec.Replicas, metav1.FormatLabelSelector(w.Spec.Selector)
	case *appsv1.ReplicaSet:
		replicas, selector = w.Spec.Replicas, metav1.FormatLabelSelector(w.Spec.Selector)
	case *Operated:
		switch scaleModeOf(c.kind.Kind) {
		case scaleServed:
			replicas, selector = &w.Spec.Replicas, w.Status.Selector
		case scaleFails:
			return nil, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", ".spec.replicas"))
		case noScale:
		}
	}
	if replicas == nil {
		return nil, h.store.notFound(c.kind.Resource, c.key)
	}
	return &autoscalingv1.Scale{
		TypeMeta:   metav1.TypeMeta{Kind: "Scale", APIVersion: "autoscaling/v1"},
		ObjectMeta: metav1.ObjectMeta{Namespace: c.key.Namespace, Name: c.key.Name, UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()},
		Spec:       autoscalingv1.ScaleSpec{Replicas: *replicas},
		Status:     autoscalingv1.ScaleStatus{Selector: selector},
	}, nil
}
