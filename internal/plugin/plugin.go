// Package plugin has what the commands of kubectl breakwater share: flags, the location of clusters, reads of core clusters, and output.
package plugin

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// Plugin is the state that all commands share.
type Plugin struct {
	genericiooptions.IOStreams
	Clusters *ClusterFinder
	Now      func() time.Time
	// color is the value of --color.
	color string
	// locations are the flags that commands in the output need.
	locations *locations
	// notes serializes notes, which several goroutines write.
	notes sync.Mutex
}

// New makes all output to the streams printable. Tables and lines are built from printable values in addition, because only there
// the plugin can distinguish its own line feeds and styles.
func New(streams genericiooptions.IOStreams) *Plugin {
	p := &Plugin{Clusters: &ClusterFinder{current: genericclioptions.NewConfigFlags(true)}, Now: time.Now, locations: &locations{}}
	keep := []string{reset, string(Strong), string(Soft), string(Good), string(Warn), string(Bad)}
	p.In = streams.In
	p.Out = &printedCommands{printable.Writer{To: streams.Out, Keep: keep}, p}
	p.ErrOut = &printedCommands{printable.Writer{To: streams.ErrOut, Keep: keep}, p}
	return p
}

// Bind adds the flags that all commands share to the program.
func (p *Plugin) Bind(root *cobra.Command) {
	flags := root.PersistentFlags()
	p.Clusters.bind(flags)
	flags.StringVar(&p.color, "color", "auto", "`when` to use color: auto (on a terminal, unless NO_COLOR is set), always or never")
	for flag, complete := range map[string]cobra.CompletionFunc{
		"namespace":    p.completeNamespaces,
		"context":      p.completeContexts,
		"core-context": p.completeContexts,
		"color":        cobra.FixedCompletions(colors(), cobra.ShellCompDirectiveNoFileComp),
	} {
		_ = root.RegisterFlagCompletionFunc(flag, complete) // fails for an unknown flag
	}
}

// Prepare takes the flags of a command that is about to run. It returns an error if those that all commands share are invalid.
func (p *Plugin) Prepare(running *cobra.Command) error {
	*p.locations = newLocations(running)
	if running.Name() != cobra.ShellCompRequestCmd {
		p.Clusters.Report, p.Clusters.NamesEnvironment = p.message, WidthOf(p.ErrOut) > 0
	}
	if !slices.Contains(colors(), p.color) {
		return fmt.Errorf("--color %q: want auto, always or never", p.color)
	}
	return nil
}

// Note reports omitted information. It ignores write errors.
func (p *Plugin) Note(format string, arguments ...any) {
	p.message("note: "+format, arguments...)
}

// message writes a line to the error stream. It ignores write errors.
func (p *Plugin) message(format string, arguments ...any) {
	p.notes.Lock()
	defer p.notes.Unlock()
	_, _ = fmt.Fprintln(p.ErrOut, printable.Line(fmt.Sprintf(format, arguments...)))
}
