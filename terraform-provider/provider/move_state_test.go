package provider_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/breakwater-k8s/breakwater/terraform-provider/provider"
)

// The states are written by hand, according to the providers' schemas: kubernetes_manifest, version 1, as in hashicorp/kubernetes
// v2 and v3; kubectl_manifest, version 1, as in gavinbunney/kubectl v1 and alekc/kubectl v2 and v3.
func TestMoveStateFormats(t *testing.T) {
	const yaml = `apiVersion: breakwater.dev/v1alpha1\nkind: PodProtector\nmetadata: {name: web, labels: {team: shop}}\nspec: {selector: {}, minAvailable: 3}`
	const object = `{"apiVersion":"breakwater.dev/v1alpha1","kind":"PodProtector","metadata":{"namespace":"shop","name":"web",
		"labels":{"team":"shop","gone":null,"app.kubernetes.io/name":"web"},"annotations":null},"spec":{"selector":{"matchLabels":null},"minAvailable":"70%","targetRef":null}}`
	for claim, test := range map[string]struct {
		kind, state string
		want        map[string]string
		managers    []string
	}{
		"nulls and keys of kubernetes.io are ignored": {
			"kubernetes_manifest", `{"manifest":{"value":` + object + `,"type":["object",{}]},"object":{"value":{},"type":"dynamic"},"field_manager":[],"wait":[],"timeouts":[]}`,
			map[string]string{"id": "shop/web", "uid": "", "min_available": "70%", "labels": "app.kubernetes.io/name=web,team=shop", "criterion": "Available"}, []string{"Terraform"},
		},
		"what was imported and not applied has no manifest": {
			"kubernetes_manifest", `{"manifest":{"value":null,"type":["object",{}]},"object":{"value":` + object + `,"type":["object",{}]},"field_manager":null}`,
			map[string]string{"id": "shop/web", "uid": "", "min_available": "70%", "labels": "team=shop", "criterion": "Available"}, []string{"Terraform"},
		},
		"a field manager that is not named is the default one": {
			"kubernetes_manifest", `{"manifest":{"value":` + object + `},"field_manager":[{"name":null,"force_conflicts":true}]}`,
			map[string]string{"id": "shop/web", "uid": "", "min_available": "70%", "labels": "app.kubernetes.io/name=web,team=shop", "criterion": "Available"}, []string{"Terraform"},
		},
		"without a namespace it is in default": {
			"kubectl_manifest", `{"yaml_body":"` + yaml + `","uid":"u","namespace":null}`,
			map[string]string{"id": "default/web", "uid": "u", "min_available": "3", "labels": "team=shop", "criterion": "Available"}, []string{"HashiCorp"},
		},
		"another namespace than that of the manifest": {
			"kubectl_manifest", `{"yaml_body":"` + strings.Replace(yaml, "name: web", "name: web, namespace: other", 1) + `","uid":"u","override_namespace":"shop","field_manager":"mine"}`,
			map[string]string{"id": "shop/web", "uid": "u", "min_available": "3", "labels": "team=shop", "criterion": "Available"}, []string{"HashiCorp"},
		},
		"a field manager of its own": {
			"kubectl_manifest", `{"yaml_body":"` + yaml + `","uid":"u","server_side_apply":true,"field_manager":"mine"}`,
			map[string]string{"id": "default/web", "uid": "u", "min_available": "3", "labels": "team=shop", "criterion": "Available"}, []string{"HashiCorp", "mine"},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			answer, all := move(t, test.kind, test.state)
			if len(answer.Diagnostics) > 0 {
				t.Fatalf("%s: %s", answer.Diagnostics[0].Summary, answer.Diagnostics[0].Detail)
			}
			got := map[string]string{}
			for name := range test.want {
				got[name] = all[name]
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			private, managers := map[string][]byte{}, []string{}
			if err := json.Unmarshal(answer.TargetPrivate, &private); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(private["former-managers"], &managers); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.managers, managers); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMoveStateErrors(t *testing.T) {
	for claim, test := range map[string]struct{ kind, state, want string }{
		"nothing":            {"kubernetes_manifest", `{}`, "It contains no manifest with an apiVersion, a kind and a name."},
		"nulls":              {"kubernetes_manifest", `{"manifest":null,"object":null}`, "It contains no manifest with an apiVersion, a kind and a name."},
		"no name":            {"kubectl_manifest", `{"yaml_body":"apiVersion: v1\nkind: ConfigMap"}`, "It contains no manifest with an apiVersion, a kind and a name."},
		"no YAML":            {"kubectl_manifest", `{"yaml_body":"a: b: c"}`, "Yaml_body: "},
		"a spec that is not": {"kubectl_manifest", `{"yaml_body":"apiVersion: breakwater.dev/v1alpha1\nkind: PodProtector\nmetadata: {name: web}\nspec: [1]"}`, "Its spec is not an object"},
		"another kind":       {"kubectl_manifest", `{"yaml_body":"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}"}`, "is a ConfigMap of v1, and a breakwater_pod_protector is a PodProtector of breakwater.dev/v1alpha1"},
	} {
		t.Run(claim, func(t *testing.T) {
			answer, _ := move(t, test.kind, test.state)
			if len(answer.Diagnostics) != 1 || !strings.Contains(answer.Diagnostics[0].Detail, test.want) {
				t.Errorf("want %q, got %+v", test.want, answer.Diagnostics)
			}
		})
	}
}

// move calls the provider directly, without Terraform. It returns the attributes as text, and labels as a=b,c=d.
func move(t *testing.T, kind, state string) (*tfprotov6.MoveResourceStateResponse, map[string]string) {
	t.Helper()
	server := providerserver.NewProtocol6(provider.New("test")())()
	answer, err := server.MoveResourceState(t.Context(), &tfprotov6.MoveResourceStateRequest{
		SourceTypeName: kind, SourceSchemaVersion: 1, SourceState: &tfprotov6.RawState{JSON: []byte(state)}, TargetTypeName: "breakwater_pod_protector",
	})
	if err != nil {
		t.Fatal(err)
	}
	if answer.TargetState == nil {
		return answer, nil
	}
	schemas, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := answer.TargetState.Unmarshal(schemas.ResourceSchemas["breakwater_pod_protector"].ValueType())
	if err != nil {
		t.Fatal(err)
	}
	values, all := map[string]tftypes.Value{}, map[string]string{}
	if err := raw.As(&values); err != nil {
		t.Fatal(err)
	}
	for name, v := range values {
		all[name] = inText(v)
	}
	return answer, all
}

func inText(v tftypes.Value) string {
	var one string
	if v.IsNull() || v.As(&one) == nil {
		return one
	}
	var keys map[string]tftypes.Value
	if v.As(&keys) != nil {
		return v.String()
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		all = append(all, key+"="+inText(keys[key]))
	}
	return strings.Join(all, ",")
}
