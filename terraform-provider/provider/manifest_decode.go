package provider

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// manifestDecode is a function that parses YAML into an object.
type manifestDecode struct {
	// multi accepts any number of documents and returns a tuple.
	multi bool
	kinds []*kind
}

// Metadata sets the name of the function.
func (f *manifestDecode) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "manifest_decode"
	if f.multi {
		resp.Name = "manifest_decode_multi"
	}
}

// Definition defines the parameters and the result.
func (f *manifestDecode) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Read a Kubernetes manifest",
		MarkdownDescription: "Parses YAML or JSON with one manifest, and returns it as an object with the field names of the manifest. No manifest is an " +
			"error, and so are several: use `manifest_decode_multi` for those. ",
		Parameters: []function.Parameter{function.StringParameter{Name: "text", MarkdownDescription: "The manifest, for example `file(\"web.yaml\")`."}},
		Return:     function.DynamicReturn{},
	}
	if f.multi {
		resp.Definition.Summary = "Read several Kubernetes manifests"
		resp.Definition.MarkdownDescription = "Parses YAML with any number of manifests, separated by lines of `---`, and returns a tuple of " +
			"objects in the same order, with the field names of the manifests. Empty documents are omitted. "
	}
	resp.Definition.MarkdownDescription += "A manifest has an `apiVersion` and a `kind`, no duplicate keys, and, if it is of Breakwater's API, no field " +
		"that its kind does not have and no null in its maps and lists; its values are parsed as kubectl parses them."
}

// Run parses the manifests.
func (f *manifestDecode) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var text string
	if resp.Error = req.Arguments.Get(ctx, &text); resp.Error != nil {
		return
	}
	manifests, err := f.parseManifests(ctx, text)
	switch {
	case err == nil && f.multi:
		of := make([]attr.Type, len(manifests))
		for i, m := range manifests {
			of[i] = m.Type(ctx)
		}
		resp.Error = resp.Result.Set(ctx, types.DynamicValue(types.TupleValueMust(of, manifests)))
		return
	case err == nil && len(manifests) == 1:
		resp.Error = resp.Result.Set(ctx, types.DynamicValue(manifests[0]))
		return
	case err == nil && len(manifests) == 0:
		err = errors.New("the text contains no manifest: it is empty, or has only comments")
	case err == nil:
		err = fmt.Errorf("the text contains %d manifests, want one: use manifest_decode_multi", len(manifests))
	}
	resp.Error = function.NewArgumentFuncError(0, sentence(err.Error()))
}

// parseManifests returns the documents of a text that are not empty.
func (f *manifestDecode) parseManifests(ctx context.Context, text string) ([]attr.Value, error) {
	var all []attr.Value
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		var read map[string]any
		if err == nil {
			read, err = parseDocument(document)
		}
		if err == nil {
			err = checkManifest(f.kinds, read)
		}
		if err == nil {
			err = checkElements(f.kinds, read)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d of the text: %w", number, err)
		}
		if read == nil {
			continue
		}
		manifest, err := fromPlain(ctx, read)
		if err != nil {
			return nil, fmt.Errorf("document %d of the text: %w", number, err)
		}
		all = append(all, manifest)
	}
}

// parseDocument parses one manifest. It returns nil for an empty document.
func parseDocument(document []byte) (map[string]any, error) {
	raw, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		why := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
		return nil, fmt.Errorf("it is not YAML: %s", strings.TrimPrefix(why, "yaml: "))
	}
	var read any
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber() // a float64 loses digits of large numbers
	if err := numbers.Decode(&read); err != nil {
		return nil, err
	}
	if read == nil {
		return nil, nil
	}
	manifest, ok := read.(map[string]any)
	if !ok {
		return nil, errors.New("it is not a manifest: a manifest is an object")
	}
	for _, name := range []string{"apiVersion", "kind"} {
		if s, _ := manifest[name].(string); s == "" {
			return nil, fmt.Errorf("it is not a manifest: it has no %s", name)
		}
	}
	return manifest, nil
}
