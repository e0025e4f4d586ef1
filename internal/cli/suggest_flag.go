package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// suggestFlag adds similar flags, if any, to the error about an unknown flag. It finds them as cobra finds similar commands.
func suggestFlag(command *cobra.Command, err error) error {
	unknown := &pflag.NotExistError{}
	if !errors.As(err, &unknown) {
		return err
	}
	name := unknown.GetSpecifiedName()
	flags := &cobra.Command{SuggestionsMinimumDistance: 1 + len(name)/4}
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: flag.Name, Hidden: flag.Hidden, Run: func(*cobra.Command, []string) {}})
	})
	if similar := flags.SuggestionsFor(name); len(name) > 1 && len(similar) > 0 {
		return fmt.Errorf("%w: did you mean --%s?", err, strings.Join(similar, " or --"))
	}
	return fmt.Errorf("%w: %s --help shows all", err, command.CommandPath())
}
