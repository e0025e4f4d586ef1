package register

import (
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"
)

// admissionPlugin is an admission plugin of kube-apiserver that loads manifests.
type admissionPlugin struct {
	name   string
	folder string // holds its manifests: a plugin accepts only files with objects of its own kinds
	kind   string // of its configuration
}

func validatingWebhooks() admissionPlugin {
	return admissionPlugin{"ValidatingAdmissionWebhook", "validating-webhooks", "WebhookAdmissionConfiguration"}
}

func mutatingWebhooks() admissionPlugin {
	return admissionPlugin{"MutatingAdmissionWebhook", "mutating-webhooks", "WebhookAdmissionConfiguration"}
}

func validatingPolicies() admissionPlugin {
	return admissionPlugin{"ValidatingAdmissionPolicy", "validating-policies", "ValidatingAdmissionPolicyConfiguration"}
}

const (
	configurationVersion       = "apiserver.config.k8s.io/v1"
	legacyConfigurationVersion = "apiserver.k8s.io/v1alpha1" // kube-apiserver decodes it as well
	configurationKind          = "AdmissionConfiguration"
	// manifestsField has the same name in the configurations of all plugins.
	manifestsField = "staticManifestsDir"
)

// admissionConfiguration is the file that kube-apiserver reads by --admission-control-config-file. The configurations
// of plugins are maps, so that settings of other versions are kept.
type admissionConfiguration struct {
	APIVersion string                `json:"apiVersion"`
	Kind       string                `json:"kind"`
	Plugins    []pluginConfiguration `json:"plugins"`
}

type pluginConfiguration struct {
	Name          string         `json:"name"`
	Path          string         `json:"path,omitempty"`
	Configuration map[string]any `json:"configuration,omitempty"`
}

func readAdmissionConfiguration(existing []byte) (*admissionConfiguration, error) {
	if len(existing) == 0 {
		return &admissionConfiguration{APIVersion: configurationVersion, Kind: configurationKind}, nil
	}
	configuration := &admissionConfiguration{}
	if err := yaml.UnmarshalStrict(existing, configuration); err != nil {
		return nil, fmt.Errorf("%s: %w", StaticConfigurationFile, err)
	}
	version := configuration.APIVersion
	if configuration.Kind != configurationKind || version != configurationVersion && version != legacyConfigurationVersion {
		return nil, fmt.Errorf("%s: kind %q of apiVersion %q, want %s of %s: remove the file, correct it, or set --static to another folder",
			StaticConfigurationFile, configuration.Kind, version, configurationKind, configurationVersion)
	}
	return configuration, nil
}

// setManifests configures a plugin to read manifests from a directory.
func (c *admissionConfiguration) setManifests(plugin admissionPlugin, directory string) error {
	at := slices.IndexFunc(c.Plugins, func(p pluginConfiguration) bool { return p.Name == plugin.name })
	if at < 0 {
		at, c.Plugins = len(c.Plugins), append(c.Plugins, pluginConfiguration{Name: plugin.name})
	}
	configured := &c.Plugins[at]
	if configured.Path != "" {
		return fmt.Errorf("%s: plugin %s is configured by file %s: move its content into %s",
			StaticConfigurationFile, plugin.name, configured.Path, StaticConfigurationFile)
	}
	if len(configured.Configuration) == 0 { // a configuration without apiVersion and kind cannot be decoded
		configured.Configuration = map[string]any{"apiVersion": configurationVersion, "kind": plugin.kind}
	}
	if other, ok := configured.Configuration[manifestsField]; ok && other != directory {
		return fmt.Errorf("%s: plugin %s already reads manifests from %v, not from %s, and can read one directory only: give the same --static-path as before, or move "+
			"those manifests and remove %s", StaticConfigurationFile, plugin.name, other, directory, manifestsField)
	}
	configured.Configuration[manifestsField] = directory
	return nil
}
