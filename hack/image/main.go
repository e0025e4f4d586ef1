// Command image builds the container image of Breakwater for several platforms, without a container engine. The image contains
// one static program, the user that runs it, and an SBOM. The build is reproducible: the same source gives the same bytes.
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
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func main() {
	o := options{}
	flag.StringVar(&o.name, "name", "breakwater", "`name` of the image, without a tag")
	flag.StringVar(&o.version, "version", "devel", "`version` that the program reports, and the tag of the image")
	flag.StringVar(&o.platforms, "platforms", "linux/amd64,linux/arm64", "`platforms` to build for, as os/architecture, separated by commas")
	flag.StringVar(&o.out, "out", "image", "`directory` for breakwater.tar, an OCI archive, and the SBOM of each platform's program")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

type options struct {
	name, version, platforms, out string
}

func run(ctx context.Context, out io.Writer, o options) error {
	at, err := sourceTime(ctx)
	if err != nil {
		return err
	}
	programs, err := os.MkdirTemp("", "breakwater-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(programs)
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	platforms, err := parsePlatforms(o.platforms)
	if err != nil {
		return err
	}
	var images []platformImage
	for _, platform := range platforms {
		program := filepath.Join(programs, platform.OS+"-"+platform.Architecture)
		if err := compile(ctx, program, platform, o.version); err != nil {
			return err
		}
		built, err := build(program, platform, o.version, at)
		if err != nil {
			return fmt.Errorf("image for %s: %w", platform, err)
		}
		if err := os.WriteFile(filepath.Join(o.out, fmt.Sprintf("breakwater-%s-%s.cdx.json", platform.OS, platform.Architecture)), built.materials, 0o600); err != nil {
			return err
		}
		images = append(images, built)
	}
	archive := filepath.Join(o.out, "breakwater.tar")
	digest, err := writeArchive(archive, o.name+":"+o.version, images, at)
	if err != nil {
		return fmt.Errorf("write %s: %w", archive, err)
	}
	_, err = fmt.Fprintf(out, "%s is %s:%s@%s for %s\n", archive, o.name, o.version, digest, o.platforms)
	return err
}

func parsePlatforms(list string) (all []*v1.Platform, err error) {
	for name := range strings.SplitSeq(list, ",") {
		platform, err := v1.ParsePlatform(name)
		if err != nil || platform.OS == "" || platform.Architecture == "" {
			return nil, errors.Join(err, fmt.Errorf("-platforms: %q is not os/architecture", name))
		}
		all = append(all, platform)
	}
	return all, nil
}

// sourceTime returns SOURCE_DATE_EPOCH, or the time of the last commit. With the time of the build, no two builds would be equal.
func sourceTime(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		out, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("time of the last commit: %w; set SOURCE_DATE_EPOCH where there is no git", err)
		}
		text = strings.TrimSpace(string(out))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is not a number of seconds: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// compile builds the program for a platform, on any platform.
func compile(ctx context.Context, out string, platform *v1.Platform, version string) error {
	const variable = "github.com/breakwater-k8s/breakwater/internal/telemetry/version.Version"
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
		"-ldflags", "-s -w -buildid= -X "+variable+"="+version, "-o", out, "./cmd/breakwater")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+platform.OS, "GOARCH="+platform.Architecture)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build for %s: %w", platform, err)
	}
	return nil
}
