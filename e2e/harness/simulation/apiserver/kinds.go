package apiserver

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Kind is one served resource.
type Kind struct {
	schema.GroupVersionKind
	Resource   string
	Namespaced bool
	// New returns an empty object.
	New func() client.Object
}

// Kinds returns all resources that our components use.
func Kinds() []Kind {
	return append([]Kind{
		{corev1.SchemeGroupVersion.WithKind("Pod"), "pods", true, func() client.Object { return &corev1.Pod{} }},
		{appsv1.SchemeGroupVersion.WithKind("Deployment"), "deployments", true, func() client.Object { return &appsv1.Deployment{} }},
		{appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), "replicasets", true, func() client.Object { return &appsv1.ReplicaSet{} }},
		{appsv1.SchemeGroupVersion.WithKind("StatefulSet"), "statefulsets", true, func() client.Object { return &appsv1.StatefulSet{} }},
		{v1alpha1.GroupVersion.WithKind("PodProtector"), "podprotectors", true, func() client.Object { return &v1alpha1.PodProtector{} }},
		{v1alpha1.GroupVersion.WithKind("Cell"), "cells", false, func() client.Object { return &v1alpha1.Cell{} }},
		{v1alpha1.GroupVersion.WithKind("ProtectionPolicy"), Policies, true, func() client.Object { return &v1alpha1.ProtectionPolicy{} }},
		{v1alpha1.GroupVersion.WithKind("ClusterProtectionPolicy"), "clusterprotectionpolicies", false,
			func() client.Object { return &v1alpha1.ClusterProtectionPolicy{} }},
		{v1alpha1.GroupVersion.WithKind("ClusterRing"), "clusterrings", false, func() client.Object { return &v1alpha1.ClusterRing{} }},
		{coordinationv1.SchemeGroupVersion.WithKind("Lease"), "leases", true, func() client.Object { return &coordinationv1.Lease{} }},
		{eventsv1.SchemeGroupVersion.WithKind("Event"), "events", true, func() client.Object { return &eventsv1.Event{} }},
		{corev1.SchemeGroupVersion.WithKind("Namespace"), Namespaces, false, func() client.Object { return &corev1.Namespace{} }},
		{corev1.SchemeGroupVersion.WithKind("ConfigMap"), "configmaps", true, func() client.Object { return &corev1.ConfigMap{} }},
		{admissionregistrationv1.SchemeGroupVersion.WithKind("ValidatingWebhookConfiguration"), WebhookConfigurations, false,
			func() client.Object { return &admissionregistrationv1.ValidatingWebhookConfiguration{} }},
		{schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "customresourcedefinitions", false, newMetadata},
		{Application(), "applications", true, newMetadata},
	}, operatedKinds()...)
}

// Namespaces is the resource of namespaces, Policies that of ProtectionPolicies, and WebhookConfigurations that of
// ValidatingWebhookConfigurations.
const (
	Namespaces            = "namespaces"
	Policies              = "protectionpolicies"
	WebhookConfigurations = "validatingwebhookconfigurations"
)

// Application returns a kind that owns workloads.
func Application() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Application"}
}

// newMetadata returns an empty object of a kind that serves only metadata.
func newMetadata() client.Object { return &metav1.PartialObjectMetadata{} }

// Mapper maps the kinds for clients, which then need no discovery.
func Mapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, k := range Kinds() {
		scope := meta.RESTScopeRoot
		if k.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		mapper.AddSpecific(k.GroupVersionKind, k.GroupVersion().WithResource(k.Resource), k.GroupVersion().WithResource(k.Resource), scope)
	}
	return mapper
}
