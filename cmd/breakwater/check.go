package main

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
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/check"
)

type checkFlags struct {
	cluster        clusters.Connection
	configurations []string
	scheduling     []string
	namespace      string
	core, rings    bool
	timeout        time.Duration
}

// checkEvery is the time between two checks.
const checkEvery = 2 * time.Second

func checkCommand() *cobra.Command {
	f := &checkFlags{}
	command := &cobra.Command{
		Use:   "check [--core] [--rings] [--webhook-configuration NAME ...] [--scheduling-configuration NAME ...]",
		Short: "Check from within a cluster whether an installation works",
		Long: `Checks an installation until all checks pass or --timeout has passed, and prints the findings. If a check fails, the exit code is 1.
helm test runs the command in a pod.

  --webhook-configuration     the configuration exists, and its webhook responds, at its address and with a certificate that its
                              caBundle trusts, to the removal of an unprotected pod. The pod does not exist, and nothing is written
  --scheduling-configuration  the configuration exists, and its webhook responds in the same way to the creation of a pod, and can
                              read scheduling policies
  --core                      the API is served, Cells exist, and each Cell is Ready, Connected, AggregationFresh and Guarded
  --rings                     each ClusterRing is Ready and ShardsAvailable, and the sharder responds correctly to an object that
                              does not exist

A webhook that requires client certificates (webhook --client-ca) denies the requests of this command.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context(), command.OutOrStdout()) },
	}
	flags := command.Flags()
	bindCluster(flags, &f.cluster, "", "the cluster")
	bindUser(flags, &f.cluster, "", "the cluster")
	flags.StringArrayVar(&f.configurations, "webhook-configuration", nil, "`name` of a ValidatingWebhookConfiguration of the cluster; may be repeated")
	flags.StringArrayVar(&f.scheduling, "scheduling-configuration", nil, "`name` of a MutatingWebhookConfiguration of the cluster for scheduling policies; may be repeated")
	flags.StringVarP(&f.namespace, "namespace", "n", defaultNamespace, "`namespace` without protectors, for the objects in requests to webhooks")
	flags.BoolVar(&f.core, "core", false, "the cluster is a core: check its API and its Cells")
	flags.BoolVar(&f.rings, "rings", false, "the cluster has a sharder: check its ClusterRings")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long to wait until all checks pass")
	return command
}

func (f *checkFlags) run(ctx context.Context, out io.Writer) error {
	if !f.core && !f.rings && len(f.configurations)+len(f.scheduling) == 0 {
		return errors.New("nothing to check: set --core, --rings, --webhook-configuration or --scheduling-configuration")
	}
	config, err := f.cluster.Config("check")
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	config.Timeout = 10 * time.Second
	checker := &check.Checker{
		Core: f.core, Rings: f.rings, Configurations: f.configurations, SchedulingConfigurations: f.scheduling, Namespace: f.namespace,
	}
	if checker.Discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		return err
	}
	if checker.Client, err = client.New(config, client.Options{Scheme: clusters.Scheme()}); err != nil {
		return fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	findings := f.awaitHealthy(ctx, checker)
	if err := writeFindings(out, findings); err != nil {
		return err
	}
	if slices.ContainsFunc(findings, isBad) {
		return fmt.Errorf("some checks failed after %s", f.timeout)
	}
	return nil
}

func isBad(f check.Finding) bool { return f.Problem != "" }

// awaitHealthy returns the first findings without a problem, or the last findings before the timeout.
func (f *checkFlags) awaitHealthy(ctx context.Context, checker *check.Checker) []check.Finding {
	every := time.NewTicker(checkEvery)
	defer every.Stop()
	findings := checker.Run(ctx)
	for slices.ContainsFunc(findings, isBad) {
		select {
		case <-ctx.Done():
			return findings
		case <-every.C:
		}
		if now := checker.Run(ctx); ctx.Err() == nil {
			findings = now
		}
	}
	return findings
}

func writeFindings(out io.Writer, findings []check.Finding) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	rows := []string{"WHAT\tSTATE\tPROBLEM\n"}
	for _, f := range findings {
		state := "ok"
		if isBad(f) {
			state = "FAILED"
		}
		rows = append(rows, f.What+"\t"+state+"\t"+strings.ReplaceAll(f.Problem, "\n", " ")+"\n")
	}
	if _, err := io.WriteString(table, strings.Join(rows, "")); err != nil {
		return err
	}
	return table.Flush()
}
