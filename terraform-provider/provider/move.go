package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// formerKey is where the private state keeps the managers by which another provider had applied an object that was moved here.
// What is in conflict with them alone is taken over.
const formerKey = "former-managers"

// MoveState takes over objects from kubernetes_manifest and kubectl_manifest, by moved blocks.
func (o *object) MoveState(context.Context) []resource.StateMover {
	return []resource.StateMover{{StateMover: o.move}}
}

func (o *object) move(ctx context.Context, req resource.MoveStateRequest, resp *resource.MoveStateResponse) {
	read, ok := map[string]func([]byte) (*moved, error){"kubernetes_manifest": readManifest, "kubectl_manifest": readKubectl}[req.SourceTypeName]
	if !ok || req.SourceRawState == nil {
		return
	}
	from, err := read(req.SourceRawState.JSON)
	if err != nil {
		resp.Diagnostics.AddError("The state of a "+req.SourceTypeName+" could not be read", err.Error())
		return
	}
	if from.object.GroupVersionKind().GroupKind() != o.kind.Kind.GroupKind() {
		resp.Diagnostics.AddError(fmt.Sprintf("A %s cannot become a breakwater_%s", from.object.GetKind(), o.kind.name),
			fmt.Sprintf("It is of apiVersion %s; this resource is of %s.", from.object.GetAPIVersion(), o.kind.Kind.GroupVersion()))
		return
	}
	nothing, err := blank(resp.TargetState.Schema.Type().TerraformType(ctx))
	if err != nil {
		resp.Diagnostics.AddError("The provider is broken", err.Error())
		return
	}
	state, err := o.kind.shown(nothing, from.object)
	if err != nil {
		resp.Diagnostics.AddError("The state of a "+req.SourceTypeName+" could not be read", err.Error())
		return
	}
	if from.object.GetUID() == "" {
		all, _ := attributes(state)
		all["uid"] = tftypes.NewValue(tftypes.String, nil)
		state = tftypes.NewValue(state.Type(), all)
	}
	resp.TargetState.Raw = state
	if resp.TargetIdentity != nil {
		o.identity(ctx, resp.TargetIdentity, &wanted{namespace: from.object.GetNamespace(), name: from.object.GetName()}, &resp.Diagnostics)
	}
	former, _ := json.Marshal(from.managers)
	resp.Diagnostics.Append(resp.TargetPrivate.SetKey(ctx, formerKey, former)...)
}

// blank is a resource with nothing in it.
func blank(t tftypes.Type) (tftypes.Value, error) {
	o, ok := t.(tftypes.Object)
	if !ok {
		return tftypes.Value{}, fmt.Errorf("a resource is %s", t)
	}
	all := make(map[string]tftypes.Value, len(o.AttributeTypes))
	for name, of := range o.AttributeTypes {
		all[name] = tftypes.NewValue(of, nil)
	}
	return tftypes.NewValue(t, all), nil
}

// moved is an object in the state of another provider, and by which managers that has applied it.
type moved struct {
	object   *unstructured.Unstructured
	managers []string
}

// readManifest reads the state of a kubernetes_manifest of hashicorp/kubernetes. Its manifest has a type that only the state knows.
func readManifest(raw []byte) (*moved, error) {
	state := struct {
		Manifest struct {
			Value map[string]any `json:"value"`
		} `json:"manifest"`
		Object struct {
			Value map[string]any `json:"value"`
		} `json:"object"`
		FieldManager []struct {
			Name string `json:"name"`
		} `json:"field_manager"`
	}{}
	if err := json.Unmarshal(raw, &state); err != nil {
		return nil, err
	}
	m := &moved{object: &unstructured.Unstructured{Object: state.Manifest.Value}, managers: []string{"Terraform"}}
	for _, f := range state.FieldManager {
		m.managers = append(m.managers, f.Name)
	}
	return m, m.check()
}

// readKubectl reads the state of a kubectl_manifest of gavinbunney/kubectl, or of one of its forks.
func readKubectl(raw []byte) (*moved, error) {
	state := struct {
		YAMLBody     string `json:"yaml_body"`
		FieldManager string `json:"field_manager"`
		Namespace    string `json:"namespace"`
	}{}
	if err := json.Unmarshal(raw, &state); err != nil {
		return nil, err
	}
	m := &moved{object: &unstructured.Unstructured{}, managers: []string{"kubectl", "kubectl-client-side-apply", "HashiCorp"}}
	if err := yaml.Unmarshal([]byte(state.YAMLBody), &m.object.Object); err != nil {
		return nil, fmt.Errorf("yaml_body: %w", err)
	}
	if m.object.GetNamespace() == "" && state.Namespace != "" {
		m.object.SetNamespace(state.Namespace)
	}
	if state.FieldManager != "" {
		m.managers = append(m.managers, state.FieldManager)
	}
	return m, m.check()
}

func (m *moved) check() error {
	if m.object.Object == nil || m.object.GetName() == "" || !strings.Contains(m.object.GetAPIVersion(), "/") {
		return fmt.Errorf("it holds no manifest with a name and an apiVersion")
	}
	return nil
}
