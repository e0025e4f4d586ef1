package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"sigs.k8s.io/yaml"
)

// manifestEncode is a function that encodes an object as YAML.
type manifestEncode struct {
	kinds []*kind
}

// Metadata sets the name of the function.
func (manifestEncode) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "manifest_encode"
}

// Definition defines the parameters and the result.
func (manifestEncode) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Write a Kubernetes manifest",
		MarkdownDescription: "Returns an object as YAML, or a list of objects as YAML documents separated by lines of `---`. Keys are in alphabetical " +
			"order, so that equal objects give equal texts; attributes that are `null` are omitted. A field that a kind of Breakwater's API " +
			"does not have is an error, and so is `null` in its maps and lists. `manifest_decode` and `manifest_decode_multi` parse the result.",
		Parameters: []function.Parameter{function.DynamicParameter{Name: "manifest",
			MarkdownDescription: "An object, or a list of objects, with the field names of the manifest."}},
		Return: function.StringReturn{},
	}
}

// Run encodes the manifest.
func (m manifestEncode) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var given types.Dynamic
	if resp.Error = req.Arguments.Get(ctx, &given); resp.Error != nil {
		return
	}
	text, err := m.encodeManifest(ctx, given)
	if err != nil {
		resp.Error = function.NewArgumentFuncError(0, sentence(err.Error()))
		return
	}
	resp.Error = resp.Result.Set(ctx, text)
}

func (m manifestEncode) encodeManifest(ctx context.Context, given types.Dynamic) (string, error) {
	value, err := given.ToTerraformValue(ctx)
	if err != nil {
		return "", err
	}
	read, err := plain(value)
	if err != nil {
		return "", err
	}
	manifests, several := read.([]any)
	if !several {
		manifests = []any{read}
	}
	texts := make([]string, len(manifests))
	for i, one := range manifests {
		object, ok := one.(map[string]any)
		if !ok {
			return "", errors.New("a manifest must be an object, or a list of objects")
		}
		if err := checkElements(m.kinds, object); err != nil {
			return "", err
		}
		omitNulls(object)
		if err := checkManifest(m.kinds, object); err != nil {
			return "", err
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			return "", fmt.Errorf("it cannot be written as YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		texts[i] = string(text)
	}
	return strings.Join(texts, "---\n"), nil
}

// omitNulls removes the attributes that are null from all objects of a manifest.
func omitNulls(manifest any) {
	switch v := manifest.(type) {
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, attribute any) bool { return attribute == nil })
		for _, attribute := range v {
			omitNulls(attribute)
		}
	case []any:
		for _, element := range v {
			omitNulls(element)
		}
	}
}
