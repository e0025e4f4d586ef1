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
		Short: "Find out whether an installation works, from within its cluster",
		Long: `Looks at an installation and prints what it finds, again and again until all is well or --timeout has passed; then it exits
with 1. helm test runs it in a pod.

  --webhook-configuration     it exists, and its webhook answers by TLS that its caBundle vouches for, at the address that it names,
                              about the removal of a pod that nobody protects. The pod does not exist, and nothing is written
  --scheduling-configuration  it exists, and its webhook answers likewise about a pod that is created, and can ask scheduling policies
  --core                      the API is served, there are Cells, and each is Ready, Connected, AggregationFresh and Guarded
  --rings                     each ClusterRing is Ready and ShardsAvailable, and the sharder answers, as the webhook must, about an
                              object that does not exist

A webhook that wants certificates of its clients (webhook --client-ca) refuses this one.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context(), command.OutOrStdout()) },
	}
	flags := command.Flags()
	bindCluster(flags, &f.cluster, "", "the cluster")
	bindUser(flags, &f.cluster, "", "the cluster")
	flags.StringArrayVar(&f.configurations, "webhook-configuration", nil, "`name` of a ValidatingWebhookConfiguration of the cluster; may be repeated")
	flags.StringArrayVar(&f.scheduling, "scheduling-configuration", nil, "`name` of a MutatingWebhookConfiguration of the cluster that adds what scheduling policies ask for; may be repeated")
	flags.StringVarP(&f.namespace, "namespace", "n", defaultNamespace, "`namespace` without protectors, which what is asked about is in")
	flags.BoolVar(&f.core, "core", false, "the cluster is a core: look at its API and its Cells")
	flags.BoolVar(&f.rings, "rings", false, "a sharder looks after the ClusterRings of the cluster: look at them")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long to wait until all is well")
	return command
}

func (f *checkFlags) run(ctx context.Context, out io.Writer) error {
	if !f.core && !f.rings && len(f.configurations)+len(f.scheduling) == 0 {
		return errors.New("nothing is to be looked at: give --core, --rings, --webhook-configuration or --scheduling-configuration")
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
	findings := f.await(ctx, checker)
	if err := tellFindings(out, findings); err != nil {
		return err
	}
	if slices.ContainsFunc(findings, isBad) {
		return fmt.Errorf("not all is well after %s", f.timeout)
	}
	return nil
}

func isBad(f check.Finding) bool { return f.Problem != "" }

// await returns the first findings without a problem, or the last findings before the timeout.
func (f *checkFlags) await(ctx context.Context, checker *check.Checker) []check.Finding {
	every := time.NewTicker(checkEvery)
	defer every.Stop()
	findings := checker.Look(ctx)
	for slices.ContainsFunc(findings, isBad) {
		select {
		case <-ctx.Done():
			return findings
		case <-every.C:
		}
		if now := checker.Look(ctx); ctx.Err() == nil {
			findings = now
		}
	}
	return findings
}

func tellFindings(out io.Writer, findings []check.Finding) error {
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
