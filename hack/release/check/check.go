// Package check verifies that a folder is a complete release.
package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/ProtonMail/go-crypto/openpgp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/breakwater-k8s/breakwater/hack/release/archive"
	"github.com/breakwater-k8s/breakwater/hack/release/build"
	"github.com/breakwater-k8s/breakwater/hack/release/chart"
	"github.com/breakwater-k8s/breakwater/hack/release/image"
	"github.com/breakwater-k8s/breakwater/hack/release/plugin"
	"github.com/breakwater-k8s/breakwater/hack/release/provider"
	"github.com/breakwater-k8s/breakwater/hack/release/registry"
	"github.com/breakwater-k8s/breakwater/hack/release/sums"
)

// CosignBundle is the file with cosign's signature of the checksums.
const CosignBundle = sums.File + ".sigstore.json"

// Expected is what a release must have.
type Expected struct {
	// Version is the version, without a v. Image is the full name of the image, with a tag.
	Version, Image                                     string
	ImagePlatforms, PluginPlatforms, ProviderPlatforms []build.Platform
	// Helm and Krew are the paths of Helm and of the validator of krew. If Krew is empty, the manifest is not validated.
	Helm, Krew string
	// Key signed the checksums, unless it is nil.
	Key *openpgp.Entity
	// Cosign requires a signature of the checksums by cosign.
	Cosign bool
}

// Release returns all that is missing or wrong in a folder. Helm and krew check only files that are complete.
func Release(ctx context.Context, folder string, want Expected) error {
	c := checker{Expected: want, folder: folder}
	if err := c.sums(); err != nil {
		return err
	}
	if err := errors.Join(c.notes(), c.provenance(), c.charts(), c.plugin(), c.provider(), c.sboms(), c.image()); err != nil {
		return err
	}
	return errors.Join(c.lint(ctx), c.validateKrew(ctx))
}

type checker struct {
	Expected
	folder string
}

func (c checker) path(parts ...string) string {
	return filepath.Join(append([]string{c.folder}, parts...)...)
}

func (c checker) sums() error {
	names, err := sums.Files(c.folder)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, sums.File) })
	err = errors.Join(sums.Verify(c.folder, sums.File, names), c.signature(sums.File))
	if c.Cosign {
		_, missing := os.Stat(c.path(CosignBundle))
		err = errors.Join(err, missing)
	}
	return err
}

// signature checks the signature of a file, if there is a key.
func (c checker) signature(file string) error {
	if c.Key == nil {
		return nil
	}
	signed, err := os.Open(c.path(file))
	if err != nil {
		return err
	}
	defer signed.Close()
	signature, err := os.Open(c.path(file + ".sig"))
	if err != nil {
		return err
	}
	defer signature.Close()
	if _, err := openpgp.CheckDetachedSignature(openpgp.EntityList{c.Key}, signed, signature, nil); err != nil {
		return fmt.Errorf("%s.sig: %w", file, err)
	}
	return nil
}

func (c checker) notes() error {
	raw, err := os.ReadFile(c.path("RELEASE_NOTES.md"))
	if err == nil && len(strings.TrimSpace(string(raw))) == 0 {
		err = errors.New("RELEASE_NOTES.md is empty")
	}
	return err
}

