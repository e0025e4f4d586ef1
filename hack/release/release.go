package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"

	"github.com/breakwater-k8s/breakwater/hack/release/build"
	"github.com/breakwater-k8s/breakwater/hack/release/chart"
	"github.com/breakwater-k8s/breakwater/hack/release/image"
	"github.com/breakwater-k8s/breakwater/hack/release/plugin"
	"github.com/breakwater-k8s/breakwater/hack/release/provider"
	"github.com/breakwater-k8s/breakwater/hack/release/registry"
	"github.com/breakwater-k8s/breakwater/hack/release/sums"
)

// download is the address of a release's files.
const download = "https://github.com/breakwater-k8s/breakwater/releases/download/v"

// release is a release that is built.
type release struct {
	options
	out io.Writer
	// version is the version of the release, charts that of the charts in the tree.
	version, charts string
	at              time.Time
	key             *openpgp.Entity // nil: no signature

	imagePlatforms, pluginPlatforms, providerPlatforms []build.Platform
	// images has the image of each platform that was built.
	images []image.Platform
}

// selectPlatforms sets the platforms of each part: all of them, or those of a list.
func (r *release) selectPlatforms(list string) error {
	r.imagePlatforms = []build.Platform{{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}}
	r.pluginPlatforms = append(slices.Clone(r.imagePlatforms), build.Platform{OS: "darwin", Arch: "amd64"}, build.Platform{OS: "darwin", Arch: "arm64"},
		build.Platform{OS: "windows", Arch: "amd64"}, build.Platform{OS: "windows", Arch: "arm64"})
	r.providerPlatforms = append(slices.Clone(r.pluginPlatforms), build.Platform{OS: "linux", Arch: "arm"})
	if list == "" {
		return nil
	}
	only, err := build.ParsePlatforms(list)
	if err != nil {
		return err
	}
	for _, all := range []*[]build.Platform{&r.imagePlatforms, &r.pluginPlatforms, &r.providerPlatforms} {
		*all = slices.DeleteFunc(*all, func(p build.Platform) bool { return !slices.Contains(only, p) })
	}
	return nil
}

// imageName returns the full name of the image.
func (r *release) imageName() string { return r.image + ":" + r.version }

// report writes a line of output.
func (r *release) report(format string, arguments ...any) {
	_, _ = fmt.Fprintf(r.out, format+"\n", arguments...) // the files are the result
}

// path returns a path in the folder that is written.
func (r *release) path(parts ...string) string {
	return filepath.Join(append([]string{r.options.out}, parts...)...)
}

