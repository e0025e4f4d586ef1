package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
)

// rootFlags are the flags of webhook-config for the root guard.
type rootFlags struct {
	enabled      bool
	kinds        []string
	ownNamespace string
}

func (f *rootFlags) bind(flags *pflag.FlagSet) {
	flags.BoolVar(&f.enabled, "root-guard", false, "print the configuration for deletions of namespaces, workloads and other objects that floors depend on")
	flags.StringSliceVar(&f.kinds, "root-kinds", nil, "with --root-guard, additional `resources`: kinds that policies name, and owners of source workloads, such as rollouts.argoproj.io")
	flags.StringVar(&f.ownNamespace, "own-namespace", "breakwater-system", "with --root-guard, the `namespace` of Breakwater; its accounts are exempt, because they delete released PodProtectors")
}

func (f *rootFlags) isChanged(flags *pflag.FlagSet) bool {
	return flags.Changed("root-kinds") || flags.Changed("own-namespace")
}

// write prints the configuration. mixed reports whether flags of other configurations are set.
func (f *rootFlags) write(command *cobra.Command, o register.Options, service, caBundle string, mixed, static bool) error {
	switch {
	case static:
		return errors.New("--root-guard excludes --static: the root guard may be unavailable without harm, and static configurations cannot be deleted")
	case mixed:
		return errors.New("--root-guard excludes --scheduling and --pod-selector")
	case o.FailurePolicy != "":
		return errors.New("--failure-policy needs --scheduling: deletions are always allowed when the root guard does not answer")
	case o.Core == "" && o.Cell == "":
		return errors.New("set --core, --cell or both")
	}
	roots := register.RootOptions{Kinds: groupResources(f.kinds), OwnNamespace: f.ownNamespace}
	if problems := validation.IsDNS1123Label(f.ownNamespace); len(problems) > 0 {
		return fmt.Errorf("--own-namespace %q is not the name of a namespace: %s", f.ownNamespace, problems[0])
	}
	if o.Cell != "" {
		roots.Cells = strings.Split(o.Cell, ",")
	}
	for _, cell := range roots.Cells {
		if problems := validation.IsDNS1123Label(cell); len(problems) > 0 {
			return fmt.Errorf("--cell %q is not the name of a Cell: %s", cell, problems[0])
		}
	}
	o.Name = cmp.Or(o.Name, "breakwater-roots")
	if !command.Flags().Changed("timeout") {
		o.TimeoutSeconds = 2
	}
	// The remaining options are checked like those of a core's configuration, or of one cell's.
	if o.Cell = ""; o.Core == "" {
		o.Cell = roots.Cells[0]
	}
	if err := completeConfiguration(&o, service, caBundle, ""); err != nil {
		return err
	}
	roots.Options = o
	configuration, err := register.RootConfiguration(roots)
	if err != nil {
		return err
	}
	return writeYAML(command.OutOrStdout(), o, []any{configuration})
}