func (c checker) image() error {
	folder, err := os.MkdirTemp("", "breakwater-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	all, err := registry.ReadArchive(c.path("image.tar"), folder)
	if err != nil {
		return err
	}
	if len(all) != 1 || all[0].Name != c.Image {
		return fmt.Errorf("image.tar has %d images, want one with the name %s", len(all), c.Image)
	}
	index, ok := all[0].Appendable.(v1.ImageIndex)
	if !ok {
		return errors.New("image.tar has no index of platforms")
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	var got []build.Platform
	for _, m := range manifest.Manifests {
		got = append(got, build.Platform{OS: m.Platform.OS, Arch: m.Platform.Architecture})
	}
	if !slices.Equal(got, c.ImagePlatforms) {
		return fmt.Errorf("image.tar is for %v, want %v", got, c.ImagePlatforms)
	}
	return validate.Index(index, validate.Fast) // the checksum of the archive covers the layers
}

func (c checker) charts() error {
	folder, err := os.MkdirTemp("", "breakwater-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	artifacts, err := registry.ReadArchive(c.path("charts", "oci.tar"), folder)
	if err != nil {
		return err
	}
	var errs []error
	for i, name := range chart.Names() {
		file := c.path("charts", chart.File(name, c.Version))
		if err := chart.Check(file, name, c.Version); err != nil {
			errs = append(errs, err)
			continue
		}
		if i >= len(artifacts) || !strings.HasSuffix(artifacts[i].Name, "/"+name+":"+c.Version) {
			errs = append(errs, fmt.Errorf("charts/oci.tar does not have the chart %s", name))
			continue
		}
		errs = append(errs, chart.CheckArtifact(artifacts[i].Appendable, file))
	}
	return errors.Join(errs...)
}

func (c checker) plugin() error {
	var errs []error
	for _, p := range c.PluginPlatforms {
		errs = append(errs, expectFiles(c.path("plugin", plugin.Archive("v"+c.Version, p)), p.Executable(plugin.Program), "LICENSE"))
	}
	errs = append(errs, plugin.CheckManifest(c.path("plugin"), "v"+c.Version, c.PluginPlatforms))
	return errors.Join(errs...)
}

func (c checker) lint(ctx context.Context) error {
	var errs []error
	for _, name := range chart.Names() {
		arguments := []string{"lint", "--strict", c.path("charts", chart.File(name, c.Version))}
		if name != chart.CRDs {
			arguments = append(arguments, "--set", "cells[0].name=local") // the only value without which there is no installation
		}
		if out, err := exec.CommandContext(ctx, c.Helm, arguments...).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("helm lint of chart %s: %w\n%s", name, err, out))
		}
	}
	return errors.Join(errs...)
}

func (c checker) validateKrew(ctx context.Context) error {
	if c.Krew == "" {
		return nil
	}
	out, err := exec.CommandContext(ctx, c.Krew, "-manifest", c.path("plugin", plugin.ManifestFile), "-skip-install").CombinedOutput()
	if err != nil {
		return fmt.Errorf("krew rejects its manifest: %w\n%s", err, out)
	}
	return nil
}

func (c checker) provider() error {
	names := []string{provider.Manifest(c.Version)}
	errs := []error{provider.CheckManifest(c.path("terraform", names[0]))}
	for _, p := range c.ProviderPlatforms {
		name := provider.Zip(c.Version, p)
		names = append(names, name)
		errs = append(errs, expectFiles(c.path("terraform", name), provider.Executable(c.Version, p), "LICENSE"))
	}
	file := provider.Sums(c.Version)
	return errors.Join(append(errs, sums.Verify(c.path("terraform"), file, names), c.signature("terraform/"+file))...)
}

// expectFiles checks that an archive has exactly these files, and that the first one is an executable.
func expectFiles(path string, names ...string) error {
	files, err := archive.Read(path)
	if err != nil {
		return err
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Name)
		if f.Name == names[0] && (f.Mode&0o111 == 0 || len(f.Content) == 0) {
			return fmt.Errorf("%s: %s is not an executable", path, f.Name)
		}
	}
	if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(names))) {
		return fmt.Errorf("%s has the files %q, want %q", path, got, names)
	}
	return nil
}

func (c checker) sboms() error {
	var errs []error
	for program, platforms := range map[string][]build.Platform{
		image.Main: c.ImagePlatforms, image.Node: c.ImagePlatforms, plugin.Program: c.PluginPlatforms, provider.Name: c.ProviderPlatforms,
	} {
		for _, p := range platforms {
			errs = append(errs, checkSBOM(c.path("sbom", fmt.Sprintf("%s_%s_%s.cdx.json", program, p.OS, p.Arch))))
		}
	}
	return errors.Join(errs...)
}

func checkSBOM(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var document cdx.BOM
	if err := cdx.NewBOMDecoder(file, cdx.BOMFileFormatJSON).Decode(&document); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var modules []string
	if document.Components != nil {
		for _, c := range *document.Components {
			modules = append(modules, c.Name)
		}
	}
	for _, module := range []string{"std", "k8s.io/apimachinery"} { // all programs have these
		if !slices.Contains(modules, module) {
			return fmt.Errorf("%s lists the modules %q, want it to contain %s", path, modules, module)
		}
	}
	return nil
}