// build builds everything into a temporary folder, which it renames at the end.
func (r *release) build(ctx context.Context) error {
	final := r.options.out
	if entries, err := os.ReadDir(final); err == nil && len(entries) > 0 {
		if _, err := os.Stat(r.path(sums.File)); err != nil {
			return fmt.Errorf("%s exists and is no release: remove it, or set -out", final)
		}
	}
	notes, err := r.notes(ctx)
	if err != nil {
		return err
	}
	r.options.out = final + ".partial"
	defer func() { r.options.out = final }()
	if err := os.RemoveAll(r.options.out); err != nil {
		return err
	}
	for _, folder := range []string{"charts", "plugin", "terraform", "sbom"} {
		if err := os.MkdirAll(r.path(folder), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(r.path("RELEASE_NOTES.md"), []byte(notes), 0o644); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		r.buildPrograms, r.writeImage, r.writeKrewManifest, r.finishProvider, func(ctx context.Context) error { return r.packageCharts(ctx, notes) }, r.finish,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return errors.Join(os.RemoveAll(final), os.Rename(r.options.out, final))
}

// buildPrograms builds and packs the programs of all platforms, one platform after the other.
func (r *release) buildPrograms(ctx context.Context) error {
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	for _, p := range r.providerPlatforms { // contains the platforms of the other parts
		r.report("building for %s", p)
		parts := []part{{program: provider.Program, source: provider.Source, sbom: provider.Name, pack: func(content, _ []byte) error {
			return provider.Pack(r.path("terraform"), r.version, p, content, license, r.at)
		}}}
		if slices.Contains(r.pluginPlatforms, p) {
			parts = append(parts, r.pluginPart(p, r.path("plugin"), license))
		}
		if slices.Contains(r.imagePlatforms, p) {
			parts = append(parts, r.imageParts(p)...)
		}
		if err := r.buildParts(ctx, p, r.path("sbom"), parts); err != nil {
			return err
		}
	}
	return nil
}

// part is a program of a platform, and what packs it.
type part struct {
	program, source string
	// sbom is the name of the program in the name of its SBOM.
	sbom string
	pack func(program, sbom []byte) error
}

// imageParts returns the programs of the image. The image is created when the last of them is built.
func (r *release) imageParts(p build.Platform) []part {
	var programs []image.Program
	collect := func(name string) part {
		return part{program: name, source: "cmd/" + name, sbom: name, pack: func(program, sbom []byte) error {
			programs = append(programs, image.Program{Name: name, Content: program, SBOM: sbom})
			return nil
		}}
	}
	node, last := collect(image.Node), collect(image.Main)
	add := last.pack
	last.pack = func(program, sbom []byte) error {
		if err := add(program, sbom); err != nil {
			return err
		}
		one, err := image.New(programs, p, r.version, r.at)
		r.images = append(r.images, one)
		return err
	}
	return []part{node, last}
}

func (r *release) pluginPart(p build.Platform, folder string, license []byte) part {
	return part{program: plugin.Program, source: "cmd/" + plugin.Program, sbom: plugin.Program, pack: func(program, _ []byte) error {
		return plugin.Pack(folder, "v"+r.version, p, program, license, r.at)
	}}
}

// buildParts compiles the programs of a platform, writes their SBOMs and packs them.
func (r *release) buildParts(ctx context.Context, p build.Platform, sboms string, parts []part) error {
	folder, err := os.MkdirTemp("", "breakwater-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	var packages []string
	for _, one := range parts {
		packages = append(packages, "./"+one.source)
	}
	if err := build.Programs(ctx, folder, "v"+r.version, p, packages...); err != nil {
		return err
	}
	for _, one := range parts {
		path := filepath.Join(folder, p.Executable(one.program))
		program, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sbom, err := build.SBOM(path, "v"+r.version, r.at)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(sboms, fmt.Sprintf("%s_%s_%s.cdx.json", one.sbom, p.OS, p.Arch)), sbom, 0o644); err != nil {
			return err
		}
		if err := one.pack(program, sbom); err != nil {
			return fmt.Errorf("pack %s for %s: %w", one.program, p, err)
		}
	}
	return nil
}

func (r *release) writeImage(context.Context) error {
	return registry.WriteArchive(r.path("image.tar"), r.at, registry.Artifact{Name: r.imageName(), Appendable: image.Index(r.images)})
}

func (r *release) writeKrewManifest(context.Context) error {
	return plugin.WriteManifest(r.path("plugin"), "v"+r.version, download+r.version, r.pluginPlatforms)
}

// finishProvider writes the manifest, the checksums and the signature.
func (r *release) finishProvider(context.Context) error {
	folder := r.path("terraform")
	if err := provider.WriteManifest(folder, r.version); err != nil {
		return err
	}
	names, err := sums.Files(folder)
	if err != nil {
		return err
	}
	if err := sums.Write(folder, provider.Sums(r.version), names); err != nil || r.key == nil {
		return err
	}
	return sign(filepath.Join(folder, provider.Sums(r.version)), r.key)
}

func (r *release) packageCharts(ctx context.Context, notes string) error {
	packager := chart.Packager{Helm: r.helm, Version: r.version, Image: r.imageName(), At: r.at, Notes: notes}
	var artifacts []registry.Artifact
	for _, name := range chart.Names() {
		if err := packager.Package(ctx, filepath.Join("charts", name), r.path("charts")); err != nil {
			return err
		}
		artifact, err := chart.Artifact(r.path("charts", chart.File(name, r.version)), r.at)
		if err != nil {
			return err
		}
		artifacts = append(artifacts, registry.Artifact{Name: filepath.ToSlash(filepath.Dir(r.image)) + "/charts/" + name + ":" + r.version, Appendable: artifact})
	}
	return registry.WriteArchive(r.path("charts", "oci.tar"), r.at, artifacts...)
}

// finish writes the provenance, and the checksums of all files with their signatures.
func (r *release) finish(ctx context.Context) error {
	if err := r.writeProvenance(ctx); err != nil {
		return err
	}
	names, err := sums.Files(r.options.out)
	if err != nil {
		return err
	}
	if err := sums.Write(r.options.out, sums.File, names); err != nil {
		return err
	}
	if r.key == nil {
		r.report("%s is not signed with OpenPGP: set %s or %s", sums.File, keyFileVariable, keyVariable)
	} else if err := sign(r.path(sums.File), r.key); err != nil {
		return err
	}
	return r.cosignSums(ctx)
}

// buildOnly builds one part.
func (r *release) buildOnly(ctx context.Context) error {
	switch r.only {
	case "image":
		return r.buildImageOnly(ctx)
	case "plugin":
		return r.buildPluginOnly(ctx)
	case "install":
		notes, err := r.notes(ctx)
		if err = errors.Join(err, os.MkdirAll(r.path("charts"), 0o755)); err != nil {
			return err
		}
		if err := errors.Join(r.buildImageOnly(ctx), r.packageCharts(ctx, notes)); err != nil || r.options.push == "" {
			return err
		}
		return r.push(ctx)
	default:
		return fmt.Errorf("-only: %q is neither image, plugin nor install", r.only)
	}
}

// buildImageOnly writes the archive of the image and its SBOMs.
func (r *release) buildImageOnly(ctx context.Context) error {
	if err := os.MkdirAll(r.options.out, 0o755); err != nil {
		return err
	}
	for _, p := range r.imagePlatforms {
		if err := r.buildParts(ctx, p, r.options.out, r.imageParts(p)); err != nil {
			return err
		}
	}
	if err := r.writeImage(ctx); err != nil {
		return err
	}
	r.report("%s is %s for %v", r.path("image.tar"), r.imageName(), r.imagePlatforms)
	return nil
}

// buildPluginOnly writes the archives of the plugin, its SBOMs and the krew manifest.
func (r *release) buildPluginOnly(ctx context.Context) error {
	license, err := os.ReadFile("LICENSE")
	if err = errors.Join(err, os.MkdirAll(r.options.out, 0o755)); err != nil {
		return err
	}
	for _, p := range r.pluginPlatforms {
		if err := r.buildParts(ctx, p, r.options.out, []part{r.pluginPart(p, r.options.out, license)}); err != nil {
			return err
		}
	}
	return plugin.WriteManifest(r.options.out, "v"+r.version, download+r.version, r.pluginPlatforms)
}
