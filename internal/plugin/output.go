package plugin

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// Output is the flag -o of a command.
type Output struct{ format string }

func formats() []string { return []string{"table", "wide", "json", "yaml"} }

// Bind adds the flag to a command.
func (o *Output) Bind(command *cobra.Command) {
	command.Flags().StringVarP(&o.format, "output", "o", "table", "`format`: table, wide, json or yaml")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats(), cobra.ShellCompDirectiveNoFileComp))
}

// Check returns an error for an unknown format.
func (o *Output) Check() error {
	if !slices.Contains(formats(), o.format) {
		return fmt.Errorf("--output %q: want table, wide, json or yaml", o.format)
	}
	return nil
}

// Wide reports whether the format is wide.
func (o *Output) Wide() bool { return o.format == "wide" }

// IsTable reports whether the format is for users, not for programs.
func (o *Output) IsTable() bool { return o.format == "table" || o.Wide() }

// Write writes a value as JSON or YAML without changes. Otherwise it writes the result of table for a copy with printable texts, as a
// terminal can show it.
func Write[T any](o *Output, out io.Writer, value T, table func(T) string) error {
	var text []byte
	var err error
	switch o.format {
	case "json":
		if text, err = json.MarshalIndent(value, "", "  "); err == nil {
			text = append(printable.JSON(text), '\n')
		}
	case "yaml":
		text, err = printable.YAML(value)
	default:
		text = []byte(FitTerminal(table(printable.Value(value)), WidthOf(out)))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", o.format, err)
	}
	if located, ok := out.(*printedCommands); ok && !o.IsTable() {
		out = located.to
	}
	_, err = out.Write(text)
	return err
}
