// Package nodeinstall installs the node guard on a node as a systemd service, and removes it again.
package nodeinstall

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard"
)

// Paths on the node.
const (
	Binary  = "/opt/breakwater/bin/breakwater-node"
	Service = "breakwater-node.service"
	unit    = "/etc/systemd/system/" + Service
	// DefaultDir keeps what the guard knows, its certificate and the token of its account.
	DefaultDir = "/var/lib/breakwater-node"
	// DefaultKubeconfig is where kubeadm writes the kubelet's kubeconfig.
	DefaultKubeconfig = "/etc/kubernetes/kubelet.conf"
	// originalSuffix is added to the name of the kubelet's own kubeconfig.
	originalSuffix = ".breakwater-original"
	tokenName      = "token"
)

// Node is a node on which the guard is installed.
type Node struct {
	// Root is where the file system of the node is mounted; empty on the node itself.
	Root string
	// Name is the name of the Node object.
	Name string
	// Kubeconfig is the kubelet's, Dir is the guard's directory, and Listen the address for the kubelet.
	Kubeconfig, Dir, Listen string
	// Namespace is that of Breakwater in the cluster.
	Namespace string
	// Retention is how long a pod is held.
	Retention time.Duration
	// MetricsListen is where the guard serves metrics; empty for nowhere.
	MetricsListen string
	// KubeletService is restarted to use the new kubeconfig.
	KubeletService string
	// Out receives one line for each step.
	Out io.Writer
	// started reports that systemd knows the installed unit, and restart that it still has to run the installed program.
	started, restart bool
	// run runs systemctl; nil for that of the node.
	run func(ctx context.Context, arguments ...string) error
}

func (n *Node) path(p string) string { return filepath.Join(n.Root, p) }

// original returns the path of the kubeconfig that the kubelet had before.
func (n *Node) original() string { return n.Kubeconfig + originalSuffix }

// errNotRunning means that the guard could not be started.
var errNotRunning = errors.New("the node guard does not run")

// Install installs the guard, or brings an installation up to date. It restarts the kubelet only if its kubeconfig changes; no container stops.
func (n *Node) Install(ctx context.Context, token []byte) error {
	changed, err := n.keepOriginal()
	if err != nil {
		return err
	}
	if _, err := nodeguard.ReadKubeconfigAt(n.Root, n.original()); err != nil {
		return err
	}
	if err := os.MkdirAll(n.path(n.Dir), 0o700); err != nil {
		return err
	}
	if err := n.WriteToken(token); err != nil {
		return err
	}
	trusted, err := nodeguard.EnsureCertificate(n.path(n.Dir), time.Now())
	if err != nil {
		return err
	}
	written, err := n.installService()
	if err != nil {
		return err
	}
	n.restart = n.restart || changed || written
	if err := n.startService(ctx); err != nil {
		return fmt.Errorf("%w: %w", errNotRunning, err)
	}
	return n.point(ctx, trusted)
}

// startService starts the guard if it does not run. It returns when the guard serves the kubelet.
func (n *Node) startService(ctx context.Context) error {
	commands := [][]string{{"start", Service}}
	if n.restart || !n.started { // an earlier installation may have failed here
		commands = [][]string{{"daemon-reload"}, {"enable", Service}, {"start", Service}}
	}
	if n.restart {
		commands[2][0] = "restart"
	}
	for _, arguments := range commands {
		if err := n.systemctl(ctx, arguments...); err != nil {
			return err
		}
	}
	if n.restart {
		n.say("Started %s", Service)
	}
	n.started, n.restart = true, false
	return nil
}

// pointed begins a kubeconfig that leads to the guard.
const pointed = "# Written by breakwater-node. The kubelet's own kubeconfig is "

// keepOriginal copies the kubelet's kubeconfig, unless it leads to the guard. It reports whether the copy changed.
func (n *Node) keepOriginal() (changed bool, err error) {
	raw, err := os.ReadFile(n.path(n.Kubeconfig))
	if err != nil {
		return false, fmt.Errorf("read the kubelet's kubeconfig: %w", err)
	}
	if strings.HasPrefix(string(raw), pointed) {
		return false, nil
	}
	return writeFile(n.path(n.original()), raw, 0o600)
}

