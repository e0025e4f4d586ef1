package nodeinstall

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard/podwire"
)

// host is the file system and systemd of a node.
type host struct {
	*testing.T
	*Agent
	root string
	// commands has the calls of systemctl. fails makes those with a prefix fail.
	commands []string
	fails    string
	// requests counts requests for tokens.
	requests int
	denied   error
}

const ownKubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", certificate-authority: /etc/kubernetes/pki/ca.crt}}]
users: [{name: u, user: {client-certificate: /var/lib/kubelet/pki/current.pem, client-key: /var/lib/kubelet/pki/current.pem}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{T: t, root: t.TempDir()}
	_, _, authority := testplane.Certificate(t)
	h.write("/etc/kubernetes/pki/ca.crt", string(authority))
	h.write("/etc/systemd/system/x", "")
	h.write(DefaultKubeconfig, ownKubeconfig)
	h.Agent = &Agent{
		Node: &Node{
			Root: h.root, Name: "a", Kubeconfig: DefaultKubeconfig, Dir: DefaultDir, Listen: "127.0.0.1:16443", Namespace: "breakwater-system",
			Retention: time.Hour, KubeletService: "kubelet", Out: io.Discard,
		},
		ServiceAccount: "breakwater-node", Tokens: h, Log: logr.Discard(),
	}
	h.run = func(_ context.Context, arguments ...string) error {
		command := strings.Join(arguments, " ")
		h.commands = append(h.commands, command)
		if h.fails != "" && strings.HasPrefix(command, h.fails) {
			return errors.New("exit status 1")
		}
		return nil
	}
	return h
}

// RequestToken implements the interface of Agent.Tokens.
func (h *host) RequestToken(context.Context, string, string, string) ([]byte, time.Time, error) {
	h.requests++
	return []byte("token"), time.Now().Add(time.Hour), h.denied
}

func (h *host) path(path string) string { return filepath.Join(h.root, path) }

func (h *host) write(path, content string) {
	h.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(h.path(path)), 0o755), os.WriteFile(h.path(path), []byte(content), 0o600)); err != nil {
		h.Fatal(err)
	}
}

func (h *host) readAt(path string) string {
	h.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		h.Fatal(err)
	}
	return string(raw)
}

func (h *host) read(path string) string {
	h.Helper()
	return h.readAt(h.path(path))
}

// hold makes the guard's directory one of a guard that holds a pod.
func (h *host) hold() {
	h.Helper()
	raw, err := podwire.Encode(podwire.JSON, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "uid"}, Spec: corev1.PodSpec{NodeName: h.Node.Name}})
	if err != nil {
		h.Fatal(err)
	}
	head, err := json.Marshal(map[string]any{"format": podwire.JSON, "heldSince": time.Now()})
	if err != nil {
		h.Fatal(err)
	}
	content := slices.Concat(head, []byte("\n"), raw)
	h.write(DefaultDir+"/pods/uid.pod", string(binary.BigEndian.AppendUint32(content, crc32.Checksum(content, crc32.MakeTable(crc32.Castagnoli)))))
}

// want runs a check, and compares the calls of systemctl.
func (h *host) want(commands ...string) {
	h.Helper()
	h.commands = nil
	if err := h.check(h.Context()); err != nil {
		h.Fatal(err)
	}
	if !slices.Equal(h.commands, commands) {
		h.Errorf("systemctl was called with %q, want %q", h.commands, commands)
	}
}

func (h *host) wantKubelet(throughGuard bool) {
	h.Helper()
	config := h.read(DefaultKubeconfig)
	if got := strings.Contains(config, "server: https://"+h.Listen); got != throughGuard || !throughGuard && config != ownKubeconfig {
		h.Errorf("kubelet's kubeconfig, want that it leads to the guard: %v:\n%s", throughGuard, config)
	}
}

var installed = []string{"daemon-reload", "enable " + Service, "restart " + Service}

