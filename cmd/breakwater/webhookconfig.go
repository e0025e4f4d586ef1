package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

const webhookConfigHelp = `Prints the ValidatingWebhookConfiguration with which the API server of a cell calls Breakwater for every removal of a pod. Apply it to the
cell's cluster:

  breakwater webhook-config --cell worker-1 --url https://breakwater.example:9443 --ca-bundle ca.crt | kubectl apply -f -

If the chart is installed in that cluster, upgrade its release instead, or set --release: an object that no release owns stays when the release
is uninstalled, and the API server then denies all removals. breakwater release --webhooks-of finds and deletes such objects.

For a Cell with spec.namespaces, set --namespaces. For a Cell with spec.podSelector, set --pod-selector: the command then also prints a
ValidatingAdmissionPolicy, which prevents changes of the labels by which pods belong to the cell.

The configuration never applies to kube-system and similar namespaces, the exempt namespaces, and namespaces with the label
breakwater.dev/exempt=true. The API server does not call the webhook for deletions of terminating, finished or unscheduled pods.

With --scope Protected the API server calls the webhook only in namespaces with the label breakwater.dev/protected=true. The aggregator of the
cell sets it in namespaces with PodProtectors, so that removals in other namespaces do not depend on the webhook. The command then also prints
a ValidatingAdmissionPolicy, by which only --aggregator-users remove the label. Before you change an installation, check that these
namespaces have the label: kubectl get namespaces --label-columns breakwater.dev/protected

With --core the command prints the configuration of a core cluster, which denies a second PodProtector for the same targetRef.

With --scheduling it prints the MutatingWebhookConfiguration that applies PodSchedulingPolicies to pods and workloads of a cell, for a
webhook with --scheduling. It exempts the same namespaces. If no webhook answers, pods are created unchanged, unless --failure-policy is
Fail.

With --root-guard it prints the ValidatingWebhookConfiguration for deletions of namespaces, workloads and other objects that floors depend
on. Set --core, --cell or both, according to the roles of the cluster; separate several cells of one cluster by commas. A worker with
shares is a core, too: set --core to the name of that cluster in webhook --core. If no webhook answers, the deletions are allowed; the pods
stay protected.` + staticHelp

func webhookConfigCommand() *cobra.Command {
	var (
		options  register.Options
		service  string
		caBundle string
		selector string
		schedule bool
		roots    rootFlags
		static   staticOptions
		key      string
		scope    scopeFlags
	)
	command := &cobra.Command{
		Use:   "webhook-config --cell NAME|--core NAME [--root-guard] --url URL|--service NAMESPACE/NAME[:PORT] [--ca-bundle FILE] [--static DIR]",
		Short: "Print the ValidatingWebhookConfiguration for a cell, or for a core cluster",
		Long:  webhookConfigHelp,
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := readCallerKey(&options.Endpoint, key, static.folder != ""); err != nil {
				return err
			}
			if roots.enabled && scope.isChanged(command.Flags()) {
				return errors.New("--scope and --aggregator-users are for removals: omit them with --root-guard")
			}
			if roots.enabled {
				return roots.write(command, options, service, caBundle, schedule || selector != "", static.folder != "")
			}
			if roots.isChanged(command.Flags()) {
				return errors.New("--root-kinds and --own-namespace need --root-guard")
			}
			if err := errors.Join(static.complete(), completeScheduling(&options, schedule, command.Flags()), scope.complete(&options, schedule)); err != nil {
				return err
			}
			options.Name = cmp.Or(options.Name, defaultName(options, schedule))
			if err := completeConfiguration(&options, service, caBundle, selector); err != nil {
				return err
			}
			objects, err := configurations(options, schedule, selector)
			if err != nil {
				return err
			}
			objects = append(objects, scope.policy(&options)...)
			if static.folder != "" {
				return static.write(command.OutOrStdout(), objects)
			}
			return writeYAML(command.OutOrStdout(), options, objects)
		},
	}
	flags := command.Flags()
	static.addFlags(flags)
	flags.BoolVar(&schedule, "scheduling", false, "print the configuration for scheduling policies of a cell instead")
	flags.StringVar(&service, "service", "", "Service of the webhook in the cell's cluster, as `NAMESPACE/NAME[:PORT]` (default port 443)")
	flags.StringVar(&caBundle, "ca-bundle", "", "PEM `file` of the CA that signed the webhook's certificate; empty: an injector sets it, or the API server trusts the certificate itself")
	flags.StringVar(&key, "caller-key", "", "`file` with a key of caller tokens, such as the key current of the Secret breakwater-webhook-callers: print a configuration with a caller token, which is secret")
	flags.StringVar(&selector, "pod-selector", "", "label `selector` of the Cell in the syntax of kubectl, if it includes only some pods of its cluster")
	bindConfiguration(flags, &options)
	scope.bind(flags)
	roots.bind(flags)
	return command
}