// tokenPath returns where the token of the guard's account is.
func (n *Node) tokenPath() string { return n.path(filepath.Join(n.Dir, tokenName)) }

// WriteToken stores the token of the guard's account.
func (n *Node) WriteToken(token []byte) error {
	_, err := writeFile(n.tokenPath(), token, 0o600)
	return err
}

// installService installs program and unit, and reports whether either changed.
func (n *Node) installService() (changed bool, err error) {
	for _, path := range []string{Binary, unit} {
		if err := os.MkdirAll(filepath.Dir(n.path(path)), 0o755); err != nil {
			return false, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	same, err := sameContent(self, n.path(Binary))
	if err != nil {
		return false, err
	}
	if !same {
		program, err := os.ReadFile(self)
		if err != nil {
			return false, err
		}
		if err := nodeguard.ReplaceFile(n.path(Binary), program, 0o755); err != nil {
			return false, err
		}
		n.say("Wrote %s", Binary)
	}
	changed, err = writeFile(n.path(unit), []byte(n.unit()), 0o644)
	if changed {
		n.say("Wrote %s", unit)
	}
	return changed || !same, err
}

// unit returns the systemd unit. The kubelet starts after the guard, but does not need it to start. The watchdog kills a guard that hangs or is
// stopped long before the node's Lease expires.
func (n *Node) unit() string {
	return fmt.Sprintf(`[Unit]
Description=Breakwater node guard: keeps containers of pods that the API server lost
Documentation=https://breakwater-k8s.github.io/breakwater/concepts/node-guard
Before=kubelet.service
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart=%s run --node=%s --kubeconfig=%s --dir=%s --listen=%s --token-file=%s --namespace=%s --retention=%s --metrics-listen=%s
TimeoutStartSec=10s
Restart=always
RestartSec=200ms
WatchdogSec=3s
WatchdogSignal=SIGKILL
MemoryMax=128M
OOMScoreAdjust=-999
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=%s

[Install]
WantedBy=multi-user.target
`, Binary, n.Name, n.original(), n.Dir, n.Listen, filepath.Join(n.Dir, tokenName), n.Namespace, n.Retention, n.MetricsListen, n.Dir)
}

// point makes the kubelet use the guard.
func (n *Node) point(ctx context.Context, trusted []byte) error {
	raw, err := os.ReadFile(n.path(n.original()))
	if err != nil {
		return err
	}
	want, err := throughGuard(raw, n.Listen, trusted)
	if err != nil {
		return err
	}
	want = append([]byte(pointed+n.original()+".\n"), want...)
	if changed, err := writeFile(n.path(n.Kubeconfig), want, 0o600); err != nil || !changed {
		return err
	}
	n.say("The kubelet uses the guard at %s; its own kubeconfig is %s", n.Listen, n.original())
	return n.systemctl(ctx, "restart", n.KubeletService)
}

// throughGuard returns a kubeconfig with the address and the certificate of the guard in all its clusters.
func throughGuard(kubeconfig []byte, listen string, trusted []byte) ([]byte, error) {
	var config map[string]any
	if err := yaml.Unmarshal(kubeconfig, &config); err != nil {
		return nil, fmt.Errorf("parse the kubelet's kubeconfig: %w", err)
	}
	all, _ := config["clusters"].([]any)
	if len(all) == 0 {
		return nil, errors.New("the kubelet's kubeconfig has no clusters")
	}
	for _, one := range all {
		named, _ := one.(map[string]any)
		cluster, ok := named["cluster"].(map[string]any)
		if !ok {
			return nil, errors.New("the kubelet's kubeconfig has a cluster without content")
		}
		delete(cluster, "certificate-authority")
		delete(cluster, "tls-server-name")
		cluster["server"], cluster["certificate-authority-data"] = "https://"+listen, base64.StdEncoding.EncodeToString(trusted)
	}
	return yaml.Marshal(config)
}

// Uninstall makes the kubelet use its API server directly, and removes the guard. It refuses while pods are held or registered, because the
// kubelet would then stop their containers, unless force is set.
func (n *Node) Uninstall(ctx context.Context, force bool) error {
	left, err := nodeguard.Exceptions(n.path(n.Dir), n.Name)
	if err != nil {
		return err
	}
	if len(left) > 0 && !force {
		return fmt.Errorf("the guard holds pods, or has registered them again: without it the kubelet restarts their containers. "+
			"Delete or release them first, or use --force: %s", strings.Join(left, ", "))
	}
	if err := n.pointAway(ctx); err != nil {
		return err
	}
	if _, err := os.Stat(n.path(unit)); err == nil {
		if err := n.systemctl(ctx, "disable", "--now", Service); err != nil {
			return err
		}
		n.say("Stopped %s", Service)
	}
	n.removeStatus(ctx)
	return errors.Join(remove(n.path(unit)), remove(n.path(Binary)), remove(n.path(n.original())), os.RemoveAll(n.path(n.Dir)))
}

// removeStatus removes the guard's report from the Node.
func (n *Node) removeStatus(ctx context.Context) {
	k, err := nodeguard.ReadKubeconfigAt(n.Root, n.original())
	if errors.Is(err, os.ErrNotExist) {
		return // it was not installed
	}
	if err == nil {
		err = nodeguard.NewAccount(k, n.tokenPath()).RemoveStatus(ctx, n.Name)
	}
	if err != nil {
		n.say("Node %s keeps the annotation %s: %v", n.Name, podhold.AnnotationStatus, err)
	}
}

// pointAway makes the kubelet use its API server directly, if it uses the guard.
func (n *Node) pointAway(ctx context.Context) error {
	have, err := os.ReadFile(n.path(n.Kubeconfig))
	if err != nil || !strings.HasPrefix(string(have), pointed) {
		return err
	}
	raw, err := os.ReadFile(n.path(n.original()))
	if err != nil {
		return fmt.Errorf("read the kubelet's own kubeconfig: %w", err)
	}
	if err := nodeguard.ReplaceFile(n.path(n.Kubeconfig), raw, 0o600); err != nil {
		return err
	}
	n.say("The kubelet uses its API server directly")
	return n.systemctl(ctx, "restart", n.KubeletService)
}

// bypass makes the kubelet use its API server directly because the guard does not run, so that the node does not become NotReady. It refuses
// where that would stop containers.
func (n *Node) bypass(ctx context.Context) error {
	left, err := nodeguard.Exceptions(n.path(n.Dir), n.Name)
	if err != nil || len(left) > 0 {
		return errors.Join(fmt.Errorf("the kubelet still uses the guard, which holds or has registered %s", printable.Count(len(left), "pod")), err)
	}
	return n.pointAway(ctx)
}

// systemctl runs systemctl on the node. In a container it speaks with the node's systemd by the node's file system.
func (n *Node) systemctl(ctx context.Context, arguments ...string) error {
	if n.run != nil {
		return n.run(ctx, arguments...)
	}
	command := exec.CommandContext(ctx, "systemctl", arguments...)
	if n.Root != "" {
		command = exec.CommandContext(ctx, "/usr/bin/systemctl", arguments...)
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: n.Root}
		command.Dir = "/"
		command.Env = append(os.Environ(), "SYSTEMD_IGNORE_CHROOT=1")
		command.Err = nil // the program is looked up on the node
	}
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (n *Node) say(format string, arguments ...any) {
	_, _ = fmt.Fprintf(n.Out, format+"\n", arguments...)
}

// writeFile writes a file unless it has that content, and reports whether it changed.
func writeFile(path string, content []byte, mode os.FileMode) (changed bool, err error) {
	if old, err := os.ReadFile(path); err == nil && string(old) == string(content) {
		return false, nil
	}
	return true, nodeguard.ReplaceFile(path, content, mode)
}

// sameContent compares files without keeping them in memory. A file that does not exist differs.
func sameContent(wanted, path string) (bool, error) {
	var sums [2][sha256.Size]byte
	for i, name := range []string{wanted, path} {
		file, err := os.Open(name)
		if i == 1 && errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		sum := sha256.New()
		_, err = io.Copy(sum, file)
		if err := errors.Join(err, file.Close()); err != nil {
			return false, err
		}
		sums[i] = [sha256.Size]byte(sum.Sum(nil))
	}
	return sums[0] == sums[1], nil
}

// remove removes a file, if it exists.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
