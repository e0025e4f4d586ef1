package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// output is the flag -o of a command.
type output struct{ format string }

func formats() []string { return []string{"table", "wide", "json", "yaml"} }

func (o *output) bind(command *cobra.Command) {
	command.Flags().StringVarP(&o.format, "output", "o", "table", "`format`: table, wide, json or yaml")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats(), cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) check() error {
	if !slices.Contains(formats(), o.format) {
		return fmt.Errorf("--output %q: want table, wide, json or yaml", o.format)
	}
	return nil
}

func (o *output) wide() bool { return o.format == "wide" }

// isTable reports whether the format is for users, not for programs.
func (o *output) isTable() bool { return o.format == "table" || o.wide() }

// write writes a value as JSON or YAML without changes. Otherwise it writes the result of table for a copy with printable texts, as a
// terminal can show it.
func write[T any](o *output, out io.Writer, value T, table func(T) string) error {
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
		text = []byte(fitTerminal(table(printable.Value(value)), widthOf(out)))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", o.format, err)
	}
	if located, ok := out.(*printedCommands); ok && !o.isTable() {
		out = located.to
	}
	_, err = out.Write(text)
	return err
}
