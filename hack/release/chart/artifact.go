package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/hack/release/archive"
)

// The media types of Helm, https://helm.sh/docs/topics/registries/.
const (
	configType  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	contentType types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// artifact is a packaged chart as an OCI artifact.
type artifact struct {
	config, manifest []byte
	content          v1.Layer
}

// Artifact reads a packaged chart as helm push would push it, except that it was created at the given time.
func Artifact(file string, at time.Time) (v1.Image, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	metadata, err := ReadMetadata(file)
	if err != nil {
		return nil, err
	}
	a := artifact{content: static.NewLayer(raw, contentType)}
	if a.config, err = json.Marshal(metadata); err != nil {
		return nil, err
	}
	text := func(key string) string { value, _ := metadata[key].(string); return value }
	config, layer := static.NewLayer(a.config, configType), a.content
	descriptors := make([]v1.Descriptor, 0, 2)
	for _, blob := range []v1.Layer{config, layer} {
		descriptor, err := partial.Descriptor(blob)
		if err != nil {
			return nil, err
		}
		descriptors = append(descriptors, *descriptor)
	}
	a.manifest, err = json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: descriptors[0], Layers: descriptors[1:],
		Annotations: map[string]string{
			"org.opencontainers.image.title": text("name"), "org.opencontainers.image.version": text("version"),
			"org.opencontainers.image.description": text("description"), "org.opencontainers.image.url": text("home"),
			"org.opencontainers.image.source":  "https://github.com/breakwater-k8s/breakwater",
			"org.opencontainers.image.created": at.Format(time.RFC3339),
		},
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(a)
}

// RawConfigFile implements partial.CompressedImageCore.
func (a artifact) RawConfigFile() ([]byte, error) { return a.config, nil }

// MediaType implements partial.CompressedImageCore.
func (a artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest implements partial.CompressedImageCore.
func (a artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (a artifact) LayerByDigest(digest v1.Hash) (partial.CompressedLayer, error) {
	if own, err := a.content.Digest(); err != nil || own != digest {
		return nil, errors.Join(err, fmt.Errorf("a chart has no layer %s", digest))
	}
	return a.content, nil
}

// ReadMetadata returns the Chart.yaml of a packaged chart.
func ReadMetadata(file string) (map[string]any, error) {
	files, err := archive.Read(file)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if path.Base(f.Name) == "Chart.yaml" && strings.Count(f.Name, "/") == 1 {
			var metadata map[string]any
			return metadata, yaml.Unmarshal(f.Content, &metadata)
		}
	}
	return nil, fmt.Errorf("%s has no Chart.yaml", file)
}
