package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/breakwater-k8s/breakwater/hack/release/archive"
	"github.com/breakwater-k8s/breakwater/hack/release/sums"
)

// Check checks a packaged chart: its version, what registries show of it, and that its schema describes the values.
func Check(file, name, version string) error {
	m, err := ReadMetadata(file)
	if err != nil {
		return err
	}
	var errs []error
	for key, want := range map[string]any{"name": name, "version": version, "appVersion": version} {
		if m[key] != want {
			errs = append(errs, fmt.Errorf("%s has the %s %v, want %v", file, key, m[key], want))
		}
	}
	for _, key := range []string{"description", "icon", "home", "sources", "maintainers", "keywords", "kubeVersion"} {
		if m[key] == nil {
			errs = append(errs, fmt.Errorf("%s has no %s", file, key))
		}
	}
	annotations, _ := m["annotations"].(map[string]any)
	wanted := []string{"artifacthub.io/license", "artifacthub.io/category", "artifacthub.io/links", changesAnnotation, imagesAnnotation}
	if name == CRDs {
		wanted[len(wanted)-1] = crdsAnnotation
	}
	for _, key := range wanted {
		if text, _ := annotations[key].(string); strings.TrimSpace(text) == "" || text == "null\n" {
			errs = append(errs, fmt.Errorf("%s has no annotation %s", file, key))
		}
	}
	return errors.Join(append(errs, checkSchema(file, name))...)
}

func checkSchema(file, name string) error {
	files, err := archive.Read(file)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(files, func(f archive.File) bool { return f.Name == name+"/values.schema.json" })
	if at < 0 {
		return fmt.Errorf("%s has no values.schema.json", file)
	}
	var schema struct {
		Properties map[string]struct {
			Description string `json:"description"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(files[at].Content, &schema); err != nil {
		return fmt.Errorf("%s: values.schema.json: %w", file, err)
	}
	var errs []error
	for property, content := range schema.Properties {
		if content.Description == "" {
			errs = append(errs, fmt.Errorf("%s: values.schema.json does not describe %s", file, property))
		}
	}
	return errors.Join(errs...)
}

// CheckArtifact checks that an OCI artifact has a packaged chart.
func CheckArtifact(a mutate.Appendable, file string) error {
	image, ok := a.(v1.Image)
	if !ok {
		return fmt.Errorf("the artifact of %s is an index", file)
	}
	manifest, err := image.Manifest()
	if err != nil {
		return err
	}
	sum, err := sums.Of(file)
	if err != nil {
		return err
	}
	if manifest.Config.MediaType != configType || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != contentType ||
		manifest.Layers[0].Digest.Hex != sum {
		return fmt.Errorf("the artifact of %s has another content: %+v", file, manifest)
	}
	return nil
}
