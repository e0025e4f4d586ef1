package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// Kind is a kind of object that can be converted.
type Kind struct {
	schema.GroupKind
	// Resource is the resource name in its API.
	Resource string
	// Versions are the readable versions, the most expressive one first.
	Versions []string
	// Title is the display name.
	Title string
	// Alias is the short name. It is also the suffix for a name that another object already has.
	Alias string
	// ClusterScoped reports whether the kind is cluster-scoped.
	ClusterScoped bool

	// Exactly one of these is set. It converts the spec to that of a PodProtector or of a scheduling policy.
	spec   func(r *conversion, object *unstructured.Unstructured, spec map[string]any) (v1alpha1.PodProtectorSpec, bool)
	policy func(r *conversion, kind Kind, spec map[string]any) (v1alpha1.ClusterPodSchedulingPolicySpec, bool)
}

// Kinds returns all kinds that can be converted. If several sources have the same name, the first kind in this order keeps it.
func Kinds() []Kind {
	return []Kind{
		{
			GroupKind: schema.GroupKind{Group: "policy", Kind: "PodDisruptionBudget"}, Resource: "poddisruptionbudgets",
			Versions: []string{"v1", "v1beta1"}, Title: "PodDisruptionBudget", Alias: "pdb", spec: convertDisruptionBudget,
		},
		{
			GroupKind: unavailableBudgetKind(), Resource: "podunavailablebudgets",
			Versions: []string{"v1beta1", "v1alpha1"}, Title: "PodUnavailableBudget", Alias: "pub", spec: convertUnavailableBudget,
		},
		{
			GroupKind: schema.GroupKind{Group: podseidonGroup, Kind: "PodProtector"}, Resource: "podprotectors",
			Versions: []string{"v1alpha1"}, Title: "Podseidon PodProtector", Alias: "podseidon", spec: convertPodseidonProtector,
		},
		{
			GroupKind: schema.GroupKind{Group: kupidGroup, Kind: scheduling.NamespacedPolicy}, Resource: "podschedulingpolicies",
			Versions: []string{"v1alpha1"}, Title: "kupid PodSchedulingPolicy", Alias: "kupid", policy: convertKupidPolicy,
		},
		{
			GroupKind: schema.GroupKind{Group: kupidGroup, Kind: scheduling.ClusterPolicy}, Resource: "clusterpodschedulingpolicies", ClusterScoped: true,
			Versions: []string{"v1alpha1"}, Title: "kupid ClusterPodSchedulingPolicy", Alias: "kupid", policy: convertKupidPolicy,
		},
	}
}

// read converts an object to a PodProtector, or records why it cannot.
func (r *conversion) read(kind Kind, object *unstructured.Unstructured) (v1alpha1.PodProtector, bool) {
	protector := v1alpha1.PodProtector{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodProtector"},
		ObjectMeta: metadataOf(object),
	}
	spec, ok := r.specOf(kind, object)
	if !ok {
		return protector, false
	}
	if protector.Spec, ok = kind.spec(r, object, spec); !ok {
		return protector, false
	}
	r.warnOwner(object, "the protector")
	if slices.Contains(webhookconfig.DefaultExemptNamespaces(), object.GetNamespace()) {
		r.warn(ExemptNamespace, "Breakwater's webhook configurations leave out namespace %s, so that the protector denies no removal there: keep the %s",
			object.GetNamespace(), kind.Title)
	}
	return protector, true
}

// specOf returns the spec of an object after checking its version and name.
func (r *conversion) specOf(kind Kind, object *unstructured.Unstructured) (map[string]any, bool) {
	version := object.GroupVersionKind().Version
	spec, given := object.Object["spec"].(map[string]any)
	wrong := validation.IsDNS1123Subdomain(object.GetName())
	switch {
	case !slices.Contains(kind.Versions, version):
		r.reject(Malformed, "API version %q is unknown; known versions: %s", version, strings.Join(kind.Versions, ", "))
		return nil, false
	case len(wrong) > 0:
		r.reject(Malformed, "its name %q is invalid: %s", object.GetName(), wrong[0])
		return nil, false
	case !given:
		r.reject(Malformed, "it has no spec")
		return nil, false
	}
	return spec, true
}

// warnOwner warns about an object that a controller writes.
func (r *conversion) warnOwner(object *unstructured.Unstructured, what string) {
	if owner := metav1.GetControllerOf(object); owner != nil {
		r.warn(DoesNotFollow, "%s %s writes it, but will not write %s: update that yourself when this object changes", owner.Kind, owner.Name, what)
	}
}

// decode decodes a spec. It warns about unknown fields, because the effect of omitting them is unknown.
func decode[T any](r *conversion, spec map[string]any) (T, bool) {
	var into T
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(spec, &into, true)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		r.warn(Ignored, "its spec has unknown fields, which were left out: %s", oneLine(errors.Join(strict.Errors()...)))
		return into, true
	}
	if err != nil {
		r.reject(Malformed, "its spec cannot be read: %s", oneLine(err))
		return into, false
	}
	return into, true
}

// oneLine returns the text of an error without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(fmt.Sprint(err)), " ") }
