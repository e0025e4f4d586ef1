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
		Short: "Explain what Breakwater would do, without changes",
		Args:  cobra.NoArgs,
	}
	command.AddCommand(explainSchedulingCommand())
	return command
}

func explainSchedulingCommand() *cobra.Command {
	f := &explainFlags{}
	command := &cobra.Command{
		Use:   "scheduling -f FILE|DIR|- [-f ...] [--kubeconfig CORE | --core NAME=KUBECONFIG ... | --policies FILE|DIR|-] [--cell NAME] [-o table|yaml|json|patch]",
		Short: "Explain the effect of scheduling policies on a pod or a workload",
		Long: `Explains the effect of PodSchedulingPolicies and ClusterPodSchedulingPolicies on new pods and workloads (Deployment, StatefulSet, DaemonSet,
ReplicaSet, ReplicationController, Job, CronJob): which policies apply, in their order; what each of them injects; what conflicts with it or is
skipped, and why; which PodProtectors spread new pods (spec.spread.enforcement: Schedule); and the resulting JSON patch. For a workload, the command
first explains the template, and then the pods that are created from it. It decides like a webhook with --scheduling, and writes to no cluster.

The command reads policies and PodProtectors from the core cluster, from each of several with --core, or without any cluster from files with
--policies. It does not validate files like an API server; use kubectl apply --dry-run=server for that.

With --cell the explanation is for that cell: whether its Cell includes the pods, and which pods the workloads of PodProtectors select there. Without
--cell, a pod belongs to every core cluster, and a PodProtector covers it if it covers it in any cell.

ClusterPodSchedulingPolicies can select namespaces by labels: set the labels with --namespace-labels, or let the command read them from the cluster
of --cell-kubeconfig. Otherwise it knows only the label kubernetes.io/metadata.name. With --cell-kubeconfig the command also reports whether the API
server of that cluster calls the webhook, and for which namespaces. Without it, the webhook ignores --exempt-namespaces and namespaces with the label
breakwater.dev/exempt=true.

The exit code is 1 if an object would be denied or if something cannot be read, and 0 otherwise, even if there are conflicts with a policy.`,
		Example: `  breakwater explain scheduling -f pod.yaml --context core
  helm template shop | breakwater explain scheduling -f - --policies policies/ --namespace shop --namespace-labels env=prod
  breakwater explain scheduling -f deployment.yaml --kubeconfig core.kubeconfig --cell-kubeconfig worker-1.kubeconfig -o yaml`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return f.run(command.Context(), command.InOrStdin(), command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringArrayVarP(&f.files, "filename", "f", nil, "`file` with objects, folder with .yaml, .yml and .json files, or - for standard input; may be repeated")
	flags.BoolVarP(&f.recursive, "recursive", "R", false, "also read the subfolders of -f and --policies")
	flags.StringArrayVar(&f.policies, "policies", nil, "`file` or folder with policies and PodProtectors to use instead of a cluster; may be repeated")
	bindCluster(flags, &f.core, "", "the core cluster")
	flags.StringArrayVar(&f.cores, "core", nil, "`NAME=KUBECONFIG` of a core cluster, instead of --kubeconfig if there are several; may be repeated")
	bindCluster(flags, &f.cell, "cell-", "the cell's cluster, to read the labels of namespaces, and whether its API server calls the webhook")
	flags.StringVar(&f.cellName, "cell", "", "`name` of the objects' Cell")
	flags.StringSliceVar(&f.exemptNamespaces, "exempt-namespaces", webhook.DefaultExemptNamespaces(), "`namespaces` that the cell's webhook configuration exempts, if --cell-kubeconfig is not set")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of objects without a namespace; empty: the namespace of the context, or default with --policies")
	flags.StringVar(&f.namespaceLabels, "namespace-labels", "", "`labels` of the namespaces, such as env=prod,tier=front")
	flags.BoolVar(&f.update, "update", false, "explain an update of existing objects")
	flags.StringVarP(&f.output, "output", "o", "table", "`format`: table, yaml (the resulting objects), json (all details), or patch (JSON patches, one per line)")
	return command
}

func (f *explainFlags) run(ctx context.Context, in io.Reader, out, log io.Writer) error {
	write, err := f.validate()
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
	rules, more, err := f.readRules(ctx, in, objects)
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
		objectSteps, err := rules.explain(object, f.update)
		if err != nil {
			return fmt.Errorf("%s: %w", commands.FormatRef(object.ref), err)
		}
		steps = append(steps, objectSteps...)
	}
	if !rules.webhooks.readable && slices.ContainsFunc(steps, func(s step) bool { return len(s.Spreads) > 0 }) {
		if _, err := fmt.Fprintln(log, "note: only a webhook with --scheduling adds spreads; set --cell-kubeconfig to check whether the cell's API server calls one"); err != nil {
			return err
		}
	}
	if err := write(out, log, steps); err != nil {
		return fmt.Errorf("write the explanation: %w", err)
	}
	return denialError(steps)
}

// validate validates the flags before anything is read, and returns the writer for the output format.
func (f *explainFlags) validate() (write func(out, log io.Writer, steps []step) error, err error) {
	write, known := outputWriters()[f.output]
	switch {
	case len(f.files) == 0:
		return nil, errors.New("--filename is required: name the pods or workloads to explain")
	case !known:
		return nil, fmt.Errorf("--output %q: want table, yaml, json or patch", f.output)
	case len(f.policies) > 0 && (isSet(&f.core) || len(f.cores) > 0):
		return nil, errors.New("--policies reads files, and --kubeconfig, --context and --core select core clusters: set one or the other")
	case len(f.cores) > 0 && isSet(&f.core):
		return nil, errors.New("--core names each core cluster with its kubeconfig: omit --kubeconfig and --context")
	case f.namespaceLabels != "" && isSet(&f.cell):
		return nil, errors.New("set either --namespace-labels or --cell-kubeconfig")
	case slices.Contains(f.files, "-") && slices.Contains(f.policies, "-"):
		return nil, errors.New("standard input can be read only once: set either -f - or --policies -")
	}
	if _, err := labels.ConvertSelectorToLabelsMap(f.namespaceLabels); err != nil {
		return nil, fmt.Errorf("--namespace-labels %q: want KEY=VALUE,...: %w", f.namespaceLabels, err)
	}
	return write, nil
}

func isSet(c *clusters.Connection) bool { return c.Kubeconfig != "" || c.Context != "" }

// object is a pod or a workload to explain.
type object struct {
	convert.Source
	ref convert.Ref
}

// objects returns the sources that have pods, each with a namespace.
func (f *explainFlags) objects(sources []convert.Source) (objects []object, notes []string, err error) {
	namespace := f.namespace
	if namespace == "" && len(f.policies) == 0 {
		cores, err := f.coreConnections()
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
			notes = append(notes, fmt.Sprintf("skipped %s %s: scheduling policies do not apply to this kind", kind, source.Object.GetName()))
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
		return nil, nil, fmt.Errorf("%s contains no pod and no workload: provide one, for example from kubectl get deployment web -o yaml", strings.Join(f.files, ", "))
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
