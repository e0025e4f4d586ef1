// Package chart packages the Helm charts of a release, with what registries and editors read: descriptions of the values, and annotations for
// Artifact Hub.
package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"
)

// CRDs is the chart of the CustomResourceDefinitions.
const CRDs = "breakwater-crds"

// Names returns the charts of a release, in the order of their installation.
func Names() []string { return []string{CRDs, "breakwater"} }

// File returns the file name of a packaged chart.
func File(name, version string) string { return name + "-" + version + ".tgz" }

// Version returns the version that all charts in a folder have, which is the version of Breakwater.
func Version(folder string) (string, error) {
	version := ""
	for _, name := range Names() {
		var m struct{ Version, AppVersion string }
		raw, err := os.ReadFile(filepath.Join(folder, name, "Chart.yaml"))
		if err == nil {
			err = yaml.Unmarshal(raw, &m)
		}
		if err != nil {
			return "", fmt.Errorf("chart %s: %w", name, err)
		}
		if version == "" {
			version = m.Version
		}
		if m.Version != version || m.AppVersion != version {
			return "", fmt.Errorf("chart %s has version %s and appVersion %s, want %s, as other charts", name, m.Version, m.AppVersion, version)
		}
	}
	return version, nil
}

// Packager packages charts.
type Packager struct {
	// Helm is the path of the program.
	Helm string
	// Version is the version of the charts and of Breakwater.
	Version string
	// Image is the full name of the image, with a tag.
	Image string
	// At is the modification time of all files.
	At time.Time
	// Notes are the release notes, a section of the changelog.
	Notes string
}

// Package packages a chart into a folder.
func (p Packager) Package(ctx context.Context, source, out string) error {
	parent, err := os.MkdirTemp("", "breakwater-chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(parent)
	folder := filepath.Join(parent, filepath.Base(source))
	if err := os.CopyFS(folder, os.DirFS(source)); err != nil {
		return err
	}
	if err := p.prepare(folder); err != nil {
		return fmt.Errorf("chart %s: %w", source, err)
	}
	command := exec.CommandContext(ctx, p.Helm, "package", folder, "--destination", out, "--version", p.Version, "--app-version", p.Version)
	command.Env = append(os.Environ(), "HELM_CONFIG_HOME="+parent, "HELM_CACHE_HOME="+parent, "HELM_DATA_HOME="+parent)
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("helm package %s: %w\n%s", source, err, text)
	}
	return nil
}

// prepare changes a copy of a chart.
func (p Packager) prepare(folder string) error {
	for file, change := range map[string]func([]byte) ([]byte, error){
		"Chart.yaml": func(raw []byte) ([]byte, error) { return p.annotate(raw, folder) },
		"README.md":  func(raw []byte) ([]byte, error) { return absoluteLinks(raw, p.Version), nil },
		"values.schema.json": func(schema []byte) ([]byte, error) {
			values, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
			if err != nil {
				return nil, err
			}
			return describe(schema, values)
		},
	} {
		path := filepath.Join(folder, file)
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if raw, err = change(raw); err != nil {
			return err
		}
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			return err
		}
	}
	// Helm writes the modification times into the archive.
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, p.At, p.At))
	})
}

// absoluteLinks replaces links to pages beside the chart, which do not exist where a registry shows its README.
func absoluteLinks(readme []byte, version string) []byte {
	return bytes.ReplaceAll(readme, []byte("](../../"), []byte("](https://github.com/breakwater-k8s/breakwater/blob/v"+version+"/"))
}
