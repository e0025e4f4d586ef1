// Command breakwater-dev is for developers of Breakwater and for first-time users. It runs the demonstration, and federations of real
// control planes on this machine.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

func main() { cli.Run(rootCommand()) }

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "breakwater-dev",
		Short: "Run the demonstration and local federations",
		Long: `Runs the demonstration of Breakwater, and federations of real control planes on this machine.

Each cluster of a federation is an etcd, a kube-apiserver and a kube-controller-manager. A worker also has a kube-scheduler and
kwok, which simulates its nodes: pods become ready at once and run nothing. All are processes of this machine and
listen on the loopback interface only. Breakwater's components run beside them, and deny removals below the floors of PodProtectors
(up --bare: only its CustomResourceDefinitions are installed, in the core clusters).

  breakwater-dev up
  eval "$(breakwater-dev env)"
  kubectl --context worker-1 create deployment web --image=web --replicas=3`,
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(printable.Writer{To: os.Stdout})
	root.SetErr(printable.Writer{To: os.Stderr})
	var flags federationFlags
	commands := []*cobra.Command{upCommand(&flags), downCommand(&flags), statusCommand(&flags), envCommand(&flags), superviseCommand(&flags)}
	for _, command := range commands {
		flags.bind(command.Flags())
	}
	root.AddCommand(append(commands, demoCommand(), cli.ReferenceCommand())...)
	return root
}

// componentProgram finds the program of the components: next to this one, or in PATH.
func componentProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the path of this program: %w", err)
	}
	sibling := filepath.Join(filepath.Dir(self), "breakwater")
	if _, err := os.Stat(sibling); err == nil {
		return sibling, nil
	}
	program, err := exec.LookPath("breakwater")
	if err != nil {
		return "", fmt.Errorf("the program breakwater is neither in %s nor in PATH: build it with make build", filepath.Dir(self))
	}
	return filepath.Abs(program)
}
