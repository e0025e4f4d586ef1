// Package kind runs a federation as kind clusters: nodes that are containers of docker, with real kubelets, schedulers,
// Services and pods. Nothing is pulled: all images must be there, or come as archives.
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

// Options say how to start a federation.
type Options struct {
	// Image is that of all nodes. Empty means the one that this version of kind is made for.
	Image string
	// Patch is the path of a file with fields of a kind configuration, which all clusters get. Empty means none.
	Patch string
	// Nodes is how many nodes of each worker run pods, whatever the topology says: a cluster of one node needs no network
	// between nodes, and little memory. 0 means what the topology says.
	Nodes int
	// Dir keeps kubeconfigs. It is made. Empty: a temporary folder that Stop removes.
	Dir string
	// Log gets the progress.
	Log logr.Logger
	// Timeout bounds the start. 0 means ten minutes.
	Timeout time.Duration
}

// FromEnvironment gives options with what the environment says.
func FromEnvironment() Options {
	return Options{Image: os.Getenv(ImageVariable), Patch: os.Getenv(PatchVariable)}
}

func (o *Options) setDefaults() {
	o.Image = cmp.Or(o.Image, defaults.Image)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Minute)
}

// Missing says what this machine lacks to start a federation; nil when nothing.
func Missing(ctx context.Context, o Options) error {
	o.setDefaults()
	if _, err := exec.LookPath("docker"); err != nil {
		return fmt.Errorf("kind clusters are containers of docker: %w", err)
	}
	if _, err := docker(ctx, "version", "--format={{.Server.Version}}"); err != nil {
		return fmt.Errorf("no docker daemon answers (DOCKER_HOST says where it is): %w", err)
	}
	if _, err := docker(ctx, "image", "inspect", "--format={{.Id}}", o.Image); err != nil {
		return fmt.Errorf("docker does not have the image of nodes: `docker pull %s`, or set %s to one that is there: %w", o.Image, ImageVariable, err)
	}
	return nil
}

// docker runs a command of docker, and gives what it prints.
func docker(ctx context.Context, arguments ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "docker", arguments...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("docker %s: %w: %s", arguments[0], err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}
