package provider

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// moved is an object in the state of another provider.
type moved struct {
	object *unstructured.Unstructured
	// managers lists the field managers by which that provider applied the object.
	managers []string
	// isLiveObject means that no user wrote this manifest: it is the object as the cluster had it when the other provider imported it.
	isLiveObject bool
}

// parseManifestState reads the state of a kubernetes_manifest of hashicorp/kubernetes, which stores the type of a manifest beside its
// value.
func parseManifestState(raw []byte) (*moved, error) {
	type typed struct {
		Value map[string]any `json:"value"`
	}
	state := struct {
		Manifest     *typed `json:"manifest"`
		Object       *typed `json:"object"`
		FieldManager []struct {
			Name string `json:"name"`
		} `json:"field_manager"`
	}{}
	if err := json.Unmarshal(raw, &state); err != nil {
		return nil, err
	}
	manager := "Terraform"
	if len(state.FieldManager) > 0 {
		manager = cmp.Or(state.FieldManager[0].Name, manager)
	}
	switch {
	case state.Manifest != nil && state.Manifest.Value != nil:
		return newMoved(state.Manifest.Value, manager)
	case state.Object != nil:
		m, err := newMoved(state.Object.Value, manager)
		if err == nil {
			m.isLiveObject = true
		}
		return m, err
	default:
		return newMoved(nil)
	}
}

// parseKubectlState reads the state of a kubectl_manifest of gavinbunney/kubectl, or of one of its forks.
func parseKubectlState(raw []byte) (*moved, error) {
	state := struct {
		UID               string `json:"uid"`
		YAMLBody          string `json:"yaml_body"`
		OverrideNamespace string `json:"override_namespace"`
		ServerSideApply   bool   `json:"server_side_apply"`
		FieldManager      string `json:"field_manager"`
	}{}
	if err := json.Unmarshal(raw, &state); err != nil {
		return nil, err
	}
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(state.YAMLBody), &object); err != nil {
		return nil, fmt.Errorf("yaml_body: %w", err)
	}
	// Without server-side apply it sets no field manager, and the API server derives the name from its user agent.
	managers := []string{"HashiCorp"}
	if state.ServerSideApply {
		managers = append(managers, cmp.Or(state.FieldManager, "kubectl"))
	}
	m, err := newMoved(object, managers...)
	if err != nil {
		return nil, err
	}
	if state.OverrideNamespace != "" {
		m.object.SetNamespace(state.OverrideNamespace)
	}
	m.object.SetUID(types.UID(state.UID))
	return m, nil
}

func newMoved(object map[string]any, managers ...string) (*moved, error) {
	m := &moved{object: &unstructured.Unstructured{Object: withoutNulls(object)}, managers: managers}
	if m.object.GetName() == "" || m.object.GetKind() == "" || m.object.GetAPIVersion() == "" {
		return nil, errors.New("it contains no manifest with an apiVersion, a kind and a name")
	}
	return m, nil
}

// withoutNulls removes null values from an object, because providers do not send these to a cluster either.
func withoutNulls(object map[string]any) map[string]any {
	all := make(map[string]any, len(object))
	for name, v := range object {
		switch v := v.(type) {
		case nil:
		case map[string]any:
			all[name] = withoutNulls(v)
		case []any:
			list := make([]any, len(v))
			for i, of := range v {
				if inner, ok := of.(map[string]any); ok {
					of = withoutNulls(inner)
				}
				list[i] = of
			}
			all[name] = list
		default:
			all[name] = v
		}
	}
	return all
}
