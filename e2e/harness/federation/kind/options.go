// Package kind runs a federation as kind clusters: nodes that are containers of docker, with real kubelets, schedulers,
// Services and pods. It pulls only kind's own node image: all others must exist locally or come as archives.
package kind

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/kind/pkg/apis/config/defaults"
)

const (
	// ImageVariable names the environment variable that holds the image of all nodes.
	ImageVariable = "KIND_NODE_IMAGE"
	// PatchVariable names the environment variable that holds the path of fields to be merged into each kind configuration.
	PatchVariable = "KIND_CLUSTER_CONFIG_PATCH"
)

// Options configure a federation.
type Options struct {
	// Image is the image of all nodes. Empty means kind's default.
	Image string
	// Patch is the path of a file with kind configuration fields for all clusters. Empty means none.
	Patch string
	// Nodes is how many nodes of each worker run pods, overriding the topology: a cluster of one node needs no network
	// between nodes and little memory. 0 means the number in the topology.
	Nodes int
	// Dir is the directory for kubeconfigs, which Start creates. Empty: a temporary directory that Stop removes.
	Dir string
	// Log receives progress messages.
	Log logr.Logger
	// Timeout bounds the start. 0 means ten minutes.
	Timeout time.Duration
}

// FromEnvironment returns options from the environment variables.
func FromEnvironment() Options {
	return Options{Image: os.Getenv(ImageVariable), Patch: os.Getenv(PatchVariable)}
}

func (o *Options) setDefaults() {
	o.Image = cmp.Or(o.Image, defaults.Image)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Minute)
}

// Missing returns what this machine lacks to start a federation; nil if nothing. It pulls kind's own node image.
func Missing(ctx context.Context, o Options) error {
	o.setDefaults()
	if _, err := exec.LookPath("docker"); err != nil {
		return fmt.Errorf("kind needs the docker command: %w", err)
	}
	// A daemon that does not answer counts as missing.
	answering, cancel := context.WithTimeout(ctx, faultTimeout)
	defer cancel()
	if _, err := docker(answering, "version", "--format={{.Server.Version}}"); err != nil {
		return fmt.Errorf("no docker daemon answers (set DOCKER_HOST): %w", err)
	}
	_, err := docker(ctx, "image", "inspect", "--format={{.Id}}", o.Image)
	if err != nil && o.Image == defaults.Image {
		_, err = docker(ctx, "pull", "--quiet", o.Image)
	}
	if err != nil {
		return fmt.Errorf("docker does not have the node image; run `docker pull %s`, or set %s to an image that exists: %w", o.Image, ImageVariable, err)
	}
	return nil
}

// docker runs a docker command and returns its output.
func docker(ctx context.Context, arguments ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "docker", arguments...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("docker %s: %w: %s", arguments[0], err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}
