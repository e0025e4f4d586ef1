package main

import (
	"fmt"
	"os"
	"strings"

	applicationpkg "github.com/argoproj/argo-cd/v3/pkg/apiclient/application"
	applicationv1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// readOverrides reads the keys resource.customizations.WHAT.GROUP_KIND of a ConfigMap. Others are refused: a check that
// nobody runs would be taken for one that passes.
func readOverrides(file string) (map[string]applicationv1alpha1.ResourceOverride, error) {
	overrides := map[string]applicationv1alpha1.ResourceOverride{}
	if file == "" {
		return overrides, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	settings := corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict(raw, &settings); err != nil {
		return nil, fmt.Errorf("read the settings %s: %w", file, err)
	}
	for key, value := range settings.Data {
		what, of, ok := strings.Cut(strings.TrimPrefix(key, "resource.customizations."), ".")
		group, kind, named := strings.Cut(of, "_")
		if !ok || !named || !strings.HasPrefix(key, "resource.customizations.") {
			return nil, fmt.Errorf("settings %s: unknown key %q", file, key)
		}
		name := group + "/" + kind
		override := overrides[name]
		switch what {
		case "health":
			override.HealthLua = value
		case "actions":
			override.Actions = value
		case "ignoreDifferences":
			if err := yaml.UnmarshalStrict([]byte(value), &override.IgnoreDifferences); err != nil {
				return nil, fmt.Errorf("settings %s: %s: %w", file, key, err)
			}
		default:
			return nil, fmt.Errorf("settings %s: unknown key %q", file, key)
		}
		overrides[name] = override
	}
	return overrides, nil
}

func offered(vm lua.VM, object *unstructured.Unstructured) ([]applicationv1alpha1.ResourceAction, error) {
	scripts, err := vm.GetResourceActionDiscovery(object)
	if err != nil {
		return nil, fmt.Errorf("find the actions: %w", err)
	}
	actions, err := vm.ExecuteResourceActionDiscovery(object, scripts)
	if err != nil {
		return nil, fmt.Errorf("find the actions: %w", err)
	}
	return actions, nil
}

// act gives what an action makes of an object.
func act(vm lua.VM, object *unstructured.Unstructured, name string, parameters map[string]string) ([]lua.ImpactedResource, error) {
	action, err := vm.GetResourceAction(object, name)
	if err != nil {
		return nil, fmt.Errorf("find the action %s: %w", name, err)
	}
	var given []*applicationpkg.ResourceActionParameters
	for name, value := range parameters {
		given = append(given, &applicationpkg.ResourceActionParameters{Name: &name, Value: &value})
	}
	results, err := vm.ExecuteResourceAction(object, action.ActionLua, given)
	if err != nil {
		return nil, fmt.Errorf("run the action %s: %w", name, err)
	}
	return results, nil
}
