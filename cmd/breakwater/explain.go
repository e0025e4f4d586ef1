package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/breakwater-k8s/breakwater/internal/cli/commands"
	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
	"github.com/breakwater-k8s/breakwater/webhook"
)

type explainFlags struct {
	files     []string
	recursive bool
	policies  []string
	// core is the only core cluster, unless cores is set.
	core             clusters.Connection
	cores            []string
	cell             clusters.Connection
	cellName         string
	exemptNamespaces []string
	namespace        string
	namespaceLabels  string
	update           bool
	output           string
}

func explainCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "explain",
		Short: "Explain what Breakwater would do, without doing it",
		Args:  cobra.NoArgs,
	}
	command.AddCommand(explainSchedulingCommand())
	return command
}

func explainSchedulingCommand() *cobra.Command {
	f := &explainFlags{}
	command := &cobra.Command{
		Use:   "scheduling -f FILE|DIR|- [-f ...] [--kubeconfig CORE | --core NAME=KUBECONFIG ... | --policies FILE|DIR|-] [--cell NAME] [-o table|yaml|json|patch]",
		Short: "Explain what scheduling policies would make of a pod or a workload",
		Long: `Takes pods and workloads (Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Job, CronJob) as they are about to be
created, and tells which PodSchedulingPolicies and ClusterPodSchedulingPolicies apply, in their order, what each of them injects, what
contradicts it or is skipped and why, which PodProtectors have new pods spread (spec.spread.enforcement: Schedule), and the JSON patch that
comes of it. Of a workload it tells what becomes of its template, and then of the pods that are made of that. It decides as the webhook does
that runs with --scheduling. Nothing is written to any cluster.

Policies and PodProtectors are read from the core cluster, or from each of several with --core; or from files with --policies, without any
cluster. Files are not checked as an apiserver does: kubectl apply --dry-run=server does that.

With --cell it tells what is so in that cell: whether its Cell has such pods, and what the workloads of PodProtectors select there.
Without, a pod belongs to every core cluster, and is covered if a PodProtector covers it in any cell.

ClusterPodSchedulingPolicies go by the labels of namespaces in the cell: give them by --namespace-labels, or let them be read by
--cell-kubeconfig. Otherwise nothing but the label kubernetes.io/metadata.name is taken for granted. With --cell-kubeconfig it also tells
whether that cluster asks the webhook at all, and about which namespaces; without, --exempt-namespaces and those labelled
breakwater.dev/exempt=true are left out.

The exit code is 0 also if something contradicts a policy, and 1 if an object would be refused or something cannot be read.`,
		Example: `  breakwater explain scheduling -f pod.yaml --context core
  helm template shop | breakwater explain scheduling -f - --policies policies/ --namespace shop --namespace-labels env=prod
  breakwater explain scheduling -f deployment.yaml --kubeconfig core.kubeconfig --cell-kubeconfig worker-1.kubeconfig -o yaml`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return f.run(command.Context(), command.InOrStdin(), command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "`file` with objects, folder whose .yaml, .yml and .json files to read, or - for standard input; may be repeated")
	flags.BoolVarP(&f.recursive, "recursive", "R", false, "read the folders below those of -f and --policies too")
	flags.StringArrayVar(&f.policies, "policies", nil, "`file` or folder with policies and PodProtectors, which are read in place of a cluster; may be repeated")
	bindCluster(flags, &f.core, "", "the core cluster")
	flags.StringArrayVar(&f.cores, "core", nil, "`NAME=KUBECONFIG` of a core cluster, in place of --kubeconfig where there are several; may be repeated")
	bindCluster(flags, &f.cell, "cell-", "the cell's cluster, to read the labels of namespaces, and whether it asks the webhook")
	flags.StringVar(&f.cellName, "cell", "", "`name` of the Cell that the objects are created in")
	flags.StringSliceVar(&f.exemptNamespaces, "exempt-namespaces", webhook.DefaultExemptNamespaces(), "`namespaces` that the cell's configuration leaves out, where that is not read by --cell-kubeconfig")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of objects that name none; empty: that of the context, or default with --policies")
	flags.StringVar(&f.namespaceLabels, "namespace-labels", "", "`labels` of the namespaces, as env=prod,tier=front")
	flags.BoolVar(&f.update, "update", false, "the objects are there already, and are updated")
	flags.StringVarP(&f.output, "output", "o", "table", "`format`: table, yaml (the objects after it), json (all that is told), or patch (JSON patches, a line each)")
	return command
}

func (f *explainFlags) run(ctx context.Context, in io.Reader, out, log io.Writer) error {
	write, err := f.check()
	if err != nil {
		return err
	}
	sources, notes, err := commands.ReadFiles(f.files, f.recursive, in)
	if err != nil {
		return err
	}
	objects, skipped, err := f.objects(sources)
	if err != nil {
		return err
	}
	rules, more, err := f.rules(ctx, in, objects)
	if err != nil {
		return err
	}
	for _, note := range slices.Concat(notes, skipped, more) {
		if _, err := fmt.Fprintf(log, "note: %s\n", note); err != nil {
			return err
		}
	}
	var steps []step
	for _, object := range objects {
		its, err := rules.explain(object, f.update)
		if err != nil {
			return fmt.Errorf("%s: %w", commands.Place(object.ref), err)
		}
		steps = append(steps, its...)
	}
	if !rules.asking.looked && slices.ContainsFunc(steps, func(s step) bool { return len(s.Spreads) > 0 }) {
		if _, err := fmt.Fprintln(log, "note: spreads are added by a webhook that runs with --scheduling, and by no other: --cell-kubeconfig tells whether the cell asks one"); err != nil {
			return err
		}
	}
	if err := write(out, log, steps); err != nil {
		return fmt.Errorf("write the explanation: %w", err)
	}
	return refused(steps)
}

// check validates the flags before anything is read, and returns the writer for the output format.
func (f *explainFlags) check() (write func(out, log io.Writer, steps []step) error, err error) {
	write, known := explanations()[f.output]
	switch {
	case len(f.files) == 0:
		return nil, errors.New("give --filename: the pods or workloads to explain")
	case !known:
		return nil, fmt.Errorf("--output %q: want table, yaml, json or patch", f.output)
	case len(f.policies) > 0 && (isGiven(&f.core) || len(f.cores) > 0):
		return nil, errors.New("--policies reads files: --kubeconfig, --context and --core are of core clusters; give either")
	case len(f.cores) > 0 && isGiven(&f.core):
		return nil, errors.New("--core names each core cluster with its kubeconfig: leave --kubeconfig and --context out")
	case f.namespaceLabels != "" && isGiven(&f.cell):
		return nil, errors.New("give either --namespace-labels or --cell-kubeconfig")
	case slices.Contains(f.files, "-") && slices.Contains(f.policies, "-"):
		return nil, errors.New("standard input can be read once: give either -f - or --policies -")
	}
	if _, err := labels.ConvertSelectorToLabelsMap(f.namespaceLabels); err != nil {
		return nil, fmt.Errorf("--namespace-labels %q: want KEY=VALUE,...: %w", f.namespaceLabels, err)
	}
	return write, nil
}

func isGiven(c *clusters.Connection) bool { return c.Kubeconfig != "" || c.Context != "" }

// object is a pod or a workload to explain.
type object struct {
	convert.Source
	ref convert.Ref
}

// objects returns the sources that have pods, each with a namespace.
func (f *explainFlags) objects(sources []convert.Source) (objects []object, notes []string, err error) {
	namespace := f.namespace
	if namespace == "" && len(f.policies) == 0 {
		cores, err := f.connections()
		if err != nil {
			return nil, nil, err
		}
		if namespace, err = cores[0].Namespace(); err != nil {
			return nil, nil, err
		}
	}
	for _, source := range sources {
		kind := source.Object.GroupVersionKind().GroupKind()
		if _, ok := scheduling.PathOf(kind); !ok {
			notes = append(notes, fmt.Sprintf("skipped %s %s: it has no pods that scheduling policies are for", kind, source.Object.GetName()))
			continue
		}
		if source.Object.GetNamespace() == "" {
			source.Object.SetNamespace(cmp.Or(namespace, corev1.NamespaceDefault))
		}
		objects = append(objects, object{source, convert.Ref{
			Title: kind.Kind, Namespace: source.Object.GetNamespace(), Name: nameOf(source), Origin: source.Origin,
		}})
	}
	if len(objects) == 0 {
		return nil, nil, fmt.Errorf("%s has no pod and no workload: give one, as kubectl get deployment web -o yaml writes it", strings.Join(f.files, ", "))
	}
	return objects, notes, nil
}

// nameOf returns the name of an object, or its generateName prefix and "*".
func nameOf(source convert.Source) string {
	if prefix := source.Object.GetGenerateName(); source.Object.GetName() == "" && prefix != "" {
		return prefix + "*"
	}
	return source.Object.GetName()
}