// bindConfiguration adds the flags of common options.
func bindConfiguration(flags *pflag.FlagSet, options *register.Options) {
	flags.StringVar(&options.Cell, "cell", "", "`name` of the Cell, for the configuration of its cluster")
	flags.StringVar(&options.Core, "core", "", "`name` of the core cluster as in webhook --core, for the configuration of that cluster")
	flags.StringVar(&options.Name, "name", "", "`name` of the configuration object (default: that of the chart: breakwater-cell-CELL, breakwater-core with --core, "+
		"breakwater-scheduling-CELL with --scheduling, or breakwater-roots with --root-guard)")
	flags.StringVar(&options.Release, "release", "", "Helm release of the chart in the cluster, as `NAMESPACE/NAME`: it then owns the objects, and deletes them when it is uninstalled")
	flags.StringVar((*string)(&options.FailurePolicy), "failure-policy", "", "with --scheduling, the failure policy for pods and workloads when no webhook answers: `Ignore|Fail` (default Ignore)")
	flags.StringVar(&options.URL, "url", "", "`address` of the webhook, as https://HOST:PORT")
	flags.StringSliceVar(&options.Namespaces, "namespaces", nil, "`namespaces` of the Cell, if it includes only some of its cluster")
	flags.StringSliceVar(&options.ExemptNamespaces, "exempt-namespaces", webhookconfig.DefaultExemptNamespaces(), "`namespaces` that are never protected")
	flags.Int32Var(&options.TimeoutSeconds, "timeout", 10, "how many `seconds` the API server waits for an answer, from 1 to 30 (default 2 with --scheduling and --root-guard)")
}

// readCallerKey makes the API server authenticate with a caller token.
func readCallerKey(endpoint *register.Endpoint, file string, static bool) error {
	switch {
	case file == "":
		return nil
	case static:
		return errors.New("--caller-key excludes --static: an API server whose files you write can have a client certificate, which does not appear in its errors (docs/how-to/certificates.md)")
	}
	raw, err := os.ReadFile(file)
	if err == nil && len(raw) == 0 {
		err = fmt.Errorf("%s is empty", file)
	}
	if err != nil {
		return fmt.Errorf("--caller-key: %w", err)
	}
	endpoint.CallerKey = raw
	return nil
}

// configurations returns the objects to apply. The policies of a cell with a selector are added only once, to the configuration for
// removals.
func configurations(options register.Options, schedule bool, selector string) ([]any, error) {
	var parsedSelector *v1alpha1.PodSelector
	var err error
	if selector != "" {
		if parsedSelector, err = podSelector(selector); err != nil {
			return nil, err
		}
	}
	if schedule {
		configuration, err := register.SchedulingConfiguration(options)
		return []any{configuration}, err
	}
	if options.Core != "" && (selector != "" || len(options.Namespaces) > 0) {
		return nil, errors.New("--namespaces and --pod-selector are those of a Cell: omit them with --core")
	}
	build := register.Configuration
	if options.Core != "" {
		build = register.CoreConfiguration
	}
	configuration, err := build(options)
	if err != nil {
		return nil, err
	}
	objects := []any{configuration}
	if parsedSelector != nil {
		objects = append(objects, webhookconfig.LabelPolicy(options.Cell, parsedSelector), webhookconfig.LabelBinding(options.Cell))
	}
	return objects, nil
}

