package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// output is -o of a command.
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

// write writes a value as JSON or YAML, or else what table makes of it.
func (o *output) write(out io.Writer, value any, table func() string) error {
	var text []byte
	var err error
	switch o.format {
	case "json":
		if text, err = json.MarshalIndent(value, "", "  "); err == nil {
			text = append(text, '\n')
		}
	case "yaml":
		text, err = yaml.Marshal(value)
	default:
		text = []byte(table())
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", o.format, err)
	}
	_, err = out.Write(text)
	return err
}
