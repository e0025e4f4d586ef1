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
	for claim, of := range map[string]struct {
		options cache.Options
		// label is the selector of ConfigMaps, and namespaced are those of individual namespaces.
		label      string
		namespaced map[string]string
		fails      string
	}{
		"the objects of the shard": {cache.Options{}, own, nil, ""},
		"objects with a selector": {
			cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {Label: selector("l")}}}, own + ",l=x", nil, "",
		},
		"objects with a selector for another form of the type": {
			cache.Options{ByObject: map[client.Object]cache.ByObject{metadata: {Label: selector("l")}}}, own + ",l=x", nil, "",
		},
		"objects with a selector for all types": {cache.Options{DefaultLabelSelector: selector("d")}, own + ",d=x", nil, ""},
		"none with the selector Nothing":        {cache.Options{DefaultLabelSelector: labels.Nothing()}, "", nil, ""},
		"objects of some namespaces":            {cache.Options{DefaultNamespaces: map[string]cache.Config{"n": {}}}, own, nil, ""},
		"objects of some namespaces for this type": {
			cache.Options{DefaultLabelSelector: selector("d"), ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
				Namespaces: map[string]cache.Config{"n": {LabelSelector: selector("n")}, "o": {}},
			}}}, own + ",d=x", map[string]string{"n": own + ",n=x", "o": own + ",d=x"}, "",
		},
		"the selector of the type before that of the namespace": {
			cache.Options{
				DefaultNamespaces: map[string]cache.Config{"n": {LabelSelector: selector("dn")}, "o": {LabelSelector: selector("do")}},
				ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
					Label: selector("l"), Namespaces: map[string]cache.Config{"n": {}},
				}},
			}, own + ",l=x", map[string]string{"n": own + ",l=x"}, "",
		},
		"an error if the shard's selector would not apply": {
			cache.Options{DefaultNamespaces: map[string]cache.Config{"n": {LabelSelector: selector("dn")}}}, "", nil, "set Namespaces in ByObject",
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
				for name, want := range of.namespaced {
					if have := entry.Namespaces[name].LabelSelector.String(); have != want {
						t.Errorf("selector of namespace %s = %q, want %q", name, have, want)
					}
				}
			}
			if found != 1 {
				t.Errorf("ConfigMaps have %d entries", found)
			}
		})
	}
}
