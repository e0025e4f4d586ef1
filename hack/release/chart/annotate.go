package chart

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// The annotations of Artifact Hub that a release computes, https://artifacthub.io/docs/topics/annotations/helm/.
const (
	changesAnnotation = "artifacthub.io/changes"
	crdsAnnotation    = "artifacthub.io/crds"
	imagesAnnotation  = "artifacthub.io/images"
)

// annotate adds annotations to a Chart.yaml: the changes of the release, and the images or the CRDs of the chart.
func (p Packager) annotate(raw []byte, folder string) ([]byte, error) {
	var chart map[string]any
	if err := yaml.Unmarshal(raw, &chart); err != nil {
		return nil, err
	}
	annotations, ok := chart["annotations"].(map[string]any)
	if !ok {
		return nil, errors.New("no annotations in Chart.yaml")
	}
	added := map[string]any{changesAnnotation: changes(p.Notes)}
	if chart["name"] == CRDs {
		definitions, err := definitionsOf(folder)
		if err != nil {
			return nil, err
		}
		added[crdsAnnotation] = definitions
	} else {
		added[imagesAnnotation] = []map[string]any{{"name": "breakwater", "image": p.Image, "platforms": []string{"linux/amd64", "linux/arm64"}}}
	}
	for key, value := range added {
		text, err := yaml.Marshal(value)
		if err != nil {
			return nil, err
		}
		annotations[key] = string(text)
	}
	return yaml.Marshal(chart)
}

// changes returns the entries of a section of the changelog, each by its first sentence.
func changes(notes string) (all []map[string]string) {
	sentence := regexp.MustCompile(`^(?:\*\*\w+\*\*: )?(.+?)(\.\s|\.?$)`)
	kind := "changed"
	for block := range strings.SplitSeq("\n"+notes, "\n- ") {
		text, rest, _ := strings.Cut(block, "\n### ")
		if found := sentence.FindStringSubmatch(strings.Join(strings.Fields(text), " ")); found != nil && block[0] != '\n' {
			all = append(all, map[string]string{"kind": kind, "description": strings.ReplaceAll(found[1], "**", "")})
		}
		if rest != "" {
			title, _, _ := strings.Cut(rest, "\n")
			kind = strings.ToLower(strings.TrimSpace(title))
		}
	}
	return all
}

// definitionsOf describes the CustomResourceDefinitions of a chart.
func definitionsOf(folder string) (all []map[string]string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "files", "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &definition); err != nil {
			return nil, err
		}
		for _, version := range definition.Spec.Versions {
			description, _, _ := strings.Cut(version.Schema.OpenAPIV3Schema.Description, "\n")
			all = append(all, map[string]string{
				"kind": definition.Spec.Names.Kind, "name": definition.Name, "version": version.Name, "displayName": definition.Spec.Names.Kind, "description": description,
			})
		}
	}
	return all, nil
}
