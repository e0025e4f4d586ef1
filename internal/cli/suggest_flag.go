package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agext/levenshtein"
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
	shortest := 1 + len(name)/4 // maximum edit distance
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		distance := levenshtein.Distance(name, flag.Name, nil)
		if len(name) > 2 && strings.HasPrefix(flag.Name, name) {
			distance = 0
		}
		if len(name) > 1 && !flag.Hidden && distance <= shortest && (suggestion == "" || distance < shortest) {
			suggestion, shortest = flag.Name, distance
		}
	})
	if suggestion == "" {
		return fmt.Errorf("%w: %s --help shows all", err, command.CommandPath())
	}
	return fmt.Errorf("%w: did you mean --%s?", err, suggestion)
}
