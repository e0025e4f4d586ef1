// Command breakwater-node guards the containers of a node: it keeps those of pods that the API server lost. It is a program of its own
// because it runs on every node, and must need little memory.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"

	"github.com/breakwater-k8s/breakwater/internal/cli"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard/nodeinstall"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := rootCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "breakwater-node",
		Short: "Keep the containers of pods that the API server lost",
		Long: `A kubelet stops the containers of every pod that disappears from its API server, even if no client deleted it: because
etcd lost it, was restored from an older backup, or belongs to another cluster. The node guard is a proxy between the kubelet and the API
server that keeps such containers running and registers their pods again.`,
		Version: version.String(), SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(runCommand(), agentCommand(), installCommand(), uninstallCommand(), cli.ReferenceCommand())
	return root
}

func runCommand() *cobra.Command {
	var o nodeguard.Options
	command := &cobra.Command{
		Use: "run", Short: "Run the guard; the installed service does this", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			debug.SetGCPercent(50)
			debug.SetMemoryLimit(24 << 20) // the goal is 30 MiB
			o.Machine = nodeguard.ReadMachine("")
			o.Log = logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
			o.Ready = func(at net.Addr) {
				o.Log.Info("Serving the kubelet", "address", at.String())
				notify("READY=1")
				go keepWatchdog(c.Context())
			}
			return nodeguard.Run(c.Context(), o)
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.Node, "node", "", "name of the Node object of this node (required)")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", nodeinstall.DefaultKubeconfig+".breakwater-original", "the kubelet's kubeconfig for its API server")
	flags.StringVar(&o.Dir, "dir", nodeinstall.DefaultDir, "directory in which the guard keeps what it knows")
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:16443", "loopback address for the kubelet")
	flags.StringVar(&o.TokenFile, "token-file", nodeinstall.DefaultDir+"/token", "file with the token of the guard's account")
	flags.StringVar(&o.Namespace, "namespace", "breakwater-system", "namespace of Breakwater in the cluster")
	flags.DurationVar(&o.Retention, "retention", 24*time.Hour, "how long a lost pod is held if it cannot be registered again")
	flags.StringVar(&o.MetricsListen, "metrics-listen", "", "address for Prometheus, such as :16444; empty for none")
	_ = command.MarkFlagRequired("node")
	return command
}

// notify tells systemd about the state of the service. It does nothing if another program started this one.
func notify(state string) {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" {
		return
	}
	if rest, abstract := strings.CutPrefix(address, "@"); abstract {
		address = "\x00" + rest
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return
	}
	_, _ = conn.Write([]byte(state))
	_ = conn.Close()
}

// keepWatchdog tells systemd twice a second that the guard runs.
func keepWatchdog(ctx context.Context) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for ctx.Err() == nil {
		notify("WATCHDOG=1")
		<-ticker.C
	}
}

func nodeFlags(c *cobra.Command) *nodeinstall.Node {
	n := &nodeinstall.Node{Out: c.OutOrStdout()}
	flags := c.Flags()
	flags.StringVar(&n.Root, "root", "", "where the node's file system is mounted; empty on the node itself")
	flags.StringVar(&n.Name, "node", "", "name of the Node object of this node (required)")
	flags.StringVar(&n.Kubeconfig, "kubeconfig", nodeinstall.DefaultKubeconfig, "the kubelet's kubeconfig")
	flags.StringVar(&n.Dir, "dir", nodeinstall.DefaultDir, "directory in which the guard keeps what it knows")
	flags.StringVar(&n.Listen, "listen", "127.0.0.1:16443", "loopback address for the kubelet")
	flags.StringVar(&n.Namespace, "namespace", "breakwater-system", "namespace of Breakwater in the cluster")
	flags.StringVar(&n.KubeletService, "kubelet-service", "kubelet", "systemd service of the kubelet")
	flags.DurationVar(&n.Retention, "retention", 24*time.Hour, "how long a lost pod is held if it cannot be registered again")
	flags.StringVar(&n.MetricsListen, "metrics-listen", "", "address at which the guard serves metrics, such as :16444; empty for none")
	_ = c.MarkFlagRequired("node")
	return n
}

func agentCommand() *cobra.Command {
	a := &nodeinstall.Agent{}
	var healthListen string
	command := &cobra.Command{
		Use: "agent", Short: "Keep the guard installed on a node, and its token valid; the DaemonSet of the chart does this", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			a.Log = logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil))
			var err error
			if a.Tokens, err = nodeguard.InCluster(); err != nil {
				return err
			}
			if err := serveHealth(c.Context(), healthListen, a); err != nil {
				return err
			}
			return a.Run(c.Context())
		},
	}
	a.Node = nodeFlags(command)
	flags := command.Flags()
	flags.StringVar(&a.ServiceAccount, "service-account", "breakwater-node", "ServiceAccount of the guard, in --namespace")
	flags.StringVar(&healthListen, "health-listen", "127.0.0.1:16445", "address for probes, which succeed if the guard is installed, or uninstalled with --uninstall")
	flags.BoolVar(&a.Remove, "uninstall", false, "uninstall the guard, once no pods are held or registered, instead of installing it")
	return command
}

// serveHealth serves the answers to probes until ctx ends.
func serveHealth(ctx context.Context, address string, handler http.Handler) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }()
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	return nil
}

func installCommand() *cobra.Command {
	var tokenFile string
	command := &cobra.Command{Use: "install", Short: "Install the guard on a node, and make the kubelet use it", Args: cobra.NoArgs}
	n := nodeFlags(command)
	command.Flags().StringVar(&tokenFile, "token-file", "", "file with the token of the guard's account, which is copied to the node (required)")
	_ = command.MarkFlagRequired("token-file")
	command.RunE = func(c *cobra.Command, _ []string) error {
		token, err := os.ReadFile(tokenFile)
		if err != nil {
			return err
		}
		return n.Install(c.Context(), token)
	}
	return command
}

func uninstallCommand() *cobra.Command {
	var force bool
	command := &cobra.Command{Use: "uninstall", Short: "Make the kubelet use its API server directly, and remove the guard", Args: cobra.NoArgs}
	n := nodeFlags(command)
	command.Flags().BoolVar(&force, "force", false, "uninstall even if containers of held or registered pods restart")
	command.RunE = func(c *cobra.Command, _ []string) error { return n.Uninstall(c.Context(), force) }
	return command
}
