package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// nodeProgram is beside this program.
const nodeProgram = "breakwater-node"

// nodeCommand runs a program of its own: the node guard runs on every node, and needs a tenth of the memory that this program would need.
func nodeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "node run|agent|install|uninstall",
		Short: "Keep the containers of pods that the API server lost, on a node (" + nodeProgram + ")",
		Long: `Runs ` + nodeProgram + `, the node guard, which is beside this program: it keeps the containers of pods that the API server lost, and registers the pods
again. See docs/how-to/node-guard.md, and breakwater node --help for its commands and flags.`,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, arguments []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			program := filepath.Join(filepath.Dir(self), nodeProgram)
			if err := syscall.Exec(program, append([]string{nodeProgram}, arguments...), os.Environ()); err != nil {
				return fmt.Errorf("run %s: %w; it must be in the folder of this program", program, err)
			}
			return nil
		},
	}
}
