package connection

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// execVersions returns the ExecCredential versions that client-go supports.
func execVersions() []string {
	return []string{"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}
}

func (s *settings) validateExec() (all []*problem) {
	if !isSet(s.Exec) {
		return nil
	}
	said := s.Exec.Attributes()
	wrong := func(attribute, text string) {
		all = append(all, &problem{at: path.Root("exec").AtName(attribute), text: attribute + " of exec " + text})
	}
	versions := strings.Join(execVersions(), " or ")
	if version := said["api_version"]; !version.IsUnknown() && !slices.Contains(execVersions(), textOf(version)) {
		wrong("api_version", "must be "+versions+", the version that the command prints")
	}
	if command := said["command"]; !command.IsUnknown() && textOf(command) == "" {
		wrong("command", "is missing: set it to the program that prints an ExecCredential")
	}
	if arguments, _ := said["args"].(types.List); slices.ContainsFunc(arguments.Elements(), attr.Value.IsNull) {
		wrong("args", "contains null: remove it")
	}
	env, _ := said["env"].(types.Map)
	for name, v := range env.Elements() {
		if name == "" || v.IsNull() {
			wrong("env", "contains a variable without name or value: remove it")
			break
		}
	}
	return all
}

// execConfig returns the exec plugin; nil if there is none.
func (s *settings) execConfig() *clientcmdapi.ExecConfig {
	if s.Exec.IsNull() {
		return nil
	}
	said := s.Exec.Attributes()
	arguments, _ := said["args"].(types.List)
	config := &clientcmdapi.ExecConfig{
		APIVersion: textOf(said["api_version"]), Command: textOf(said["command"]), Args: elements(arguments),
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}
	env, _ := said["env"].(types.Map)
	variables := env.Elements()
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		config.Env = append(config.Env, clientcmdapi.ExecEnvVar{Name: name, Value: textOf(variables[name])})
	}
	return config
}

func textOf(v attr.Value) string {
	s, _ := v.(types.String)
	return s.ValueString()
}

func elements(list types.List) []string {
	var all []string
	for _, v := range list.Elements() {
		all = append(all, textOf(v))
	}
	return all
}
