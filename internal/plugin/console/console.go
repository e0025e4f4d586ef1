// Package console contains the command console, which serves the console for its user.
package console

import (
	"context"
	"fmt"
	"html"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/console"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

type consoleFlags struct {
	*plugin.Plugin
	port int
	open bool
}

// Command returns the command console.
func Command(p *plugin.Plugin) *cobra.Command {
	f := &consoleFlags{Plugin: p}
	command := &cobra.Command{
		Use:   "console",
		Short: "Serve the console for yourself on this machine, and open it in a browser",
		Long: `Serves the page with protectors, cells and denials on 127.0.0.1, until you press ctrl-c. It reads the core clusters with your kubeconfig, and shows
what you may list there. You need permission to list and watch podprotectors and cells of breakwater.dev in all namespaces.

The printed link has a secret that signs you in. The page only reads. Timelines begin when the command starts.`,
		Example: `  kubectl breakwater console
  kubectl breakwater console --open=false --port 8080 --core-context hub`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return f.run(command.Context()) },
	}
	flags := command.Flags()
	flags.IntVar(&f.port, "port", 0, "`port` of 127.0.0.1 to serve on; 0: a free one")
	flags.BoolVar(&f.open, "open", true, "open the page in a browser, if the output is a terminal")
	return command
}

func (f *consoleFlags) run(ctx context.Context) error {
	cores, err := f.Clusters.Cores(ctx)
	if err != nil {
		return err
	}
	options := console.Default()
	options.Registry, options.Others = prometheus.NewRegistry(), map[string]*rest.Config{}
	for i, c := range cores {
		clientset, err := kubernetes.NewForConfig(c.Config)
		if err == nil {
			err = requirePermissions(ctx, c, clientset)
		}
		if err != nil {
			return err
		}
		if i == 0 && c.Name != "" {
			options.Core = c.Name
		} else if i > 0 {
			options.Others[c.Name] = withoutTimeout(c.Config)
		}
	}
	user, err := userName(ctx, cores[0])
	if err != nil {
		return err
	}
	if options.Local, err = console.NewLocal(net.JoinHostPort("127.0.0.1", fmt.Sprint(f.port)), user); err != nil {
		return fmt.Errorf("--port %d: %w", f.port, err)
	}
	defer options.Local.Listener.Close()
	folder, err := os.MkdirTemp("", "breakwater-console-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	options.Local.Ready = func() { f.announce(ctx, options.Local, folder) }
	mgr, err := f.manager(cores[0].Config)
	if err == nil {
		err = console.Setup(mgr, options)
	}
	if err != nil {
		return fmt.Errorf("set up the console: %w", err)
	}
	return mgr.Start(ctx)
}

// announce prints the link, and opens it by a file in the folder.
func (f *consoleFlags) announce(ctx context.Context, local *console.Local, folder string) {
	_, _ = fmt.Fprintf(f.Out, "The console of %s is at %s until you press ctrl-c.\n", local.User, local.URL())
	if out, ok := plugin.Underneath(f.Out).(*os.File); ok && f.open && term.IsTerminal(int(out.Fd())) {
		if err := openBrowser(ctx, local.URL(), filepath.Join(folder, "console.html")); err != nil {
			f.Note("cannot open a browser: %v", err)
		}
	}
}

// manager returns a manager without metrics and health checks, which reports only errors.
func (f *consoleFlags) manager(config *rest.Config) (manager.Manager, error) {
	log := funcr.New(func(_, line string) {
		if strings.Contains(line, `"error"=`) {
			f.Note("%s", line)
		}
	}, funcr.Options{})
	ctrl.SetLogger(log)
	return ctrl.NewManager(withoutTimeout(config), manager.Options{
		Scheme: clusters.Scheme(), Logger: log, Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
}

// withoutTimeout removes the timeout of --request-timeout, which would end watches.
func withoutTimeout(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Timeout = 0
	return config
}

// requirePermissions returns an error if the user may not watch what the console shows.
func requirePermissions(ctx context.Context, c plugin.Core, clientset kubernetes.Interface) error {
	var missing []string
	for _, resource := range []string{"podprotectors", "cells"} {
		for _, verb := range []string{"list", "watch"} {
			allowed, err := plugin.IsAllowed(ctx, clientset, &findings.Permission{Verb: verb, Group: "breakwater.dev", Resource: resource})
			if err != nil {
				return c.WithRemedy(err)
			}
			if !allowed {
				missing = append(missing, verb+" "+resource)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("you may not %s of breakwater.dev in all namespaces of the core, which the console watches: request this permission, or use "+
			"kubectl breakwater status in your namespace", strings.Join(missing, ", "))
	}
	return nil
}

func userName(ctx context.Context, c plugin.Core) (string, error) {
	clientset, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return "", err
	}
	review, err := clientset.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", c.WithRemedy(err)
	}
	return review.Status.UserInfo.Username, nil
}

// openBrowser opens a link with the program of the system. It writes the link to a file that only the user can read, because all users of a machine see
// the arguments of programs.
func openBrowser(ctx context.Context, link, file string) error {
	page := `<!doctype html><meta http-equiv="refresh" content="0; url=` + html.EscapeString(link) + `">`
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		return err
	}
	program := append(browserCommand(runtime.GOOS), file)
	command := exec.CommandContext(ctx, program[0], program[1:]...)
	if err := command.Start(); err != nil {
		return err
	}
	go func() { _ = command.Wait() }() // the browser may end much later
	return nil
}

func browserCommand(system string) []string {
	switch system {
	case "darwin":
		return []string{"open"}
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	default:
		return []string{"xdg-open"}
	}
}
