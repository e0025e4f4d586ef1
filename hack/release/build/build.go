// Package build compiles the programs of a release, reproducibly: the same source and Go release give the same bytes.
package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Platform is an operating system and an architecture, as Go names them.
type Platform struct{ OS, Arch string }

// String returns the platform as os/architecture.
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Executable returns the file name of a program.
func (p Platform) Executable(name string) string {
	if p.OS == "windows" {
		return name + ".exe"
	}
	return name
}

// ParsePlatforms reads platforms that are separated by commas.
func ParsePlatforms(list string) (all []Platform, err error) {
	for name := range strings.SplitSeq(list, ",") {
		platform, err := v1.ParsePlatform(name)
		if err != nil || platform.OS == "" || platform.Architecture == "" {
			return nil, errors.Join(err, fmt.Errorf("-platforms: %q is not os/architecture", name))
		}
		all = append(all, Platform{OS: platform.OS, Arch: platform.Architecture})
	}
	return all, nil
}

// Programs compiles packages for a platform, on any platform, into a folder. The programs report version. Programs reads the source from the
// current folder.
func Programs(ctx context.Context, folder, version string, p Platform, packages ...string) error {
	const variable = "github.com/breakwater-k8s/breakwater/internal/telemetry/version.Version"
	cmd := exec.CommandContext(ctx, "go", append([]string{
		"build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", "-s -w -buildid= -X " + variable + "=" + version,
		"-o", folder + string(filepath.Separator),
	}, packages...)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+p.OS, "GOARCH="+p.Arch, "GOARM=6")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build for %s: %w", p, err)
	}
	return nil
}

// SourceTime returns SOURCE_DATE_EPOCH, or the time of the last commit. With the time of the build, no two builds would be equal.
func SourceTime(ctx context.Context) (time.Time, error) {
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
