package shape

import (
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// Definition is an API kind, as its CustomResourceDefinition defines it.
type Definition struct {
	Resource    schema.GroupVersionResource
	Kind        schema.GroupVersionKind
	Namespaced  bool
	Description string
	// Spec and Status describe the fields of the spec and of the status.
	Spec, Status *Field

	schema *apiextensionsv1.JSONSchemaProps
}

// Read reads the definition of a kind from a file.
func Read(files fs.FS, name string) (*Definition, error) {
	raw, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, crd); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	version := crd.Spec.Versions[0]
	group := schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}
	d := &Definition{
		Resource:   group.WithResource(crd.Spec.Names.Plural),
		Kind:       group.WithKind(crd.Spec.Names.Kind),
		Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		schema:     version.Schema.OpenAPIV3Schema,
	}
	d.Description = describe("", d.schema)
	for part, field := range map[string]**Field{"spec": &d.Spec, "status": &d.Status} {
		props := d.schema.Properties[part]
		if *field, err = Parse(part, &props); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return d, nil
}
