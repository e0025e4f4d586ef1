// Package provider packs the Terraform provider as registries of providers read it: a zip for each platform, the manifest with the version of the
// protocol, and the checksums of these files with a detached signature.
package provider

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/breakwater-k8s/breakwater/hack/release/archive"
	"github.com/breakwater-k8s/breakwater/hack/release/build"
)

const (
	// Program is the name of the program that the package in Source compiles to.
	Program = "terraform-provider"
	// Source is the folder of the package.
	Source = "terraform-provider"
	// Name is the name of the provider in file names.
	Name = "terraform-provider-breakwater"
)

// Zip returns the file name of the archive for a platform.
func Zip(version string, p build.Platform) string {
	return fmt.Sprintf("%s_%s_%s_%s.zip", Name, version, p.OS, p.Arch)
}

// Executable returns the file name of the program in the archive.
func Executable(version string, p build.Platform) string {
	return p.Executable(Name + "_v" + version)
}

// Manifest returns the file name of the manifest.
func Manifest(version string) string { return Name + "_" + version + "_manifest.json" }

// Sums returns the file name of the checksums.
func Sums(version string) string { return Name + "_" + version + "_SHA256SUMS" }

// Pack writes the archive for a platform.
func Pack(folder, version string, p build.Platform, program, license []byte, at time.Time) error {
	packed, err := archive.Zip(at, archive.File{Name: "LICENSE", Mode: 0o644, Content: license},
		archive.File{Name: Executable(version, p), Mode: 0o755, Content: program})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, Zip(version, p)), packed, 0o644)
}

// WriteManifest copies the manifest.
func WriteManifest(folder, version string) error {
	raw, err := os.ReadFile(filepath.Join(Source, "terraform-registry-manifest.json"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, Manifest(version)), raw, 0o644)
}

// CheckManifest checks that a manifest names the protocol that the provider serves, version 6.
func CheckManifest(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var m struct {
		Version  int `json:"version"`
		Metadata struct {
			Protocols []string `json:"protocol_versions"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if m.Version != 1 || !slices.Equal(m.Metadata.Protocols, []string{"6.0"}) {
		return fmt.Errorf("%s has version %d and protocols %v, want 1 and 6.0", file, m.Version, m.Metadata.Protocols)
	}
	return nil
}
