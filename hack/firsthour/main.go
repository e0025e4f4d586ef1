// Command firsthour plays the first hour of a user in a fresh cluster, a real control plane with the real Helm and kubectl: it installs the chart without
// values, labels a Deployment, and deletes its pods until the webhook refuses. Then it measures what kubectl receives while the core is unreachable and while
// no webhook runs, and writes first-hour-report/report.json. Nothing is a constant: commands and values are those that it ran.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
)

// timeout bounds the whole run.
const timeout = 5 * time.Minute

func main() {
	program := flag.String("program", "bin/breakwater", "`path` of breakwater")
	chart := flag.String("chart", "charts/breakwater", "`path` of the chart")
	out := flag.String("out", "first-hour-report", "`directory` for report.json")
	flag.Parse()
	ctrllog.SetLogger(logr.Discard()) // client libraries warn if no logger is set
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	err := run(ctx, os.Stdout, *program, *chart, *out)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "first hour:", err)
		os.Exit(1)
	}
}

// run starts the cluster, plays, and writes the report.
func run(ctx context.Context, out io.Writer, program, chart, reportDir string) (err error) {
	folder, err := os.MkdirTemp("", "first-hour-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	c, err := start(ctx, folder, program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop(ctx)) }()
	p := &play{cluster: c, chart: chart, out: out}
	if err := p.run(ctx); err != nil {
		return errors.Join(err, c.kubelet.Problems())
	}
	pages, err := readPages("README.md", "docs")
	if err != nil {
		return err
	}
	p.report.Pages, err = pagesToRead(pages, p.report.CommandLines, chart)
	return errors.Join(err, p.report.write(out, reportDir))
}

// cluster is a fresh cluster. Its pods reach the API server through a proxy.
type cluster struct {
	federation *local.Federation
	network    *release.Network
	kubelet    *release.Kubelet
	// pods is between the pods of Breakwater and the API server.
	pods *federation.Proxy
	home string
}

// start starts a cluster with nodes. It has nothing of Breakwater, so its role is worker: cores of a federation have the CRDs.
func start(ctx context.Context, folder, program string) (c *cluster, err error) {
	c = &cluster{home: folder}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop(ctx))
		}
	}()
	if program, err = filepath.Abs(program); err != nil {
		return nil, err
	}
	if c.network, err = release.NewNetwork(folder); err != nil {
		return nil, err
	}
	topology := &federation.Topology{Name: "first-hour", Clusters: []federation.ClusterSpec{{Name: "main", Roles: []federation.Role{federation.Worker}, Nodes: 3}}}
	c.federation, err = local.Start(ctx, topology, local.Options{
		Binaries: filepath.SplitList(os.Getenv(local.BinariesVariable)), Dir: filepath.Join(folder, "federation"), Log: logr.Discard(),
		APIServerArguments: []string{c.network.APIServerArgument()},
	})
	if err != nil {
		return nil, err
	}
	main := c.federation.Members[0]
	if c.pods, err = main.Proxy(ctx); err != nil {
		return nil, err
	}
	pods := filepath.Join(folder, "pods")
	if err := os.Mkdir(pods, 0o700); err != nil {
		return nil, err
	}
	if c.kubelet, err = release.StartKubeletBehind(main, c.pods.RESTConfig(), program, pods); err != nil {
		return nil, err
	}
	c.network.Route(c.kubelet)
	return c, c.kubelet.HoldPods(ctx)
}

// stop ends all processes of the cluster that were started.
func (c *cluster) stop(ctx context.Context) error {
	var all []error
	if c.kubelet != nil {
		c.kubelet.Close()
	}
	if c.federation != nil {
		all = append(all, c.federation.Stop(context.WithoutCancel(ctx)))
	}
	if c.network != nil {
		all = append(all, c.network.Close())
	}
	return errors.Join(all...)
}

// kubeconfig returns the path of the user's kubeconfig.
func (c *cluster) kubeconfig() string { return c.federation.Members[0].Kubeconfig() }