func TestAgentInstallsAndKeepsTheGuard(t *testing.T) {
	h := newHost(t)
	h.want(append(installed, "restart kubelet")...)
	h.wantKubelet(true)
	config := h.read(DefaultKubeconfig)
	if strings.Contains(config, "certificate-authority:") || !strings.Contains(config, "certificate-authority-data: ") || !strings.Contains(config, "client-key: /var/lib/kubelet/pki/current.pem") {
		t.Errorf("kubelet's kubeconfig, want its own client certificate, and the CA of the guard only:\n%s", config)
	}
	if section, _, _ := strings.Cut(h.read(unit), "[Service]"); !strings.Contains(section, "StartLimitIntervalSec=0\n") {
		t.Errorf("the unit stops to restart the guard if that crashes:\n%s", section)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if h.read(Binary) != h.readAt(self) || h.read(DefaultDir+"/token") != "token" || h.read(DefaultKubeconfig+originalSuffix) != ownKubeconfig {
		t.Error("program, token or copy of the kubeconfig are not those of the agent")
	}
	h.want("start " + Service)
	if h.requests != 1 {
		t.Errorf("%d requests for tokens, want 1", h.requests)
	}

	// Another agent does not restart it.
	h.started = false
	h.want("daemon-reload", "enable "+Service, "start "+Service)

	// kubeadm writes the kubeconfig again, with another API server.
	rewritten := strings.Replace(ownKubeconfig, "127.0.0.1:1", "127.0.0.1:2", 1)
	h.write(DefaultKubeconfig, rewritten)
	h.want(append(installed, "restart kubelet")...)
	h.wantKubelet(true)
	if got := h.read(DefaultKubeconfig + originalSuffix); got != rewritten {
		t.Errorf("copy of the kubelet's kubeconfig:\n%s\nwant the new one", got)
	}

	// A new version, and another port. The copy stays that of the kubelet.
	h.write(Binary, "older")
	h.want(installed...)
	h.Listen = "127.0.0.1:26443"
	h.want(append(installed, "restart kubelet")...)
	h.wantKubelet(true)
	if got := h.read(DefaultKubeconfig + originalSuffix); got != rewritten {
		t.Errorf("copy of the kubelet's kubeconfig after a change of the port:\n%s\nwant it unchanged", got)
	}
}

func TestTokenIsRenewedAndTheOldOneIsUsedMeanwhile(t *testing.T) {
	h := newHost(t)
	h.denied = errors.New("no route to host")
	if err := h.check(t.Context()); !errors.Is(err, h.denied) || len(h.commands) > 0 {
		t.Errorf("installation without a token: error %v, commands %q, want neither", err, h.commands)
	}
	h.write(DefaultDir+"/token", "of an earlier agent")
	if err := h.check(t.Context()); !errors.Is(err, h.denied) {
		t.Errorf("check without the API server: error %v, want %v", err, h.denied)
	}
	h.wantKubelet(true)
	if got := h.read(DefaultDir + "/token"); got != "of an earlier agent" {
		t.Errorf("token %q, want that of the earlier agent", got)
	}
	h.denied = nil
	h.want("start " + Service)
	if got := h.read(DefaultDir + "/token"); got != "token" {
		t.Errorf("token %q, want the new one", got)
	}
	if left := time.Until(h.renewAt); left < 15*time.Minute || left > 25*time.Minute {
		t.Errorf("a token of one hour is renewed in %s, want a third of its life", left)
	}
}

// A guard that does not start must not be the reason that a node becomes NotReady.
func TestKubeletBypassesAGuardThatDoesNotStart(t *testing.T) {
	h := newHost(t)
	h.fails = "restart " + Service
	if err := h.check(t.Context()); !errors.Is(err, errNotRunning) {
		t.Errorf("error %v, want %v", err, errNotRunning)
	}
	h.wantKubelet(false)
	h.fails = ""
	h.want(append(installed, "restart kubelet")...)
	h.wantKubelet(true)

	h.fails, h.commands = "start "+Service, nil
	if err := h.check(t.Context()); !errors.Is(err, errNotRunning) || !slices.Equal(h.commands, []string{"start " + Service, "restart kubelet"}) {
		t.Errorf("error %v, commands %q, want %v and a restart of the kubelet", err, h.commands, errNotRunning)
	}
	h.wantKubelet(false)

	// Containers of held pods would stop.
	h.fails = ""
	h.want("start "+Service, "restart kubelet")
	h.hold()
	h.fails = "start " + Service
	if err := h.check(t.Context()); !errors.Is(err, errNotRunning) {
		t.Errorf("error %v, want %v", err, errNotRunning)
	}
	h.wantKubelet(true)
}

func TestUninstallRestoresTheKubelet(t *testing.T) {
	h := newHost(t)
	h.want(append(installed, "restart kubelet")...)
	h.hold()
	h.Remove = true
	if err := h.check(t.Context()); err == nil || !strings.Contains(err.Error(), "shop/web-0") {
		t.Errorf("uninstallation while a pod is held: error %v, want one that names it", err)
	}
	h.wantKubelet(true)
	if err := os.Remove(h.path(DefaultDir + "/pods/uid.pod")); err != nil {
		t.Fatal(err)
	}
	h.want("restart kubelet", "disable --now "+Service)
	h.wantKubelet(false)
	for _, path := range []string{Binary, unit, DefaultDir, DefaultKubeconfig + originalSuffix} {
		if _, err := os.Stat(h.path(path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s still exists: %v", path, err)
		}
	}
	h.want() // it is uninstalled
	h.wantKubelet(false)
}

func TestUninstallKeepsNewerKubeconfig(t *testing.T) {
	h := newHost(t)
	h.want(append(installed, "restart kubelet")...)
	rewritten := strings.Replace(ownKubeconfig, "127.0.0.1:1", "127.0.0.1:2", 1)
	h.write(DefaultKubeconfig, rewritten)
	if err := h.Uninstall(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if got := h.read(DefaultKubeconfig); got != rewritten {
		t.Errorf("kubelet's kubeconfig:\n%s\nwant the one that was written meanwhile", got)
	}
}

func TestProbesSeeWhetherTheLastCheckSucceeded(t *testing.T) {
	h := newHost(t)
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
		if recorder.Code != want {
			t.Errorf("probe: status %d, want %d", recorder.Code, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // after one check
		if err := h.Agent.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
