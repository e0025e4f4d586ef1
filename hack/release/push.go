package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"

	"github.com/breakwater-k8s/breakwater/hack/release/check"
	"github.com/breakwater-k8s/breakwater/hack/release/registry"
	"github.com/breakwater-k8s/breakwater/hack/release/sums"
)

// push pushes the image as REGISTRY/breakwater and the charts as REGISTRY/charts/NAME, and signs them if there is a key.
func (r *release) push(ctx context.Context) error {
	for file, prefix := range map[string]string{"image.tar": "", "charts/oci.tar": "charts/"} {
		folder, err := os.MkdirTemp("", "breakwater-push-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		artifacts, err := registry.ReadArchive(r.path(file), folder)
		if err != nil {
			return err
		}
		for _, a := range artifacts {
			pushed, err := registry.Push(ctx, strings.TrimSuffix(r.options.push, "/")+"/"+prefix+path.Base(a.Name), a)
			if err != nil {
				return err
			}
			r.report("pushed %s", pushed)
			if err := r.cosignArtifact(ctx, pushed); err != nil {
				return err
			}
		}
	}
	return nil
}

// cosignArtifact signs what was pushed.
func (r *release) cosignArtifact(ctx context.Context, pushed string) error {
	before, digest, _ := strings.Cut(pushed, "@")
	return r.runCosign(ctx, "sign", before[:strings.LastIndex(before, ":")]+"@"+digest)
}

// cosignSums signs the checksums of all files.
func (r *release) cosignSums(ctx context.Context) error {
	return r.runCosign(ctx, "sign-blob", "--bundle", r.path(check.CosignBundle), r.path(sums.File))
}

// cosignKeyVariable names the environment variable with the key of cosign, a file or an address of a key management service.
const cosignKeyVariable = "COSIGN_KEY"

func (r *release) signsWithCosign() bool { return r.cosign != "" && os.Getenv(cosignKeyVariable) != "" }

// runCosign signs with the key in $COSIGN_KEY, without a transparency log, so that it needs no network but the registry.
func (r *release) runCosign(ctx context.Context, command string, arguments ...string) error {
	if !r.signsWithCosign() {
		r.report("%s is not signed with cosign: set %s", arguments[len(arguments)-1], cosignKeyVariable)
		return nil
	}
	flags := []string{command, "--yes", "--key", os.Getenv(cosignKeyVariable), "--use-signing-config=false", "--tlog-upload=false"}
	cmd := exec.CommandContext(ctx, r.cosign, append(flags, arguments...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cosign %s: %w\n%s", command, err, out)
	}
	return nil
}
