// Command cert-manager runs cert-manager's controllers for self-signed and CA issuers, and its cainjector, in one process. They issue,
// renew and inject the certificates of webhooks. The command is for tests, so it elects no leader and serves nothing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	// Not flag.CommandLine: imported packages add their own flags to it.
	flags := flag.NewFlagSet("cert-manager", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig `file` of the cluster (required)")
	namespace := flags.String("cluster-resource-namespace", "cert-manager", "`namespace` of the Secrets of ClusterIssuers")
	_ = flags.Parse(os.Args[1:]) // exits on an error
	if *kubeconfig == "" {
		fmt.Fprintln(os.Stderr, "cert-manager: --kubeconfig is required: name the kubeconfig file of the cluster")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := klog.NewKlogr()
	ctrl.SetLogger(log)
	if err := run(logr.NewContext(ctx, log), *kubeconfig, *namespace); err != nil {
		fmt.Fprintln(os.Stderr, "cert-manager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, namespace string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	injector, err := newInjector(ctx, config)
	if err != nil {
		return err
	}
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return injector.Start(ctx) })
	running.Go(func() error { return issue(ctx, kubeconfig, namespace) })
	return running.Wait()
}
