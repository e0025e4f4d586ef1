package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli/finalizers"
)

type releaseFlags struct {
	core    Cluster
	all     bool
	kinds   []string
	deleted bool
	yes     bool
	// pending confirms pending decreases instead. dryRun only lists.
	pending, dryRun bool
	// webhooksOf are the cells whose left webhook configurations are deleted as well.
	webhooksOf []string
	now        func() time.Time
}

// Release creates the release command of a program.
func Release(program string, core Cluster) *cobra.Command {
	command, _ := newRelease(program, core)
	return command
}

func newRelease(program string, core Cluster) (*cobra.Command, *releaseFlags) {
	f := &releaseFlags{core: core, now: time.Now}
	command := &cobra.Command{
		Use:   "release [KIND/NAME ...]",
		Short: "Remove Breakwater's finalizers from objects of a core cluster, or confirm pending decreases of floors",
		Long: `Breakwater adds finalizers (breakwater.dev/...) to protectors, to their source workloads and to policies, to distinguish a deletion from
a loss. The generator removes them itself. If the generator was uninstalled, objects with these finalizers cannot be deleted: this
command lists them, and with --yes removes the finalizers of Breakwater. It keeps all other finalizers.

A deleted protector protects nothing after its finalizers are removed: its pods can be removed at once. A protector that was not deleted
remains. A running generator adds its finalizers again to objects that were not deleted; do not use this command then.

With --pending the command confirms large decreases of floors that the generator holds back (condition DecreasePending), for example
because many workloads were deleted at once. It lists them, asks at a terminal, and annotates each PodProtector with
` + v1alpha1.AnnotationConfirmRelease + ` for 10 minutes. Without names it confirms those of the namespace, which is that of the
context unless --namespace or --all-namespaces is set. If a named PodProtector has no pending decrease, the command fails and
confirms nothing. Do not confirm a decrease by removing finalizers.`,
		Example: strings.ReplaceAll(`  breakwater release --all-namespaces                         # objects with finalizers, and whether they were deleted
  breakwater release --all-namespaces --deleted --yes         # remove the finalizers of deleted objects
  breakwater release --namespace shop PodProtector/web --yes  # of one object
  breakwater release --pending --all-namespaces --dry-run     # pending decreases of floors
  breakwater release --pending --namespace shop               # confirm the decreases of a namespace
  breakwater release --pending --namespace shop web --yes     # of one protector`, "breakwater release", program+" release"),
		RunE: func(command *cobra.Command, names []string) error {
			if f.pending && len(f.webhooksOf) > 0 {
				return errors.New("set either --pending or --webhooks-of")
			}
			if f.pending {
				return f.runPending(command.Context(), command.InOrStdin(), command.OutOrStdout(), names)
			}
			return f.run(command.Context(), command.OutOrStdout(), names)
		},
	}
	flags := command.Flags()
	flags.BoolVarP(&f.all, "all-namespaces", "A", false, "objects of all namespaces, and cluster-scoped objects")
	flags.StringSliceVar(&f.kinds, "kind", nil, "additional kind of workloads to search, as `group/version/Kind`; kinds that protectors name are always searched")
	flags.BoolVar(&f.deleted, "deleted", false, "only deleted objects that wait for their finalizers")
	flags.BoolVar(&f.yes, "yes", false, "remove the finalizers; without it nothing is changed. With --pending: confirm without asking")
	flags.BoolVar(&f.pending, "pending", false, "confirm pending decreases of floors: those of the named PodProtectors, or all")
	flags.BoolVar(&f.dryRun, "dry-run", false, "list only: do not change anything, and do not ask")
	return command, f
}

func (f *releaseFlags) run(ctx context.Context, out io.Writer, names []string) error {
	hasNamespace := f.core.NamespaceFlag() != ""
	onlyWebhooks := len(f.webhooksOf) > 0 && !hasNamespace && !f.all
	if hasNamespace == f.all && !onlyWebhooks {
		return errors.New("set either --namespace or --all-namespaces")
	}
	if f.dryRun && f.yes {
		return errors.New("set either --dry-run or --yes")
	}
	for _, name := range names {
		if kind, rest, ok := strings.Cut(name, "/"); !ok || kind == "" || rest == "" || onlyWebhooks {
			return fmt.Errorf("%q: want KIND/NAME, such as PodProtector/deployment-web, and a namespace", name)
		}
	}
	config, err := f.core.Config(ctx, "release")
	if err != nil {
		return err
	}
	if !onlyWebhooks {
		if err := f.releaseFinalizers(ctx, out, config, names); err != nil {
			return err
		}
	}
	if len(f.webhooksOf) == 0 {
		return nil
	}
	return f.releaseWebhooks(ctx, out, config)
}

func (f *releaseFlags) releaseFinalizers(ctx context.Context, out io.Writer, config *rest.Config, names []string) error {
	finder, err := f.finder(config)
	if err != nil {
		return err
	}
	found, err := finder.Find(ctx)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(h finalizers.HeldObject) bool { return f.deleted && !h.IsDeleted() || !isNamed(&h, names) })
	if err := f.printHeld(out, found); err != nil || !f.yes {
		return err
	}
	for i := range found {
		if err := finder.Release(ctx, &found[i]); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, "released", found[i].Name()); err != nil {
			return err
		}
	}
	return nil
}

func (f *releaseFlags) finder(config *rest.Config) (*finalizers.Finder, error) {
	var kinds []schema.GroupVersionKind
	for _, text := range f.kinds {
		parts := strings.Split(text, "/")
		if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts[len(parts)-2:], "") {
			return nil, fmt.Errorf("--kind %q: want group/version/Kind, such as argoproj.io/v1alpha1/Rollout", text)
		}
		at := len(parts) - 1
		kinds = append(kinds, schema.FromAPIVersionAndKind(strings.Join(parts[:at], "/"), parts[at]))
	}
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	finder, err := finalizers.NewFinder(config, connection, f.core.NamespaceFlag())
	if err != nil {
		return nil, err
	}
	finder.Kinds = kinds
	return finder, nil
}

// isNamed reports whether an object is among the named ones. No names match all objects.
func isNamed(h *finalizers.HeldObject, names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool {
		return strings.EqualFold(name, h.Kind.Kind+"/"+h.Object.Name)
	})
}

func (f *releaseFlags) printHeld(out io.Writer, found []finalizers.HeldObject) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(out, "No object has finalizers of Breakwater.")
		return err
	}
	rows := [][]string{{"KIND", "NAMESPACE", "NAME", "FINALIZERS", "STATE"}}
	for i := range found {
		h, state := &found[i], "in use"
		if h.IsDeleted() {
			state = "deleted " + h.Object.DeletionTimestamp.UTC().Format("2006-01-02T15:04:05Z")
		}
		rows = append(rows, []string{h.Kind.Kind, h.Object.Namespace, h.Object.Name, strings.Join(h.Finalizers, ","), state})
	}
	if err := writeTable(out, rows); err != nil || f.yes {
		return err
	}
	_, err := fmt.Fprintln(out, "Nothing was changed. Add --yes to remove these finalizers.")
	return err
}
