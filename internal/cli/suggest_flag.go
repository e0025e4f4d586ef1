package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// suggestFlag adds the most similar flag, if any, to the error about an unknown flag.
func suggestFlag(command *cobra.Command, err error) error {
	unknown := &pflag.NotExistError{}
	if !errors.As(err, &unknown) {
		return err
	}
	name, suggestion := unknown.GetSpecifiedName(), ""
	flags := &cobra.Command{} // Cobra suggests commands only
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: flag.Name, Hidden: flag.Hidden, Run: func(*cobra.Command, []string) {}})
	})
	for distance := 0; suggestion == "" && len(name) > 1 && distance <= 1+len(name)/4; distance++ {
		flags.SuggestionsMinimumDistance = distance
		if similar := flags.SuggestionsFor(name); len(similar) > 0 {
			suggestion = similar[0]
		}
	}
	if suggestion == "" {
		return fmt.Errorf("%w: %s --help shows all", err, command.CommandPath())
	}
	return fmt.Errorf("%w: did you mean --%s?", err, suggestion)
}
