package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/webhook"
)

func webhookConfigCommand() *cobra.Command {
	var (
		options  webhook.ConfigurationOptions
		service  string
		caBundle string
	)
	command := &cobra.Command{
		Use:   "webhook-config --cell NAME|--core NAME --url URL|--service NAMESPACE/NAME[:PORT] [--ca-bundle FILE]",
		Short: "Print the ValidatingWebhookConfiguration for a cell, or for a core cluster",
		Long: `Prints the ValidatingWebhookConfiguration that makes the apiserver of a cell ask Breakwater about every
removal of a pod. Apply it to the cell's cluster:

  breakwater webhook-config --cell worker-1 --url https://breakwater.example:9443 --ca-bundle ca.crt | kubectl apply -f -

It never guards kube-system and its like, the exempt namespaces, and namespaces labelled
breakwater.dev/exempt=true. Deletions of pods that are terminating, finished or unscheduled never leave the
apiserver.

With --core it prints the one for a core cluster, which refuses a PodProtector whose targetRef another one has.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := completeConfiguration(&options, service, caBundle); err != nil {
				return err
			}
			describe := webhook.Configuration
			if options.Core != "" {
				describe = webhook.CoreConfiguration
			}
			configuration, err := describe(options)
			if err != nil {
				return err
			}
			raw, err := yaml.Marshal(configuration)
			if err != nil {
				return err
			}
			_, err = command.OutOrStdout().Write(raw)
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Cell, "cell", "", "`name` of the Cell, for the configuration of its cluster")
	flags.StringVar(&options.Core, "core", "", "`name` of the core cluster, as in webhook --core, for the configuration of that")
	flags.StringVar(&options.Name, "name", "", "`name` of the configuration object (default: breakwater, or breakwater-core with --core)")
	flags.StringVar(&options.URL, "url", "", "`address` of the webhook, as https://HOST:PORT")
	flags.StringVar(&service, "service", "", "Service of the webhook in the cell's cluster, as `NAMESPACE/NAME[:PORT]` (port 443 if left out)")
	flags.StringVar(&caBundle, "ca-bundle", "", "PEM `file` of the CA that signed the webhook's certificate; empty: left to an injector or to the apiserver's own trust")
	flags.StringSliceVar(&options.ExemptNamespaces, "exempt-namespaces", webhook.DefaultExemptNamespaces(), "`namespaces` that are never guarded")
	flags.Int32Var(&options.TimeoutSeconds, "timeout", 10, "how many `seconds` the apiserver waits for an answer, from 1 to 30")
	return command
}

func completeConfiguration(o *webhook.ConfigurationOptions, service, caBundle string) error {
	if (o.Cell == "") == (o.Core == "") {
		return errors.New("give either --cell or --core")
	}
	if problems := validation.IsDNS1123Label(o.Cell); o.Cell != "" && len(problems) > 0 {
		return fmt.Errorf("--cell %q is not the name of a Cell: %s", o.Cell, problems[0])
	}
	if problems := validation.IsDNS1123Label(o.Core); o.Core != "" && len(problems) > 0 {
		return fmt.Errorf("--core %q is not a name: %s", o.Core, problems[0])
	}
	if o.Name == "" && o.Core != "" {
		o.Name = "breakwater-core"
	}
	o.Name = cmp.Or(o.Name, "breakwater")
	if o.TimeoutSeconds < 1 || o.TimeoutSeconds > 30 {
		return fmt.Errorf("--timeout %d: want from 1 to 30", o.TimeoutSeconds)
	}
	if len(o.ExemptNamespaces) == 0 {
		return errors.New("--exempt-namespaces: name at least one, or a cluster could lock itself out")
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
	namespace, rest, ok := strings.Cut(service, "/")
	name, port, hasPort := strings.Cut(rest, ":")
	if !ok || namespace == "" || name == "" {
		return fmt.Errorf("--service %q: want NAMESPACE/NAME[:PORT]", service)
	}
	o.ServiceNamespace, o.ServiceName, o.ServicePort = namespace, name, 443
	if hasPort {
		number, err := strconv.ParseInt(port, 10, 32)
		if err != nil || number < 1 || number > 65535 {
			return fmt.Errorf("--service %q: %q is not a port", service, port)
		}
		o.ServicePort = int32(number)
	}
	return nil
}
