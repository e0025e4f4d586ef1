package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// execute runs the program. In addition to cobra, which checks only the first argument, it returns an error for an unknown command below a
// command that only groups others: cobra would print the help of the group and succeed.
func execute(ctx context.Context, root *cobra.Command) error {
	var unknown error
	help := root.HelpFunc()
	root.SetHelpFunc(func(command *cobra.Command, arguments []string) {
		asked, _ := command.Flags().GetBool("help")
		if names := command.Flags().Args(); !asked && !command.Runnable() && len(names) > 0 {
			unknown = unknownCommand(command, names[0])
			return
		}
		help(command, arguments)
	})
	if err := root.ExecuteContext(ctx); err != nil {
		return err
	}
	return unknown
}

// unknownCommand has the text of cobra's error for the first argument.
func unknownCommand(group *cobra.Command, name string) error {
	group.SuggestionsMinimumDistance = 2
	suggestion := fmt.Sprintf("\nRun '%s --help' for usage.", group.CommandPath())
	if similar := group.SuggestionsFor(name); len(similar) > 0 {
		suggestion = "\n\nDid you mean this?\n\t" + strings.Join(similar, "\n\t")
	}
	return fmt.Errorf("unknown command %q for %q%s", name, group.CommandPath(), suggestion)
}

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
