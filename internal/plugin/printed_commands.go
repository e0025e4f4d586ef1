package plugin

import (
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// printedCommands writes text in which each command of the plugin has the flags that locate the clusters of the running command. Without them a user
// who repeats the command would ask another cluster. Variables of the environment stay, and need no flags. It drops styles if the output has no color.
type printedCommands struct {
	to io.Writer
	*Plugin
}

// locations are the flags that locate the clusters of the running command. The zero value adds nothing.
type locations struct {
	// all are the flags that any command takes. The commands in cellCommands also take the flag --cell in cell.
	all, cell    string
	cellCommands []string
	// names matches commands of the plugin with the name of the command; nil if there is nothing to add.
	names *regexp.Regexp
}

// newLocations returns the flags of the running command.
func newLocations(running *cobra.Command) (l locations) {
	var names []string
	for _, c := range running.Root().Commands() {
		names = append(names, c.Name())
		if c.Flags().Lookup("cell") != nil {
			l.cellCommands = append(l.cellCommands, c.Name())
		}
	}
	for _, name := range []string{"kubeconfig", "context", "core-context", "core-kubeconfig", "core", "cell-context"} {
		l.all += flagText(running.Flags().Lookup(name))
	}
	l.cell = flagText(running.Flags().Lookup("cell"))
	if l.all+l.cell != "" {
		l.names = regexp.MustCompile(`kubectl breakwater (` + strings.Join(names, "|") + `)\b`)
	}
	return l
}

// flagText returns a flag as a user would repeat it, with a space before it; nothing if the user did not set it.
func flagText(f *pflag.Flag) (text string) {
	if f == nil || !f.Changed {
		return ""
	}
	values := []string{f.Value.String()}
	if several, ok := f.Value.(pflag.SliceValue); ok {
		values = several.GetSlice()
	}
	for _, value := range values {
		text += " --" + f.Name + " " + cli.ShellWord(value)
	}
	return text
}

// Underneath returns the writer to which the output of a command finally goes.
func Underneath(out io.Writer) io.Writer {
	if located, ok := out.(*printedCommands); ok {
		out = located.to
	}
	return printable.Unwrap(out)
}

// Write implements io.Writer.
func (p *printedCommands) Write(text []byte) (int, error) {
	located := string(text)
	if !p.Colored(p) {
		located = WithoutStyles(located)
	}
	located = p.locations.add(located)
	if _, err := io.WriteString(p.to, located); err != nil {
		return 0, err
	}
	return len(text), nil
}

// add adds the flags to the commands in a text.
func (l *locations) add(text string) string {
	if l.names == nil {
		return text
	}
	return l.names.ReplaceAllStringFunc(text, func(found string) string {
		flags := l.all
		if slices.Contains(l.cellCommands, found[strings.LastIndex(found, " ")+1:]) {
			flags += l.cell
		}
		return found + flags
	})
}
