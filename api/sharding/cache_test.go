package sharding

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestCacheSelectsTheShardsObjects(t *testing.T) {
	const own = "breakwater.dev/shard-r=a"
	selector := func(s string) labels.Selector { return labels.SelectorFromSet(labels.Set{s: "x"}) }
	secret := &corev1.Secret{}
	metadata := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}}
	forConfigMaps := func(entry cache.ByObject) cache.Options {
		return cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: entry}}
	}
	for claim, of := range map[string]struct {
		options cache.Options
		// label is the selector of ConfigMaps.
		label string
		fails string
	}{
		"the objects of the shard":              {cache.Options{}, own, ""},
		"objects with a selector for all types": {cache.Options{DefaultLabelSelector: selector("d")}, own + ",d=x", ""},
		"none with the selector Nothing":        {cache.Options{DefaultLabelSelector: labels.Nothing()}, "", ""},
		"objects of some namespaces":            {cache.Options{DefaultNamespaces: map[string]cache.Config{"n": {}}}, own, ""},
		"objects of some namespaces for this type": {
			forConfigMaps(cache.ByObject{Namespaces: map[string]cache.Config{"n": {}}}), own, "",
		},
		"objects with an entry for another form of the type": {
			cache.Options{ByObject: map[client.Object]cache.ByObject{metadata: {Transform: cache.TransformStripManagedFields()}}}, own, "",
		},
		"no objects with a selector": {forConfigMaps(cache.ByObject{Label: selector("l")}), "", "selector for this type"},
		"no objects of a namespace with a selector": {
			forConfigMaps(cache.ByObject{Namespaces: map[string]cache.Config{"n": {LabelSelector: selector("n")}}}), "", `selector for namespace "n"`,
		},
		"no objects of a namespace with a selector for all types": {
			cache.Options{DefaultNamespaces: map[string]cache.Config{"n": {LabelSelector: selector("dn")}}}, "", `selector for namespace "n"`,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			s := &Shard{ring: "r", name: "a"}
			options := of.options
			if options.ByObject == nil {
				options.ByObject = map[client.Object]cache.ByObject{}
			}
			options.ByObject[secret] = cache.ByObject{Label: selector("secret")}
			before := len(options.ByObject)
			users := options.ByObject
			err := s.restrictCache(&options, scheme.Scheme, []client.Object{&corev1.ConfigMap{}, &corev1.ConfigMap{}})
			if of.fails != "" {
				if err == nil || !strings.Contains(err.Error(), of.fails) {
					t.Fatalf("error = %v, want it to contain %q", err, of.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(users) != before || options.ByObject[secret].Label.String() != "secret=x" {
				t.Error("the options of the caller were changed")
			}
			found := 0
			for object, entry := range options.ByObject {
				if object == secret {
					continue
				}
				found++
				if have := entry.Label.String(); have != of.label {
					t.Errorf("selector of ConfigMaps = %q, want %q", have, of.label)
				}
			}
			if found != 1 {
				t.Errorf("ConfigMaps have %d entries", found)
			}
		})
	}
}
