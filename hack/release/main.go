// Command release builds everything of a release into a folder: the container image, the charts, the kubectl plugin, the Terraform provider, SBOMs,
// checksums, provenance, signatures and release notes. It needs neither a container engine nor a network, except to push. The build is
// reproducible: the same commit and Go release give the same bytes, apart from signatures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"

	"github.com/breakwater-k8s/breakwater/hack/release/build"
	"github.com/breakwater-k8s/breakwater/hack/release/chart"
	"github.com/breakwater-k8s/breakwater/hack/release/check"
)

func main() {
	o := options{}
	flag.StringVar(&o.version, "version", "", "`version` of the release, or the output of git describe; by default the version of the charts")
	flag.StringVar(&o.out, "out", "release", "`folder` to write")
	flag.StringVar(&o.image, "image", "ghcr.io/breakwater-k8s/breakwater", "full `name` of the image, without a tag")
	flag.StringVar(&o.platforms, "platforms", "", "build only for these `platforms`, as os/architecture, separated by commas")
	flag.StringVar(&o.only, "only", "", "build only this `part`: image, plugin, or install, which is what helm install needs: image and charts")
	flag.StringVar(&o.push, "push", "", "push the image and the charts to this `registry`, with an optional prefix")
	flag.StringVar(&o.helm, "helm", "helm", "`path` of Helm")
	flag.StringVar(&o.krew, "krew", "", "`path` of validate-krew-manifest; empty: do not run it")
	flag.StringVar(&o.cosign, "cosign", "", "`path` of cosign, which signs with the key in $COSIGN_KEY; empty: do not sign with it")
	flag.BoolVar(&o.check, "check", false, "do not build; check the folder")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

type options struct {
	version, out, image, platforms, only, push string
	helm, krew, cosign                         string
	check                                      bool
}

func run(ctx context.Context, out io.Writer, o options) error {
	r, err := newRelease(ctx, out, o)
	if err != nil {
		return err
	}
	if o.only != "" {
		return r.buildOnly(ctx)
	}
	if !o.check {
		if err := r.build(ctx); err != nil {
			return err
		}
	}
	expected := check.Expected{
		Version: r.version, Image: r.imageName(), ImagePlatforms: r.imagePlatforms, PluginPlatforms: r.pluginPlatforms, ProviderPlatforms: r.providerPlatforms,
		Helm: o.helm, Krew: o.krew, Key: r.key, Cosign: r.signsWithCosign(),
	}
	if err := check.Release(ctx, o.out, expected); err != nil {
		return fmt.Errorf("%s is not a complete release:\n%w", o.out, err)
	}
	r.report("%s is a complete release of %s", o.out, r.version)
	if o.push == "" {
		return nil
	}
	return r.push(ctx)
}

func newRelease(ctx context.Context, out io.Writer, o options) (*release, error) {
	r := &release{options: o, out: out}
	var err error
	if r.charts, err = chart.Version("charts"); err != nil {
		return nil, err
	}
	r.version = r.charts
	if o.version != "" {
		r.version = semanticVersion(o.version)
	}
	if r.at, err = build.SourceTime(ctx); err != nil {
		return nil, err
	}
	if r.key, err = signingKey(); err != nil {
		return nil, err
	}
	return r, r.selectPlatforms(o.platforms)
}

// semanticVersion converts the output of git describe to a semantic version, without a v. A commit without a tag sorts before the first release.
func semanticVersion(described string) string {
	semantic := regexp.MustCompile(`^v?(\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?)$`)
	if parts := semantic.FindStringSubmatch(described); parts != nil {
		return parts[1]
	}
	return "0.0.0-" + regexp.MustCompile(`[^0-9A-Za-z.-]+`).ReplaceAllString(described, "-")
}

// git returns the output of a git command.
func git(ctx context.Context, arguments ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", arguments...).Output()
	if err != nil {
		return "", errors.Join(fmt.Errorf("git %s", strings.Join(arguments, " ")), err)
	}
	return strings.TrimSpace(string(out)), nil
}
