// Package cli runs the programs of Breakwater and generates the documentation page of their commands.
package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ReferenceCommand creates the hidden command with which make references writes the documentation page of a program.
func ReferenceCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reference", Short: "Print all commands and flags as a page of Markdown", Hidden: true, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := command.OutOrStdout().Write(Reference(command.Root()))
			return err
		},
	}
}

// Reference returns the page: all commands that are not hidden, sorted by name, with usage and flags.
func Reference(root *cobra.Command) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Commands of %s\n\nThis page is generated from the program; `--help` prints the same text.\n", root.CommandPath())
	var all []*cobra.Command
	collect(root, &all)
	out.WriteString("\n| command | |\n| --- | --- |\n")
	for _, command := range all {
		fmt.Fprintf(&out, "| [%s](#%s) | %s |\n", command.CommandPath(), strings.ReplaceAll(command.CommandPath(), " ", "-"), tableCell(command.Short))
	}
	for _, command := range all {
		describe(&out, command)
	}
	return out.Bytes()
}

func collect(command *cobra.Command, all *[]*cobra.Command) {
	*all = append(*all, command)
	for _, child := range command.Commands() { // Commands returns them sorted
		if !child.Hidden && child.Name() != "help" && child.Name() != "completion" {
			collect(child, all)
		}
	}
}

func describe(out *bytes.Buffer, command *cobra.Command) {
	fmt.Fprintf(out, "\n## %s\n\n", command.CommandPath())
	fmt.Fprintf(out, "%s\n", markdown(cmp.Or(command.Long, command.Short+".")))
	if command.Runnable() {
		fmt.Fprintf(out, "\n```\n%s\n```\n", strings.TrimSpace(command.UseLine()))
	}
	if command.Example != "" {
		fmt.Fprintf(out, "\n```\n%s\n```\n", strings.TrimRight(command.Example, "\n"))
	}
	describeFlags(out, command.NonInheritedFlags())
	for parent := command.Parent(); parent != nil; parent = parent.Parent() {
		if parent.HasAvailablePersistentFlags() {
			fmt.Fprintf(out, "\nThe command also has the flags of [%s](#%s).\n", parent.CommandPath(), strings.ReplaceAll(parent.CommandPath(), " ", "-"))
			break
		}
	}
}

// markdown converts help text to Markdown. Indented text becomes code blocks.
func markdown(text string) string {
	var out strings.Builder
	inCode, blank := false, ""
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		if strings.TrimSpace(line) == "" {
			blank += "\n"
			continue
		}
		fence := ""
		if indented := strings.HasPrefix(line, "  "); indented != inCode {
			inCode, fence = indented, "```\n"
		}
		if !inCode {
			line = fence + blank + escapeMarkdown(line)
		} else {
			line = blank + fence + strings.TrimPrefix(line, "  ")
		}
		out.WriteString(line)
		blank = ""
	}
	if inCode {
		out.WriteString("```\n")
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func describeFlags(out *bytes.Buffer, set *pflag.FlagSet) {
	rows := 0
	set.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Name == "help" {
			return
		}
		if rows++; rows == 1 {
			out.WriteString("\n| flag | default | meaning |\n| --- | --- | --- |\n")
		}
		kind, usage := pflag.UnquoteUsage(flag)
		names := "--" + flag.Name
		if flag.Shorthand != "" {
			names = "-" + flag.Shorthand + ", " + names
		}
		value := ""
		if flag.DefValue != "" && flag.DefValue != "[]" {
			value = "`" + flag.DefValue + "`"
		}
		fmt.Fprintf(out, "| `%s` | %s | %s |\n", strings.TrimSpace(names+" "+strings.ReplaceAll(kind, "|", `\|`)), strings.ReplaceAll(value, "|", `\|`),
			tableCell(usage))
	})
}

func tableCell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(escapeMarkdown(text), "|", `\|`), "\n", " ")
}

// escapeMarkdown escapes characters of HTML and emphasis outside of backticks.
func escapeMarkdown(text string) string {
	parts := strings.Split(text, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`).Replace(parts[i])
	}
	return strings.Join(parts, "`")
}
