package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/cli"
)

// frozenServer accepts requests and never answers.
type frozenServer struct {
	*httptest.Server
	mutex    sync.Mutex
	requests []string
}

func newFrozenServer(t *testing.T) *frozenServer {
	t.Helper()
	f := &frozenServer{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		f.mutex.Lock()
		f.requests = append(f.requests, r.URL.Path)
		f.mutex.Unlock()
		<-r.Context().Done()
	}))
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// received returns the paths of the requests so far.
func (f *frozenServer) received() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.requests)
}

// runWithFrozenCore runs a command with a core that never answers.
func (b *explainFixture) runWithFrozenCore(core string, arguments ...string) (out, errOut string, code int) {
	b.Helper()
	var stdout, stderr bytes.Buffer
	root := rootCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr})
	path := writeContexts(b.T, "here", map[string]*rest.Config{"here": testplane.Config(b.T), "frozen": {Host: core}})
	root.SetArgs(append(arguments, "--kubeconfig", path, "-n", b.namespace, "--core-context", "frozen", "--request-timeout", "2s"))
	code = cli.ExitCode(b.Context(), root)
	return stdout.String(), stderr.String(), code
}

// A core that does not answer costs one wait, and a command says at once what it knows without the core.
func TestCommandsWithFrozenCore(t *testing.T) {
	const waiting, unknown = "note: waiting for the core cluster, for at most", "the verdict is unknown"
	createCellWebhooks(t, testplane.Config(t), "frozen-cell")
	calls := []string{"--cell", "frozen-cell"}
	for claim, c := range map[string]frozenCoreCase{
		"the verdict of a protected pod is unknown": {
			append([]string{"explain", "pod/web-0"}, calls...), nil, 1,
			[]string{"in cell frozen-cell: unknown, because no core cluster could be read", "frozen-cell.breakwater.dev of test-", "The protectors are unknown: http://127.0.0.1", "does not answer"},
			[]string{waiting, "webhooks: frozen-cell.breakwater.dev of test-", "kubectl breakwater: " + unknown}, []string{"No protector covers", "Remedies", "no core has a Cell"}, nil,
		},
		"the verdict of a pod without a node is known": {
			append([]string{"explain", "pod/web-0"}, calls...), func(p *corev1.Pod) { p.Spec.NodeName = "" }, 0,
			[]string{"allowed", "it is not scheduled to a node"}, nil, nil, []string{waiting, unknown},
		},
		"the verdict of break-glass is known": {
			append([]string{"explain", "pod/web-0"}, calls...), func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationForceDelete: "true"} }, 0,
			[]string{"in cell frozen-cell: allowed"}, nil, nil, []string{waiting, unknown},
		},
		"the verdict without a webhook is known": {
			[]string{"explain", "pod/web-0", "--cell", "bare", "--cell-context", "bare=here"}, nil, 0,
			[]string{"allowed: the API server does not call Breakwater", "no webhook: no ValidatingWebhookConfiguration"}, nil, nil, []string{waiting, unknown},
		},
		"the API server answers, although it has no webhook that responds": {
			append([]string{"explain", "pod/web-0", "--ask"}, calls...), nil, 0,
			[]string{"in cell frozen-cell: allowed, as the API server answers", "The protectors are unknown"}, []string{waiting}, nil, []string{unknown},
		},
		"JSON has the known facts": {
			append([]string{"explain", "pod/web-0", "-o", "json"}, calls...), nil, 1,
			[]string{`"coresUnread": "`, `"verdict": "Unknown"`, `"asked": "Yes"`}, []string{waiting}, []string{`"code"`}, nil,
		},
		"break-glass works": {
			append([]string{"force", "pod/web-0", "--reason", "fire", "--yes"}, calls...), nil, 0,
			[]string{"webhooks", "pod/web-0 is annotated"}, []string{waiting, "cannot determine which protectors the removal would override"}, nil, nil,
		},
		"break-glass of a pod without a node is not necessary": {
			append([]string{"force", "pod/web-0", "--reason", "fire", "--yes"}, calls...), func(p *corev1.Pod) { p.Spec.NodeName = "" }, 0,
			[]string{"break-glass is not needed"}, nil, []string{"is annotated"}, []string{waiting},
		},
		"doctor checks the cell": {
			append([]string{"doctor", "--check", "apiserver,webhook,guarding,pods", "-o", "wide"}, calls...), nil, 1,
			[]string{"PROBLEM core: apiserver", "cell frozen-cell: guarding", "OK cell frozen-cell: pods"}, []string{waiting}, nil, nil,
		},
	} {
		t.Run(claim, func(t *testing.T) { c.check(newExplainFixture(t, nil)) })
	}
}

// frozenCoreCase is a command with a core that never answers: its exit code, and what it prints and does not print to both streams. change, if set, changes
// the pod.
type frozenCoreCase struct {
	arguments     []string
	change        func(*corev1.Pod)
	code          int
	out, errOut   []string
	notOut, notOn []string
}

func (c *frozenCoreCase) check(b *explainFixture) {
	b.Helper()
	core := newFrozenServer(b.T)
	b.podWith(c.change)
	out, errOut, code := b.runWithFrozenCore(core.URL, c.arguments...)
	if code != c.code {
		b.Errorf("exit code %d, want %d", code, c.code)
	}
	wantWords(b.T, strings.ToLower(out), lower(c.out)...)
	wantWords(b.T, errOut, c.errOut...)
	wantNoWords(b.T, out, c.notOut...)
	wantNoWords(b.T, errOut, c.notOn...)
	// One wait is one request: a second request would begin after the first was given up.
	if paths := core.received(); len(paths) > 1 {
		b.Errorf("the core received %q, want at most one request", paths)
	}
	if b.Failed() {
		b.Logf("%s%s", out, errOut)
	}
}

func lower(words []string) (all []string) {
	for _, word := range words {
		all = append(all, strings.ToLower(word))
	}
	return all
}

// podWith creates the pod web-0, which is available unless change says otherwise.
func (b *explainFixture) podWith(change func(*corev1.Pod)) {
	b.Helper()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.Spec.NodeName = b.namespace, "web-0", "node-1"
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	if change != nil {
		change(pod)
	}
	b.create(pod)
}

// A server that accepts connections and never completes the TLS handshake costs no more than one that never responds.
func TestExplainWithFrozenTLS(t *testing.T) {
	b := newExplainFixture(t, nil)
	b.podWith(nil)
	createCellWebhooks(t, testplane.Config(t), "frozen-cell")
	out, errOut, code := b.runWithFrozenCore(unresponsiveServer(t), "explain", "pod/web-0", "--cell", "frozen-cell")
	if code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	wantWords(t, out, "unknown, because no core cluster could be read")
	wantWords(t, errOut, "does not answer", "deadline exceeded")
}
