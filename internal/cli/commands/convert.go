package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// ExitWarnings is the exit code of convert --fail-on-warning if there are warnings.
const ExitWarnings = 2

type convertFlags struct {
	files         []string
	recursive     bool
	from          Cluster
	allNamespaces bool
	failOnWarning bool
	accept        []string
}

// Convert creates the convert command of a program. from is the cluster to read.
func Convert(program string, from Cluster) *cobra.Command {
	f := &convertFlags{from: from}
	command := &cobra.Command{
		Use:   "convert [-f FILE|DIR|-]... [--kubeconfig FILE] [--context CONTEXT] [-n NAMESPACE|-A]",
		Short: "Convert PodDisruptionBudgets to PodProtectors",
		Long: fmt.Sprintf(`Converts PodDisruptionBudgets to PodProtectors. The command reads files (-f: YAML, JSON, Lists), or else a cluster, and writes YAML for
kubectl apply to standard output. It changes nothing in any cluster.

A warning on standard error reports each difference in meaning between an object and its source, and each object that cannot be
converted. Read the warnings: docs/how-to/migrate.md explains their reasons. With --fail-on-warning, the command writes nothing and exits
with %d if there is a warning whose reason --accept does not name.`, ExitWarnings),
		Example: strings.ReplaceAll(`  breakwater convert -f manifests/ > protectors.yaml
  helm template shop | breakwater convert -f - --fail-on-warning --accept EvictionsOnly,OneCluster,UnhealthyPods
  breakwater convert --context worker-1 -A | kubectl --context core apply --dry-run=server -f -`, "breakwater convert", program+" convert"),
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return f.run(command.Context(), command.InOrStdin(), command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringArrayVarP(&f.files, "filename", "f", nil,
		"`file` to read, folder with .yaml, .yml and .json files, or - for standard input; may be repeated")
	flags.BoolVarP(&f.recursive, "recursive", "R", false, "also read the subfolders of -f")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "read all namespaces of the cluster")
	flags.BoolVar(&f.failOnWarning, "fail-on-warning", false, fmt.Sprintf("write nothing and exit with %d if there is a warning", ExitWarnings))
	flags.StringSliceVar(&f.accept, "accept", nil, "`reasons` of warnings that --fail-on-warning accepts, such as EvictionsOnly")
	return command
}

func (f *convertFlags) run(ctx context.Context, in io.Reader, out, log io.Writer) error {
	accepted, err := f.acceptedReasons()
	if err != nil {
		return err
	}
	sources, notes, err := f.read(ctx, in)
	if err != nil {
		return err
	}
	result := convert.Convert(sources)
	messages, unaccepted := warningText(result.Warnings, accepted)
	for _, note := range append(notes, conversionNotes(sources, &result)...) {
		messages += "note: " + note + "\n"
	}
	if _, err := io.WriteString(log, messages); err != nil {
		return fmt.Errorf("write the warnings: %w", err)
	}
	if f.failOnWarning && unaccepted > 0 {
		return cli.ExitError{Code: ExitWarnings, Err: fmt.Errorf("%s, and nothing was written; use --accept for acceptable reasons",
			printable.Count(unaccepted, "warning"))}
	}
	var manifests bytes.Buffer
	if err := writeManifests(&manifests, &result); err != nil {
		return err
	}
	if _, err := out.Write(manifests.Bytes()); err != nil {
		return fmt.Errorf("write the converted objects: %w", err)
	}
	return nil
}

func (f *convertFlags) acceptedReasons() ([]convert.Reason, error) {
	var accepted []convert.Reason
	for _, name := range f.accept {
		reason := convert.Reason(name)
		if !slices.Contains(convert.Reasons(), reason) {
			return nil, fmt.Errorf("--accept %q is not a reason of a warning; reasons are %v", name, convert.Reasons())
		}
		accepted = append(accepted, reason)
	}
	return accepted, nil
}

// read returns the objects of files or of a cluster, and notes about them.
func (f *convertFlags) read(ctx context.Context, in io.Reader) ([]convert.Source, []string, error) {
	if f.from.NamespaceFlag() != "" && f.allNamespaces {
		return nil, nil, errors.New("set either --namespace or --all-namespaces")
	}
	if len(f.files) == 0 {
		return f.list(ctx)
	}
	if f.from.IsSelected() || f.from.NamespaceFlag() != "" || f.allNamespaces {
		return nil, nil, errors.New("--filename reads files, and --kubeconfig, --context, --namespace and --all-namespaces select objects of a cluster: set " +
			"one or the other")
	}
	return readFiles(f.files, f.recursive, in)
}
