package release

import (
	"context"
	"os/exec"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// Helm returns a command of the real Helm that reads and writes nothing outside home.
func Helm(ctx context.Context, home string, arguments ...string) (*exec.Cmd, error) {
	program, err := local.BuiltProgram("helm")
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, program, arguments...)
	command.Env = []string{"HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_CACHE_HOME=" + home, "HELM_DATA_HOME=" + home}
	return command, nil
}