// writeYAML writes the objects of a configuration with its labels.
func writeYAML(to io.Writer, o register.Options, objects []any) error {
	for i, object := range objects {
		if labeled, ok := object.(metav1.Object); ok {
			o.Label(labeled)
		}
		raw, err := printable.YAML(object)
		if err != nil {
			return err
		}
		if i > 0 {
			raw = append([]byte("---\n"), raw...)
		}
		if _, err := to.Write(raw); err != nil {
			return err
		}
	}
	return nil
}

// podSelector parses a selector in kubectl's syntax.
func podSelector(text string) (*v1alpha1.PodSelector, error) {
	selector, err := v1alpha1.ParsePodSelector(text)
	if err != nil {
		return nil, fmt.Errorf("--pod-selector %q: %w", text, err)
	}
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return nil, fmt.Errorf("--pod-selector %q matches all pods: omit the flag", text)
	}
	return selector, nil
}

// completeScheduling validates and completes the options of the configuration for scheduling policies.
func completeScheduling(o *register.Options, schedule bool, flags *pflag.FlagSet) error {
	switch {
	case !schedule && o.FailurePolicy != "":
		return errors.New("--failure-policy needs --scheduling: removals are always denied when no webhook answers")
	case !schedule:
		return nil
	case o.Core != "":
		return errors.New("--scheduling is for a cell: set --cell, not --core")
	case !slices.Contains([]admissionregistrationv1.FailurePolicyType{"", admissionregistrationv1.Ignore, admissionregistrationv1.Fail}, o.FailurePolicy):
		return fmt.Errorf("--failure-policy %q: want Ignore or Fail", o.FailurePolicy)
	}
	if !flags.Changed("timeout") {
		o.TimeoutSeconds = 2
	}
	return nil
}

// defaultName returns the default name of a configuration object: that of the chart. A second object for the same cell would outlive the release, and
// then deny all removals.
func defaultName(o register.Options, schedule bool) string {
	switch {
	case o.Core != "":
		return "breakwater-core"
	case schedule:
		return "breakwater-scheduling-" + o.Cell
	}
	return "breakwater-cell-" + o.Cell
}

func completeConfiguration(o *register.Options, service, caBundle, selector string) error {
	if (o.Cell == "") == (o.Core == "") {
		return errors.New("set either --cell or --core")
	}
	if problems := validation.IsDNS1123Label(o.Cell); o.Cell != "" && len(problems) > 0 {
		return fmt.Errorf("--cell %q is not the name of a Cell: %s", o.Cell, problems[0])
	}
	if problems := validation.IsDNS1123Label(o.Core); o.Core != "" && len(problems) > 0 {
		return fmt.Errorf("--core %q is not a name: %s", o.Core, problems[0])
	}
	if o.TimeoutSeconds < 1 || o.TimeoutSeconds > 30 {
		return fmt.Errorf("--timeout %d: want from 1 to 30", o.TimeoutSeconds)
	}
	if selector != "" && len(o.Namespaces) > 0 {
		return errors.New("--namespaces and --pod-selector exclude each other, as in a Cell")
	}
	if len(o.ExemptNamespaces) == 0 {
		return errors.New("--exempt-namespaces: name at least one; otherwise a cluster could lock itself out")
	}
	if namespace, name, ok := strings.Cut(o.Release, "/"); o.Release != "" && (!ok || namespace == "" || name == "") {
		return fmt.Errorf("--release %q: want NAMESPACE/NAME, such as breakwater-system/breakwater", o.Release)
	}
	if caBundle != "" {
		raw, err := os.ReadFile(caBundle)
		if err != nil {
			return fmt.Errorf("--ca-bundle: %w", err)
		}
		o.CABundle = raw
	}
	if service == "" {
		return nil
	}
	key, port, err := parseService(service)
	o.ServiceNamespace, o.ServiceName, o.ServicePort = key.Namespace, key.Name, port
	return err
}
