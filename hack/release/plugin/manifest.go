// Package plugin packs kubectl breakwater, and writes its manifest for krew.
package plugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/hack/release/archive"
	"github.com/breakwater-k8s/breakwater/hack/release/build"
	"github.com/breakwater-k8s/breakwater/hack/release/sums"
)

// ManifestFile is the name of the manifest, which the address of the latest release ends with.
const ManifestFile = "breakwater.yaml"

// Program is the name of the program, without the suffix of an operating system.
const Program = "kubectl-breakwater"

// Archive returns the file name of the archive for a platform.
func Archive(version string, p build.Platform) string {
	end := ".tar.gz"
	if p.OS == "windows" {
		end = ".zip"
	}
	return fmt.Sprintf("%s_%s_%s_%s%s", Program, version, p.OS, p.Arch, end)
}

// Pack writes the archive for a platform.
func Pack(folder, version string, p build.Platform, program, license []byte, at time.Time) error {
	pack := archive.TarGzip
	if p.OS == "windows" {
		pack = archive.Zip
	}
	packed, err := pack(at, archive.File{Name: p.Executable(Program), Mode: 0o755, Content: program}, archive.File{Name: "LICENSE", Mode: 0o644, Content: license})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, Archive(version, p)), packed, 0o644)
}

// WriteManifest writes the manifest for the archives in a folder, which users download from base.
func WriteManifest(folder, version, base string, platforms []build.Platform) error {
	m := newManifest(version)
	for _, p := range platforms {
		name := Archive(version, p)
		sum, err := sums.Of(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		m.Spec.Platforms = append(m.Spec.Platforms, platform{
			Selector: selector{map[string]string{"os": p.OS, "arch": p.Arch}}, URI: base + "/" + name, SHA256: sum,
			Bin: p.Executable(Program), Files: []file{{p.Executable(Program), "."}, {"LICENSE", "."}},
		})
	}
	text, err := yaml.Marshal(m)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, ManifestFile), text, 0o644)
}

// CheckManifest checks that the manifest of a folder has each archive with its checksum.
func CheckManifest(folder, version string, platforms []build.Platform) error {
	raw, err := os.ReadFile(filepath.Join(folder, ManifestFile))
	if err != nil {
		return err
	}
	var m manifest
	if err := yaml.UnmarshalStrict(raw, &m); err != nil {
		return fmt.Errorf("%s: %w", ManifestFile, err)
	}
	if m.Spec.Version != version || len(m.Spec.Platforms) != len(platforms) {
		return fmt.Errorf("%s has version %s and %d platforms, want %s and %d", ManifestFile, m.Spec.Version, len(m.Spec.Platforms), version, len(platforms))
	}
	for i, p := range platforms {
		sum, err := sums.Of(filepath.Join(folder, Archive(version, p)))
		if err != nil {
			return err
		}
		if got := m.Spec.Platforms[i]; got.SHA256 != sum || !strings.HasSuffix(got.URI, "/"+Archive(version, p)) {
			return fmt.Errorf("%s has %s with the checksum %s, want %s of %s", ManifestFile, got.URI, got.SHA256, sum, Archive(version, p))
		}
	}
	return nil
}

// manifest is a Plugin of krew, of krew.googlecontainertools.github.com/v1alpha2.
type manifest struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       spec     `json:"spec"`
}

type metadata struct {
	Name string `json:"name"`
}

type spec struct {
	Version          string     `json:"version"`
	Homepage         string     `json:"homepage"`
	ShortDescription string     `json:"shortDescription"`
	Description      string     `json:"description"`
	Caveats          string     `json:"caveats"`
	Platforms        []platform `json:"platforms"`
}

type platform struct {
	Selector selector `json:"selector"`
	URI      string   `json:"uri"`
	SHA256   string   `json:"sha256"`
	Bin      string   `json:"bin"`
	Files    []file   `json:"files"`
}

type selector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

type file struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func newManifest(version string) manifest {
	m := manifest{APIVersion: "krew.googlecontainertools.github.com/v1alpha2", Kind: "Plugin", Metadata: metadata{"breakwater"}}
	m.Spec = spec{
		Version: version, Homepage: "https://github.com/breakwater-k8s/breakwater",
		ShortDescription: "Show what Breakwater protects and denies, and why",
		Description: `Breakwater keeps enough pods available through deletion storms. This plugin tells the
engineer on call what it protects and refuses, whether that is right, and what to do:
status, cells, denials, watch and more.`,
		Caveats: `Protectors are read from the core cluster: the current context, or --core-context.
Completion: link kubectl_complete-breakwater to kubectl-breakwater somewhere in PATH.`,
	}
	return m
}
