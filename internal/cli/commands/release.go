package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli/finalizers"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

type releaseFlags struct {
	core    Cluster
	all     bool
	kinds   []string
	deleted bool
	yes     bool
	// pending confirms pending decreases instead. dryRun shows them and does not ask.
	pending, dryRun bool
	now             func() time.Time
}

// Release creates the release command of a program.
func Release(program string, core Cluster) *cobra.Command {
	f := &releaseFlags{core: core, now: time.Now}
	command := &cobra.Command{
		Use:   "release [KIND/NAME ...]",
		Short: "Release what Breakwater's finalizers hold in a core cluster, or confirm pending decreases of floors",
		Long: `Breakwater puts finalizers (breakwater.dev/...) on protectors, on the workloads that they come from and on policies, so
that a deletion can be told from a loss. The generator takes them off by itself. If it is gone for good, what they hold
cannot be deleted: this command lists it, and with --yes takes them off. The finalizers of others stay.

A protector that is let go of, and was deleted, protects nothing any more: its pods can be removed at once. One that was
not deleted stays. While a generator runs it puts its finalizers back on whatever is not deleted; let it do the work.

With --pending the command confirms large decreases of floors that the generator holds back (condition DecreasePending), for example
because many workloads were deleted at once. It lists them, asks at a terminal, and annotates each PodProtector with
` + v1alpha1.AnnotationConfirmRelease + ` for 10 minutes. Without names it confirms those of the namespace, which is that of the
context unless --namespace or --all-namespaces is given. If a named PodProtector has no pending decrease, the command fails and
confirms nothing. Do not confirm a decrease by taking finalizers off.`,
		Example: strings.ReplaceAll(`  breakwater release --all-namespaces                         # what is held, and what waits to be deleted
  breakwater release --all-namespaces --deleted --yes         # let go of what waits
  breakwater release --namespace shop PodProtector/web --yes  # of one
  breakwater release --pending --all-namespaces --dry-run     # floors that are held although a large decrease was asked for
  breakwater release --pending --namespace shop               # confirm the decreases of a namespace
  breakwater release --pending --namespace shop web --yes     # of one`, "breakwater release", program+" release"),
		RunE: func(command *cobra.Command, names []string) error {
			if f.pending {
				return f.runPending(command.Context(), command.InOrStdin(), command.OutOrStdout(), names)
			}
			return f.run(command.Context(), command.OutOrStdout(), names)
		},
	}
	flags := command.Flags()
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "what is in all namespaces, and what has none")
	flags.StringSliceVar(&f.kinds, "kind", nil, "one more kind of workloads to look at, as `group/version/Kind`; those that protectors name are looked at anyway")
	flags.BoolVar(&f.deleted, "deleted", false, "only what was deleted and waits for its finalizers")
	flags.BoolVar(&f.yes, "yes", false, "take the finalizers off, without it nothing is changed; with --pending: confirm without asking")
	flags.BoolVar(&f.pending, "pending", false, "confirm pending decreases of floors: those of the named PodProtectors, or all")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what there is, change nothing, and do not ask")
	return command
}

func (f *releaseFlags) run(ctx context.Context, out io.Writer, names []string) error {
	if (f.core.Given() == "") != f.all {
		return errors.New("give either --namespace or --all-namespaces")
	}
	if f.dryRun && f.yes {
		return errors.New("give either --dry-run or --yes")
	}
	for _, name := range names {
		if kind, rest, ok := strings.Cut(name, "/"); !ok || kind == "" || rest == "" {
			return fmt.Errorf("%q: want KIND/NAME, such as PodProtector/deployment-web", name)
		}
	}
	config, err := f.core.Config(ctx, "release")
	if err != nil {
		return err
	}
	finder, err := f.finder(config)
	if err != nil {
		return err
	}
	found, err := finder.Find(ctx)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(h finalizers.Hold) bool { return f.deleted && !h.Deleted() || !isNamed(&h, names) })
	if err := f.tell(out, found); err != nil || !f.yes {
		return err
	}
	for i := range found {
		if err := finalizers.Release(ctx, finder.Metadata, &found[i]); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, "released", found[i].Name()); err != nil {
			return err
		}
	}
	return nil
}

func (f *releaseFlags) finder(config *rest.Config) (*finalizers.Finder, error) {
	finder := &finalizers.Finder{Namespace: f.core.Given()}
	for _, text := range f.kinds {
		parts := strings.Split(text, "/")
		if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts[len(parts)-2:], "") {
			return nil, fmt.Errorf("--kind %q: want group/version/Kind, such as argoproj.io/v1alpha1/Rollout", text)
		}
		at := len(parts) - 1
		finder.Kinds = append(finder.Kinds, schema.FromAPIVersionAndKind(strings.Join(parts[:at], "/"), parts[at]))
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	if finder.Mapper, err = apiutil.NewDynamicRESTMapper(config, client); err != nil {
		return nil, err
	}
	finder.Metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(config), client)
	return finder, err
}

// isNamed reports whether an object is among the named ones. No names match all objects.
func isNamed(h *finalizers.Hold, names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool {
		return strings.EqualFold(name, h.Kind.Kind+"/"+h.Object.Name)
	})
}

func (f *releaseFlags) tell(out io.Writer, found []finalizers.Hold) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(out, "Nothing is held.")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rows := []string{"KIND\tNAMESPACE\tNAME\tFINALIZERS\tSTATE\n"}
	for i := range found {
		h, state := &found[i], "in use"
		if h.Deleted() {
			state = "deleted " + h.Object.DeletionTimestamp.UTC().Format("2006-01-02T15:04:05Z")
		}
		row := []string{h.Kind.Kind, h.Object.Namespace, h.Object.Name, strings.Join(h.Finalizers, ","), state}
		rows = append(rows, strings.Join(printable.Value(row), "\t")+"\n")
	}
	if _, err := io.WriteString(table, strings.Join(rows, "")); err != nil {
		return err
	}
	if err := table.Flush(); err != nil || f.yes {
		return err
	}
	_, err := fmt.Fprintln(out, "Nothing was changed. With --yes these finalizers are taken off.")
	return err
}
