// Command argocd runs one component of Argo CD, as Argo CD's own program does, or the Redis server that its components share.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alicebob/miniredis/v2"
	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	applicationset "github.com/argoproj/argo-cd/v3/cmd/argocd-applicationset-controller/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/spf13/cobra"
)

func main() {
	// Argo CD parses klog's flags by the flag package.
	flag.CommandLine.Init("argocd", flag.ContinueOnError)
	root := &cobra.Command{Use: "argocd", SilenceUsage: true}
	root.AddCommand(controller.NewCommand(), applicationset.NewCommand(), reposerver.NewCommand(), &cobra.Command{
		Use: "redis ADDRESS", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, arguments []string) error { return serveRedis(arguments[0]) },
	})
	if err := root.Execute(); err != nil {
		os.Exit(1)
	}
}

// serveRedis serves until a signal.
func serveRedis(address string) error {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr(address); err != nil {
		return fmt.Errorf("serve Redis: %w", err)
	}
	defer server.Close()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	<-ctx.Done()
	return nil
}
